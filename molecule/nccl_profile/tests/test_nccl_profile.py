"""What a process on the node would read from the profile."""

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

EXPECTED = {
    "gpuserver1": {
        "NCCL_NET": "IB",
        "NCCL_IB_HCA": "=mlx4_0:1,mlx4_0:2",
        "NCCL_SOCKET_IFNAME": "=enp5s0",
        "NCCL_IB_TC": "106",
        "NCCL_CROSS_NIC": "0",
    },
    "gpuserver2": {"NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "=enp5s0"},
}


def read_as_nccl(text):
    """NCCL's own rules: '#' counts only as first character, the first '=' splits, nothing is trimmed."""
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def expected(name):
    return EXPECTED[name]


def test_nccl_reads_these_settings(host, expected):
    conf = host.file("/etc/nccl.conf")
    assert read_as_nccl(conf.content_string) == expected
    assert (conf.user, conf.group, conf.mode) == ("root", "root", 0o644)


def test_a_service_gets_the_same_from_the_env_file(host, expected):
    out = host.check_output(
        "systemd-run --quiet --pipe --wait --collect --property EnvironmentFile=/etc/railyard/nccl.env env"
    )
    got = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("NCCL_"))
    assert got == expected

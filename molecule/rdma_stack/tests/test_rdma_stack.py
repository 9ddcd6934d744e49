"""User space of RDMA is there and runs where it was asked for, and nothing is where it was not."""

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

PROGRAMS = ["ibv_devices", "ibv_devinfo", "ibstat"]


@pytest.fixture
def asked(host):
    return host.backend.get_pytest_id().endswith("gpuserver1")


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_is_there_where_asked(host, asked, program):
    assert host.exists(program) == asked


def test_verbs_library_loads_and_finds_its_providers(host, asked):
    if not asked:
        pytest.skip("RDMA is not asked of this node")
    out = host.run("ibv_devices")
    assert out.rc == 0, out.stderr
    assert "device" in out.stdout
    assert host.run("ls /etc/libibverbs.d/mlx5.driver").rc == 0


def test_containers_load_no_module_into_their_host(host):
    assert not host.file("/etc/modules-load.d/railyard-rdma.conf").exists

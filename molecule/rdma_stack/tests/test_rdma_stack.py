"""User space of RDMA is there and runs where it was requested, and nothing is where it was not."""

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

PROGRAMS = ["ibv_devices", "ibv_devinfo", "ibstat"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_is_there_where_asked(host, is_configured, program):
    assert host.exists(program) == is_configured


def test_verbs_library_runs_and_has_its_providers(host, is_configured):
    out = host.run("ibv_devices")
    # It gets as far as the kernel: an empty list, or a kernel without RDMA; no library is missing.
    reached_the_kernel = "node GUID" in out.stdout or "Failed to get IB devices list" in out.stderr
    assert reached_the_kernel == is_configured, out
    assert host.file("/etc/libibverbs.d/mlx4.driver").exists == is_configured


def test_containers_load_no_module_into_their_host(host):
    assert not host.file("/etc/modules-load.d/railyard-rdma.conf").exists

"""User space of RDMA is there and runs where it was asked for, and nothing is where it was not."""

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

PROGRAMS = ["ibv_devices", "ibv_devinfo", "ibstat"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_is_there_where_asked(host, asked, program):
    assert host.exists(program) == asked


def test_verbs_library_runs_and_has_its_providers(host, asked):
    out = host.run("ibv_devices")
    # It gets as far as the kernel: an empty list, or a kernel without RDMA; no library is missing.
    reached_the_kernel = "node GUID" in out.stdout or "Failed to get IB devices list" in out.stderr
    assert reached_the_kernel == asked, out
    assert host.file("/etc/libibverbs.d/mlx4.driver").exists == asked


def test_containers_load_no_module_into_their_host(host):
    assert not host.file("/etc/modules-load.d/railyard-rdma.conf").exists

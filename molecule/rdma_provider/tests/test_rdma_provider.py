"""The ConnectX-7 has the vendor's pinned stack, the ConnectX-3 the kernel's own; nothing was restarted."""

import json

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

KERNEL = "6.8.0-60-generic"


@pytest.fixture
def current(host):
    return host.backend.get_pytest_id().endswith("gpuserver1")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("doca-ofed", "3.1.0"),
        ("mlnx-ofed-kernel-dkms", "25.07.OFED.25.07.0.9.7.1-1"),
        ("mlnx-ofed-kernel-utils", "25.07.OFED.25.07.0.9.7.1-1"),
    ],
)
def test_the_vendors_stack_is_pinned_and_held_where_the_card_has_a_driver_in_it(host, current, name, version):
    found = host.run(f"dpkg-query -W -f '${{Version}} ${{Status}}' {name}").stdout
    assert found == (f"{version} hold ok installed" if current else "")


def test_the_module_is_built_for_the_kernel_that_runs(host, current):
    out = host.run(f"modinfo -k {KERNEL} -F version mlx5_core")
    assert (out.stdout.strip() == "25.07-0.9.7") == current, out


def test_the_headers_of_the_next_kernel_will_come_with_it(host, current):
    assert host.package("linux-headers-railyard").is_installed == current
    assert host.package("linux-image-railyard").is_installed


@pytest.mark.parametrize("options", ["", "-o Dir::Etc::preferencesparts=/dev/null"])
def test_an_upgrade_of_everything_leaves_the_driver_alone(host, options):
    # The second without apt's pins: dpkg's hold alone keeps it.
    simulated = host.run(f"apt-get --simulate {options} dist-upgrade")
    assert simulated.rc == 0, simulated
    moved = [line.split()[1] for line in simulated.stdout.splitlines() if line.startswith(("Inst ", "Remv "))]
    assert not [name for name in moved if name.startswith(("doca", "mlnx"))]


def test_firmware_is_not_written_by_an_installation(host, current):
    policy = host.run("apt-cache policy mlnx-fw-updater").stdout
    assert ("Candidate: (none)" in policy) == current, policy


def test_the_repository_is_there_where_it_is_used(host, current):
    assert host.file("/etc/apt/sources.list.d/railyard-rdma-stack.sources").exists == current


def test_the_older_card_has_the_user_space_of_the_distribution(host, current):
    if not current:  # on the other node another scenario may have brought it
        assert host.package("ibverbs-providers").is_installed


def test_slurm_is_not_asked_where_nothing_is_restarted(host):
    assert host.file("/usr/local/bin/scontrol").exists
    assert not host.file("/usr/local/bin/scontrol.json").exists


def test_the_restart_waits_for_consent(host, current):
    assert not host.file("/opt/bus/sys/module/mlx5_core/version").exists
    waits = host.file("/var/lib/railyard/waits/rdma_stack.json")
    assert waits.exists == current
    if current:
        (item,) = json.loads(waits.content_string)["items"]
        assert item["needs"] == "module_restart"
        assert "mlx5_core inbox is loaded, 25.07-0.9.7 is installed" in item["why"]

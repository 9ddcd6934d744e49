"""The role node_tuning on a kernel of its own: the real cpufreq core, rings, a reboot, and a restore.

A virtual machine has no clock to govern, so that a driver of our own gives it one (`railyard_clock`): all
above it is Debian's kernel. The tests build on one another in the order of this file.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator

import pytest
from drivers.machine import Machine
from e2e.support import ROOT, edited

pytestmark = pytest.mark.usefixtures("in_their_order")

MODULE = "railyard_clock"
SOURCE = ROOT / "tests" / "drivers" / MODULE
CLOCK = "/sys/devices/system/cpu/cpu*/cpufreq/"
# Of the driver's source, in kHz.
SLOW, FAST = "1200000", "3600000"
# Of the lab's rails; QEMU's cards have 256 descriptors each way at most.
PORTS = ("ens6", "ens6d1")
RINGS = {"rx": "128", "tx": "max"}
# Values that Debian's kernel does not have by itself, but for the last: this machine has one NUMA node.
SET = {
    "/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
    "/proc/sys/net/core/rmem_max": "268435456",
    "/proc/sys/net/core/default_qdisc": "fq",
    "/proc/sys/net/ipv4/tcp_mtu_probing": "1",
    "/proc/sys/kernel/numa_balancing": "0",
}


def clocks(machine: Machine, name: str) -> list[str]:
    """What a file of cpufreq says of each CPU."""
    return machine.sh("cat", f"{CLOCK}{name}").split()


def rings(machine: Machine, port: str) -> tuple[str, ...]:
    """Descriptors of a port, rx and tx, as ethtool tells them."""
    now = machine.sh("ethtool", "-g", port).partition("Current hardware settings:")[2]
    return tuple(re.findall(r"^[RT]X:\s+(\d+)", now, re.M))


def picture(machine: Machine) -> list[str]:
    """All that the node is, in lines."""
    return machine.sh("/root/picture.sh").splitlines()


def different(before: list[str], after: list[str]) -> list[str]:
    """The lines in which two pictures differ, with - and +."""
    lines = difflib.unified_diff(before, after, "before", "after", lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def assert_tuned(machine: Machine) -> None:
    """Assert that the node is as the test's inventory says, by itself and as `railyard verify` reads it."""
    assert clocks(machine, "scaling_governor") == ["performance"] * 2
    # The kernel has notified the driver, which answers.
    assert clocks(machine, "cpuinfo_cur_freq") == [FAST] * 2
    assert {port: rings(machine, port) for port in PORTS} == dict.fromkeys(PORTS, ("128", "256"))
    for path, value in SET.items():
        assert machine.sh("cat", path) == value, path
    assert machine.sh("su", "railyard", "-s", "/bin/sh", "-c", "'ulimit -n; ulimit -l'").split() == [
        "1048576",
        "unlimited",
    ]
    verified(machine)


def verified(machine: Machine) -> None:
    """Assert that `railyard verify` finds what is tuned as the inventory says, and skips no governor."""
    tests = "test_tuning or test_cpu_governor or test_memory_can_be_locked"
    done = machine.cluster.railyard("verify", "-i", str(machine.cluster.inventory), "--", "-k", tests)
    assert done.returncode == 0, done.stdout
    assert "governor" not in done.stdout, done.stdout


@pytest.fixture(scope="module")
def pictures(machine: Machine) -> Iterator[dict[str, list[str]]]:
    """Pictures of the node by when they were drawn; it has the driver, and the inventory asks of it."""
    inventory = machine.cluster.fabric_file.read_text()
    with edited(machine.cluster.fabric_file) as variables:
        variables |= {
            "node_tuning_node_class": "hardware",
            "node_tuning_ring_sizes": RINGS,
            "node_tuning_transparent_hugepage": "never",
        }
    for path in SOURCE.iterdir():
        machine.cluster.put(machine.node, f"/root/{path.name}", path.read_text())
    modules = f"/lib/modules/{machine.sh('uname', '-r')}"
    print(machine.sh("make", "-C", f"{modules}/build", "M=/root", "modules"))
    machine.sh("install", "-D", "-t", f"{modules}/extra", f"/root/{MODULE}.ko")
    machine.sh("depmod")
    machine.sh("sh", "-c", f"'echo {MODULE} >/etc/modules-load.d/{MODULE}.conf'")
    machine.sh("modprobe", MODULE)
    camera = ROOT / "molecule" / "uninstall" / "picture.sh"
    machine.cluster.put(machine.node, "/root/picture.sh", camera.read_text())
    yield {"before": picture(machine)}
    # For anyone who boots another kernel of this machine, which has no such driver.
    machine.cluster.fabric_file.write_text(inventory)
    machine.sh("rm", f"/etc/modules-load.d/{MODULE}.conf", f"/lib/modules/*/extra/{MODULE}.ko", check=False)
    machine.sh("depmod", check=False)
    machine.sh("rmmod", MODULE, check=False)


def test_training_sets_the_governor_of_a_real_driver_and_leaves_rings_without_consent(
    machine: Machine, pictures: dict[str, list[str]]
) -> None:
    assert clocks(machine, "scaling_driver") == [MODULE] * 2
    assert clocks(machine, "scaling_governor") == ["schedutil"] * 2  # Debian's default
    status, said = machine.playbook("playbooks/tuning.yml")
    assert status == 0, said
    assert "ethtool -G ens6 rx 128 tx 256; ethtool -G ens6d1 rx 128 tx 256: not done" in said
    assert clocks(machine, "scaling_governor") == ["performance"] * 2
    assert {port: rings(machine, port) for port in PORTS} == dict.fromkeys(PORTS, ("256", "256"))


def test_rings_are_resized_with_consent(machine: Machine, pictures: dict[str, list[str]]) -> None:
    status, said = machine.playbook("playbooks/tuning.yml", node_tuning_allow_ring_resize=True)
    assert status == 0, said
    assert_tuned(machine)
    recorded = json.loads(machine.sh("cat", "/var/lib/railyard/node_tuning/originals.json"))
    assert recorded["rings"] == dict.fromkeys(PORTS, "rx 256 tx 256")
    assert recorded["governors"] == {"cpu0": "schedutil", "cpu1": "schedutil"}
    pictures["training"] = picture(machine)


def test_all_of_it_holds_after_a_reboot(machine: Machine, pictures: dict[str, list[str]]) -> None:
    boot_id = machine.boot_id()
    status, said = machine.reboot()
    assert status == 0, said
    assert machine.boot_id() != boot_id
    assert_tuned(machine)
    assert different(pictures["training"], picture(machine)) == []


def test_powersave_differs_by_the_governor_alone(machine: Machine, pictures: dict[str, list[str]]) -> None:
    with edited(machine.cluster.fabric_file) as variables:
        variables["node_tuning_profile"] = "powersave"
    status, said = machine.playbook("playbooks/tuning.yml")
    assert status == 0, said
    verified(machine)
    unit = "/etc/systemd/system/railyard-cpu-governor.service"
    lines = different(pictures["training"], picture(machine))
    assert [line for line in lines if not line.endswith(unit)] == [
        *(f"-/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor:performance" for cpu in (0, 1)),
        *(f"+/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor:schedutil" for cpu in (0, 1)),
    ]
    assert [line[0] for line in lines if line.endswith(unit)] == ["-", "+"]


def test_a_governor_that_is_a_module_is_loaded_when_configured(
    machine: Machine, pictures: dict[str, list[str]]
) -> None:
    assert not machine.loaded("cpufreq_powersave")
    status, said = machine.playbook("playbooks/tuning.yml", node_tuning_governor="powersave")
    assert status == 0, said
    assert clocks(machine, "scaling_governor") == ["powersave"] * 2
    assert clocks(machine, "cpuinfo_cur_freq") == [SLOW] * 2


def test_uninstall_leaves_the_node_as_it_was(machine: Machine, pictures: dict[str, list[str]]) -> None:
    status, said = machine.playbook("playbooks/uninstall.yml", railyard_allow_uninstall=True)
    assert status == 0, said
    assert len(pictures["before"]) > 200
    assert different(pictures["before"], picture(machine)) == []

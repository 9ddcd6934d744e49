from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import irqs
from ansible_collections.railyard.fabric.plugins.module_utils.kernel.settings import Wanted
from support.nodes import held_kernel

FIRST, SECOND = "mlx5_comp0@pci:0000:3b:00.0", "mlx5_comp1@pci:0000:3b:00.0"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def node(tmp_path):
    """Two NUMA nodes; ens6 is on the second, one of its three interrupts inside, one outside, one unused."""
    write(tmp_path / "sys/devices/system/node/online", "0-1")
    device = tmp_path / "sys/devices/pci0000:3a/0000:3b:00.0"
    write(device / "numa_node", "1")
    write(device / "local_cpulist", "8-15,24-31")
    for number, name, cpus in (("41", FIRST, "0-31"), ("42", SECOND, "9"), ("43", "", "0-31")):
        write(device / "msi_irqs" / number, "msix")
        write(tmp_path / "sys/kernel/irq" / number / "actions", name)
        write(tmp_path / irqs.affinity_path(number), cpus)
    (tmp_path / "sys/class/net/ens6").mkdir(parents=True)
    (tmp_path / "sys/class/net/ens6/device").symlink_to("../../../devices/pci0000:3a/0000:3b:00.0")
    return tmp_path


def affinity(node, number):
    return (node / irqs.affinity_path(number)).read_text().strip()


def hold(node, record, netdevs):
    record, writes = held_kernel.hold(node, record, Wanted(irq_netdevs=netdevs))
    return record, [write.path for write in writes]


def test_cpus_are_numbers_and_ranges():
    assert irqs.cpus_of("0-3,8,10-11") == {0, 1, 2, 3, 8, 10, 11}
    assert irqs.cpus_of("") == set()


def test_what_is_outside_its_node_is_brought_in_and_recorded_and_what_is_inside_stays(node):
    record, written = hold(node, None, ["ens6"])
    assert written == ["proc/irq/41/smp_affinity_list"]
    assert [affinity(node, number) for number in ("41", "42", "43")] == ["8-15,24-31", "9", "0-31"]
    assert record == {"schema": 1, "irqs": {FIRST: "0-31"}}
    assert hold(node, record, ["ens6"]) == (record, [])


def test_it_comes_back_by_its_name_though_a_boot_has_given_it_another_number(node):
    record = hold(node, None, ["ens6"])[0]
    write(node / "sys/kernel/irq/41/actions", "ahci")
    write(node / "sys/kernel/irq/77/actions", FIRST)
    write(node / irqs.affinity_path("77"), "8-15,24-31")
    assert hold(node, record, None) == (None, ["proc/irq/77/smp_affinity_list"])
    assert affinity(node, "77") == "0-31"


def test_a_node_with_one_numa_node_has_nothing_to_place(node):
    write(node / "sys/devices/system/node/online", "0")
    assert hold(node, None, ["ens6"]) == (None, [])
    assert irqs.read(str(node), ["ens6"])["irq_ports"] == {}


@pytest.mark.parametrize(
    ("netdev", "numa_node", "why"),
    [("ens6", "-1", "the firmware does not say"), ("veth0", "1", "no interrupts of its own")],
)
def test_a_port_of_which_nothing_is_known_is_left_alone_and_named(node, netdev, numa_node, why):
    write(node / "sys/devices/pci0000:3a/0000:3b:00.0/numa_node", numa_node)
    assert why in irqs.read(str(node), [netdev])["irq_unknown"][netdev]
    assert hold(node, None, [netdev]) == (None, [])


def test_interrupts_of_a_device_below_the_one_on_the_bus_are_found(node):
    (node / "sys/devices/pci0000:3a/0000:3b:00.0/virtio3").mkdir()
    (node / "sys/class/net/eth0").mkdir()
    (node / "sys/class/net/eth0/device").symlink_to("../../../devices/pci0000:3a/0000:3b:00.0/virtio3")
    assert irqs.read(str(node), ["eth0"])["irq_ports"] == {"eth0": "0000:3b:00.0"}


def test_the_program_does_the_same_at_boot(node):
    assert irqs.main(str(node), ["ens6"]) == 0
    assert [affinity(node, number) for number in ("41", "42", "43")] == ["8-15,24-31", "9", "0-31"]


def test_the_program_says_what_the_kernel_refuses(node, monkeypatch, capsys):
    real = irqs.read

    def without_file(root, netdevs):
        state = real(root, netdevs)
        (node / irqs.affinity_path("41")).unlink()
        (node / irqs.affinity_path("41")).mkdir()
        return state

    monkeypatch.setattr(irqs, "read", without_file)
    assert irqs.main(str(node), ["ens6"]) == 1
    assert FIRST in capsys.readouterr().err

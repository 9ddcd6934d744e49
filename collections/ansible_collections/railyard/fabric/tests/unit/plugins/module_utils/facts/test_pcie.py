# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI Express links up to the root complex, on trees of machines that others published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus, netdev, nvidia_pci, pcie
from ansible_collections.railyard.fabric.plugins.module_utils.facts import rdma_port as ports
from support.nodes.pci_tree import GEN3, GEN4, GEN5, PciTree


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(tmp_path)


def path(tree: PciTree, folder: Path) -> list[dict[str, Any]]:
    found = pcie.path(tree.reader(), str(folder))
    assert found is not None
    return found


def ports_of(links: list[dict[str, Any]]) -> list[Any]:
    return [link["port"] for link in links]


def test_a_link_is_named_by_the_port_above_it_as_the_kernel_does(tree: PciTree) -> None:
    # imbue-ai/cluster-health health_checks.py: "mlx5_core 0000:9c:00.0: 252.056 Gb/s available PCIe
    # bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:97:01.0 (capable of 504.112 Gb/s with ...)"
    card = tree.chain(
        "pci0000:95", ("0000:95:01.0", GEN5, 16), ("0000:96:00.0", GEN5, 16),
        ("0000:97:01.0", GEN5, 16, 8), ("0000:9c:00.0", GEN5, 16, 8),
    )  # fmt: skip
    own, uplink = path(tree, card)
    assert own == {
        "port": "0000:97:01.0", "speed_gts": 32.0, "width": 8.0, "max_speed_gts": 32.0, "max_width": 16.0,
        "virtual": False,
    }  # fmt: skip
    assert (uplink["port"], uplink["width"], uplink["max_width"]) == ("0000:95:01.0", 16.0, 16.0)


def test_the_lesser_end_says_what_a_link_can_do(tree: PciTree) -> None:
    # HeyMeco/Rockchip-pcie-devices issue 6: the upstream port of a PLX switch with two 10G ports is x4
    # "(downgraded)", since the processor has four lanes: no fault of the link.
    card = tree.chain(
        "pci0000:00", ("0000:00:00.0", GEN3, 4), ("0000:01:00.0", GEN3, 8, 4),
        ("0000:02:01.0", GEN3, 4, 2), ("0000:03:00.0", GEN3, 2),
    )  # fmt: skip
    assert [(link["width"], link["max_width"]) for link in path(tree, card)] == [(2.0, 2.0), (4.0, 4.0)]


def test_two_levels_of_one_broadcom_chip_are_no_link(tree: PciTree) -> None:
    # NVIDIA/nccl issue 1505, DGX A100: GPU 07 and NIC 0c below two levels of 1000:c010, subsystem 1000:a096;
    # issue 439: the level in between made NCCL assume that two NICs share one link.
    chip = {
        "vendor": "0x1000",
        "device": "0xc010",
        "subsystem_vendor": "0x1000",
        "subsystem_device": "0xa096",
    }
    above = (("0000:00:01.1", GEN4, 16), ("0000:01:00.0", GEN4, 16, chip), ("0000:02:08.0", GEN4, 16, chip))
    below = (("0000:0a:00.0", GEN4, 16, chip), ("0000:0b:00.0", GEN4, 16, chip), ("0000:0c:00.0", GEN4, 16))
    assert ports_of(path(tree, tree.chain("pci0000:00", *above, *below))) == ["0000:0b:00.0", "0000:00:01.1"]


@pytest.mark.parametrize(
    ("upper", "lower", "is_one"),
    [
        # getBcmGen: PCIe 4.0 by its subsystem 1000:axxx, of 5.0 its first digit gives the level.
        (("0x1000", "0xc010", "0x1000", "0xa096"), ("0x1000", "0xc010", "0x1000", "0xa064"), True),
        (("0x1000", "0xc030", "0x1000", "0x000b"), ("0x1000", "0xc030", "0x1000", "0x100b"), True),
        (("0x1000", "0xc030", "0x1000", "0x100b"), ("0x1000", "0xc030", "0x1000", "0x100b"), False),
        (("0x1000", "0xc010", "0x1000", "0xa096"), ("0x1000", "0xc030", "0x1000", "0xa096"), False),
        (("0x1000", "0xc010", "0x15d9", "0xa096"), ("0x1000", "0xc010", "0x15d9", "0xa096"), False),
        (("0x10b5", "0x8764", "0x10b5", "0x8764"), ("0x10b5", "0x8764", "0x10b5", "0x8764"), False),
        ((None, None, None, None), (None, None, None, None), False),
    ],
)
def test_switches_one_below_the_other_are_two_unless_nccl_knows_better(
    tree: PciTree, upper: tuple[str | None, ...], lower: tuple[str | None, ...], is_one: bool
) -> None:
    names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    one, other = (dict(zip(names, ids, strict=True)) for ids in (upper, lower))
    card = tree.chain(
        "pci0000:00", ("0000:00:01.0", GEN5, 16), ("0000:01:00.0", GEN5, 16, one),
        ("0000:02:00.0", GEN5, 16, one), ("0000:03:00.0", GEN5, 16, other), ("0000:04:00.0", GEN5, 16, other),
        ("0000:05:00.0", GEN5, 16),
    )  # fmt: skip
    assert len(path(tree, card)) == (2 if is_one else 3)


VIRTUAL = [
    # ai-dynamo/nixl, hwloc of a p5.48xlarge: EFA 1d0f:efa1 below Amazon's 1d0f:0200.
    ({"vendor": "0x1d0f", "device": "0x0200"}, {"vendor": "0x1d0f", "device": "0xefa1"}, True),
    # NVIDIA/nccl issue 1453: 15b3:101e below 104c:8232, "2.5 GT/s PCIe" and width 1, the card's own is 0.
    ({"vendor": "0x104c", "device": "0x8232"}, {"vendor": "0x15b3", "device": "0x101e"}, True),
    # QEMU's pcie-root-port.
    ({"vendor": "0x1b36", "device": "0x000c"}, {"vendor": "0x15b3", "device": "0x1017"}, True),
    ({"vendor": "0x8086", "device": "0x352a"}, {"vendor": "0x15b3", "device": "0x1021"}, False),
    ({"vendor": None}, {"vendor": None}, False),
]


@pytest.mark.parametrize(("port", "below", "virtual"), VIRTUAL)
def test_a_hypervisors_link_is_distinguished(
    tree: PciTree, port: dict[str, Any], below: dict[str, Any], virtual: bool
) -> None:
    card = tree.chain(
        "pci0000:44", ("0000:44:01.0", "2.5 GT/s PCIe", 1, port), ("0000:4f:00.0", GEN3, 16, below)
    )
    assert [link["virtual"] for link in path(tree, card)] == [virtual]


@pytest.mark.parametrize(
    ("cpuinfo", "virtual"),
    [
        ("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\nbugs\t\t:", True),
        ("processor\t: 0\nmodel name\t: hypervisor\nflags\t\t: fpu vme lahf_lm", False),
        ("processor\t: 0\nFeatures\t: fp asimd", False),
        (None, False),
    ],
)
def test_a_guest_has_no_link_of_its_own(tree: PciTree, cpuinfo: str | None, virtual: bool) -> None:
    if cpuinfo:
        tree.write("proc/cpuinfo", cpuinfo)
    card = tree.chain("pci0000:00", ("0000:00:03.0", GEN5, 16), ("0000:01:00.0", GEN5, 16))
    assert [link["virtual"] for link in path(tree, card)] == [virtual]


def test_the_way_begins_at_the_nearest_host_bridge(tree: PciTree) -> None:
    """Azure (NVIDIA/nccl issue 862) and Intel VMD have domains and bridges of their own."""
    vmbus = "LNXSYSTM:00/LNXSYBUS:00/PNP0A03:00/device:07/VMBUS:01"
    one = tree.chain(f"{vmbus}/47505500-0001-0000-3130-444531444234/pci0001:00", ("0001:00:00.0", GEN5, 16))
    other = tree.chain(f"{vmbus}/47505500-0002-0000-3130-444531444234/pci0002:00", ("0002:00:00.0", GEN5, 16))
    drive = tree.chain(
        "pci0000:64/0000:64:00.5/pci10000:00", ("10000:00:02.0", GEN4, 4), ("10000:01:00.0", GEN4, 4)
    )
    assert [ports_of(path(tree, folder)) for folder in (one, other, drive)] == [
        [None],
        [None],
        ["10000:00:02.0"],
    ]
    assert pcie.way(str(one)) == ["pci0001:00", "0001:00:00.0"]
    assert pcie.way(str(drive)) == ["pci10000:00", "10000:00:02.0", "10000:01:00.0"]
    assert pcie.way("/sys/devices/virtual/net/bond0") == []


def test_azures_gpus_and_cards_are_below_no_common_switch(tree: PciTree) -> None:
    vmbus = "LNXSYSTM:00/LNXSYBUS:00/PNP0A03:00/device:07/VMBUS:01"
    gpu = tree.chain(f"{vmbus}/47505500-0001-0000-3130-444531444234/pci0001:00", ("0001:00:00.0", GEN5, 16))
    card = tree.chain(f"{vmbus}/00000000-0101-0000-3135-444531444234/pci0101:00", ("0101:00:00.0", GEN5, 16))
    for folder in (gpu, card):
        tree.write(str((folder / "numa_node").relative_to(tree.root)), 0)
        tree.on_the_bus(folder)
    found = gpus.near(tree.reader(), ["0101:00:00.0"], {"0001:00:00.0": str(gpu)})
    assert [(one["by"], one["gpus"]) for one in found] == [(gpus.NODE, ["0001:00:00.0"])]


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("00000000:17:00.0", "0000:17:00.0"),
        ("00000008:01:00.0", "0008:01:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("no address", "no address"),
    ],
)
def test_no_digit_of_a_domain_is_lost(said: str, address: str) -> None:
    assert nvidia_pci.normal_address(said) == address


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("32.0 GT/s PCIe", 32.0), ("8 GT/s", 8.0), ("2.5 GT/s PCIe", 2.5), ("64.0 GT/s PCIe", 64.0),
        ("Unknown", None), ("Unknown speed", None), ("", None), (None, None), ("-1", None), ("7 GT/s", None),
        ("1e3 GT/s", None), ("\x00\xff\xfe", None), ("9" * 10_000_000, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["current_link_speed", "max_link_speed"])
def test_what_is_no_speed_is_not_known(
    tree: PciTree, name: str, text: str | None, speed: float | None
) -> None:
    card = tree.chain("pci0000:00", ("0000:01:00.0", None, None))
    if text is not None:
        (card / name).write_bytes(text.encode("latin-1"))
    link = path(tree, card)[0]
    key = "speed_gts" if name.startswith("current") else "max_speed_gts"
    unknown = dict.fromkeys(("port", "speed_gts", "width", "max_speed_gts", "max_width"))
    assert link == {**unknown, "virtual": False, key: speed}


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("16", 16.0),
        ("12", 12.0),
        ("0", None),
        ("255", None),
        ("63", None),
        ("-1", None),
        ("x16", None),
        ("1.5", None),
    ],
)
def test_what_is_no_width_is_not_known(tree: PciTree, text: str, width: float | None) -> None:
    card = tree.chain("pci0000:00", ("0000:01:00.0", None, None))
    (card / "max_link_width").write_text(text)
    assert path(tree, card)[0]["max_width"] == width


def test_a_value_that_is_no_value_is_a_warning(tree: PciTree) -> None:
    card = tree.chain("pci0000:00", ("0000:01:00.0", "fast", 16))
    reader = tree.reader()
    pcie.path(reader, str(card))
    assert len(reader.warnings) == 2
    assert all("'fast' is no speed of a PCI Express link" in one for one in reader.warnings)


def test_ports_without_link_files_and_unreadable_ones_are_no_crash(tree: PciTree) -> None:
    card = tree.chain("pci0000:00", ("0000:00:01.0", None, None), ("0000:01:00.0", GEN4, 8))
    (card.parent / "max_link_width").mkdir()
    link = path(tree, card)[0]
    assert (link["port"], link["width"], link["max_width"]) == ("0000:00:01.0", 8.0, 8.0)
    assert pcie.path(tree.reader(), None) is None
    assert pcie.own_link(None) is None


def test_a_bridge_of_another_kind_takes_no_link_away(tree: PciTree) -> None:
    card = tree.chain(
        "pci0000:00", ("0000:00:1e.0", None, None), ("0000:01:00.0", GEN3, 16), ("0000:02:00.0", GEN3, 8)
    )
    assert [(link["port"], link["max_width"]) for link in path(tree, card)] == [("0000:01:00.0", 8.0)]


def test_netdevs_rdma_devices_and_gpus_carry_their_path(tree: PciTree) -> None:
    """DGX Spark (servethehome): one card, two functions on each of two links of Gen5 x4."""
    links = {}
    for domain in ("0000", "0002"):
        for function in (0, 1):
            card = tree.chain(
                f"pci{domain}:00", (f"{domain}:00:00.0", GEN5, 4), (f"{domain}:01:00.{function}", GEN5, 16, 4)
            )
            name = f"enP{int(domain)}p1s0f{function}np{function}"
            tree.netdev(name, card)
            tree.port(f"roceP{int(domain)}p1s0f{function}", 1, card)
            links[name] = f"{domain}:00:00.0"
    rows = netdev.read_netdevs(tree.reader(), tree.ip_json())
    assert {row["netdev"]: ports_of(row["pci_path"]) for row in rows} == {
        name: [port] for name, port in links.items()
    }
    assert {row["pci_link"]["max_width"] for row in rows} == {4.0}
    assert sorted(str(port["pci_path"][0]["port"]) for port in ports.read_hcas(tree.reader())) == sorted(
        links.values()
    )

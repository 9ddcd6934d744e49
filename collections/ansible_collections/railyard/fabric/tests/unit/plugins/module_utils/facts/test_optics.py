# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports' modules are read, with which programs; what cannot be read is a reason, never a crash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import optics

MODULE = "Identifier : 0x11 (QSFP28)\nTransmitter technology : 0x00 (850 nm VCSEL)\n"
FEC = "FEC parameters for ens1:\nActive FEC encoding: RS\n"
LINK = "Physical state : LinkUp\nFEC : Standard_RS-FEC - (544,514)\nRaw Physical BER : 1E-8\n"
PCI = "0000:18:00.0"


def netdev(**over: Any) -> dict[str, Any]:
    own = {"netdev": "ens1", "kind": "physical", "carrier": True, "driver_class": "hardware", "pci": PCI}
    return {**own, "driver": "mlx5_core", **over}


def hca(**over: Any) -> dict[str, Any]:
    own = {"netdev": None, "state": "ACTIVE", "driver_class": "hardware", "pci": PCI, "driver": "mlx5_core"}
    return {**own, **over}


class Programs:
    """What each program answers: an output, an exit status with it, or an error."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, []

    def __call__(self, argv: Sequence[str]) -> Ended:
        self.asked.append(list(argv))
        name = argv[0] if argv[0] != "ethtool" else "module" if argv[1] == "-m" else "fec"
        answer = self.answers.get(name)
        if answer is None:
            raise ToolError(f"{argv[0]}: not found", absent=True)
        if isinstance(answer, ToolError):
            raise answer
        return answer if isinstance(answer, Ended) else Ended(0, answer)


def read(row: dict[str, Any], programs: Programs) -> Any:
    optics.add([row], [], programs)
    return row["optics"]


def test_a_port_is_read_with_each_program_that_is_there() -> None:
    programs = Programs(module=MODULE, fec=FEC, mlxlink=LINK)
    found = read(netdev(), programs)
    assert found["module"]["identifier"] == "QSFP28"
    assert found["fec"]["active"] == ["RS"]
    assert found["link"]["raw_ber"] == 1e-8
    assert found["unread"] == {}
    assert sorted(programs.asked) == [
        ["ethtool", "-I", "--show-fec", "ens1"], ["ethtool", "-m", "ens1"],
        ["mlxlink", "-d", PCI, "-m", "-c"],
    ]  # fmt: skip


def test_mstlink_is_used_in_place_of_mlxlink() -> None:
    programs = Programs(mstlink=LINK)
    assert read(netdev(), programs)["link"]["raw_ber"] == 1e-8
    assert ["mstlink", "-d", PCI, "-m", "-c"] in programs.asked


@pytest.mark.parametrize("driver", ["ice", "unheard_of", None])
def test_mlxlink_is_for_cards_of_its_maker(driver: str | None) -> None:
    programs = Programs(module=MODULE, fec=FEC, mlxlink=LINK)
    found = read(netdev(driver=driver), programs)
    assert (found["link"], found["unread"]) == (None, {})
    assert not any(argv[0] in ("mlxlink", "mstlink") for argv in programs.asked)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "ethtool: not found"),
        (ToolError("ethtool: no answer within 10 s"), "no answer within 10 s"),
        (Ended(1, "netlink error: Operation not permitted\n"), "Operation not permitted"),
        (Ended(0, "Segmentation fault\n"), "no module of ethtool"),
        (Ended(1, MODULE), "exit status 1"),
        (Ended(0, "\0" * 100), "no module of ethtool"),
    ],
)
def test_what_cannot_be_read_has_a_reason(answer: Any, words: str) -> None:
    found = read(netdev(), Programs(module=answer, fec=FEC))
    assert found["module"] is None
    assert words in found["unread"]["module"]
    assert found["fec"]["active"] == ["RS"]
    assert found["unread"]["link"] == "mlxlink or mstlink: not found"


@pytest.mark.parametrize(
    "over",
    [{"carrier": False}, {"carrier": None}, {"kind": "veth"}, {"kind": "bond", "pci": None},
     {"driver_class": "virtual"}, {"driver_class": "software"}, {"pci": None}],
)  # fmt: skip
def test_what_has_no_module_or_no_link_is_not_queried(over: dict[str, Any]) -> None:
    programs = Programs(module=MODULE, fec=FEC, mlxlink=LINK)
    assert read(netdev(**over), programs) is None
    assert programs.asked == []


def test_an_rdma_port_without_a_netdev_is_read_by_its_pci_address() -> None:
    programs = Programs(module=MODULE, fec=FEC, mlxlink=LINK)
    ports = [hca(), hca(netdev="ens1"), hca(state="DOWN"), hca(driver_class="software", pci=None)]
    optics.add([], ports, programs)
    assert [bool(one["optics"]) for one in ports] == [True, False, False, False]
    assert programs.asked == [["mlxlink", "-d", PCI, "-m", "-c"]]


def test_a_vlan_has_the_module_of_its_port_which_is_read_once() -> None:
    programs = Programs(module=MODULE, fec=FEC, mlxlink=LINK)
    port, vlan = netdev(), netdev(netdev="rail0", kind="vlan", pci=None)
    other = netdev(netdev="rail1", kind="vlan", pci=None)
    optics.add([vlan, port, other], [], programs, {"rail0": "ens1", "rail1": "gone"}.__getitem__)
    assert vlan["optics"] == port["optics"]
    assert vlan["optics"]["module"]["identifier"] == "QSFP28"
    assert other["optics"] is None
    assert len(programs.asked) == 3

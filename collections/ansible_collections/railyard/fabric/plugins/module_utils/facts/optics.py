# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the modules of a node's ports, their FEC and bit error ratios, with the installed programs.

`ethtool -m` needs CAP_NET_ADMIN (net/ethtool/ioctl.c, net/ethtool/eeprom.c), `mlxlink` and `mstlink` need
access to the NIC's PCI function. What is missing, not permitted or not understood has a reason in the result.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any

from ..bounded import Ended, ToolError
from ..catalogue import nic_drivers
from ..parsers import common
from ..parsers.hca import ethtool_fec, ethtool_module, mlxlink, module_words

#: The time limit for all ports together, in case a module hangs on its bus.
LIMIT_S = 40.0
#: How many ports are read at once: each module is read over I2C, which is slow.
_AT_ONCE = 8

#: Runs a program to its end, or raises ToolError.
Ask = Callable[[Sequence[str]], Ended]
_Parser = Callable[[str], "dict[str, Any]"]


def add(
    netdevs: Sequence[dict[str, Any]],
    hcas: Sequence[dict[str, Any]],
    ask: Ask,
    port_of: Callable[[str], str] = str,
) -> None:
    """Set `optics` of each netdev and RDMA port of a NIC with a link.

    An RDMA port whose netdev has it is left out; a VLAN has its port's. Without module or link it is None.

    Args:
        netdevs: the netdevs of the facts row.
        hcas: the RDMA ports of the facts row.
        ask: runs a program; several threads call it at once.
        port_of: returns the netdev of a VLAN's port.
    """
    ports: list[tuple[dict[str, Any], str | None]] = []
    for row in netdevs:
        row["optics"] = None
        if row["kind"] in ("physical", "ipoib") and row["carrier"]:
            ports.append((row, row["netdev"]))
    for row in hcas:
        row["optics"] = None
        if row["netdev"] is None and row["state"] == "ACTIVE":
            ports.append((row, None))
    ports = [(row, netdev) for row, netdev in ports if row["driver_class"] == "hardware" and row["pci"]]
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as threads:
        found = threads.map(lambda port: _read(port[1], port[0]["pci"], port[0]["driver"], ask), ports)
        for (row, _netdev), optics in zip(ports, found):  # noqa: B905 - Python 3.9 has no strict
            row["optics"] = optics
    by_name = {row["netdev"]: row["optics"] for row in netdevs}
    for row in netdevs:
        if row["kind"] == "vlan":
            row["optics"] = by_name.get(port_of(row["netdev"]))


def _read(netdev: str | None, pci: str, driver: str | None, ask: Ask) -> dict[str, Any]:
    """Return what is known about one port.

    Returns:
        `module` (`ethtool_module.parse`), `fec` (`ethtool_fec.parse`) and `link` (`mlxlink.parse`), each None
        where it was not read; `unread` has the reasons by the same names.
    """
    found: dict[str, Any] = {"module": None, "fec": None, "link": None, "unread": {}}
    asked: list[tuple[str, list[list[str]], _Parser]] = []
    if netdev is not None:
        asked.append(("module", [["ethtool", "-m", netdev]], ethtool_module.parse))
        asked.append(("fec", [["ethtool", "-I", "--show-fec", netdev]], ethtool_fec.parse))
    row = nic_drivers.find(driver)
    if row is not None and row.link_tools:
        # Both print the same; the second is the distribution's.
        asked.append(("link", [[name, "-d", pci, "-m", "-c"] for name in row.link_tools], mlxlink.parse))
    for name, commands, parse in asked:
        try:
            found[name] = _first(commands, parse, ask)
        except ToolError as error:
            found["unread"][name] = str(error)
    return found


def _first(commands: Sequence[Sequence[str]], parse: _Parser, ask: Ask) -> dict[str, Any]:
    """Return the parsed output of the first installed program.

    Raises:
        ToolError: none is installed, or its output cannot be parsed.
    """
    for argv in commands:
        try:
            ended = ask(argv)
        except ToolError as error:
            if error.absent:
                continue
            raise
        try:
            found = parse(ended.text)
        except common.NotThisTool as error:
            raise ToolError(f"{argv[0]}: {error.message}") from error
        if ended.status:
            lines = common.split_lines(ended.text)
            reason = module_words.refusal(f"exit status {ended.status}", lines).message
            raise ToolError(f"{argv[0]}: {reason}")
        return found
    raise ToolError(f"{' or '.join(argv[0] for argv in commands)}: not found", absent=True)

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ib_write_bw of an HCA with itself, on request: tests NIC, slot and driver, without the network.

There is no threshold for a NIC with itself, so the bandwidth is reported and not judged; a missing result is
an error.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping

from .. import bounded
from ..catalogue import nic_drivers
from ..channel import rail_socket
from ..measure import perftest_srd
from ..numeric import is_number
from ..parsers.common import NotThisTool
from ..parsers.perftest import output
from ..rails.bind import Bound
from ..rules import rdma
from .found import Found

# 64 MB through the NIC, some milliseconds; the exchange of keys is over the loopback netdev.
_WORDS = ("ib_write_bw", "-F", "-s", "65536", "-n", "1000")
_HERE = "127.0.0.1"
_EACH_S = 6.0
# How long the server may take until it listens.
_LISTENS_S = 3.0
_PAUSE_S = 0.05
_CAUSE = "loopback_failed"


def look(bound: Mapping[str, Bound], transport: str, deadline: float, found: Found) -> None:
    """Test the HCA of each rail, one after the other, until a deadline (`time.monotonic`)."""
    done: dict[str, None] = {}
    for rail, one in bound.items():
        item = f"loopback/{rail}"
        if one.hca is None or str(one.hca["hca"]) in done:
            continue
        hca = str(one.hca["hca"])
        done[hca] = None
        if deadline - time.monotonic() < _EACH_S:
            found.add_unknown(f"loopback {hca}: no time is left for it", item, _CAUSE, rail)
            continue
        try:
            gbps = _measure(hca, one, transport)
        except bounded.ToolError as error:
            found.add_unknown(f"loopback {hca}: {error}", item, _CAUSE, rail)
        except ValueError as error:
            found.add_wrong(f"loopback {hca}: {error}", item, _CAUSE, rail)
        else:
            found.good.append(f"loopback {hca} {gbps:.1f} Gbit/s")
            found.good_items.append(item)
    if not done:
        found.add_unknown("loopback: requested, but no rail has an HCA", "loopback", _CAUSE)


def argv(hca: str, gid_index: int | None, port: int, connection: str = "") -> list[str]:
    """Return the part of the command line that both ends share."""
    device, _colon, number = hca.partition(":")
    words = [*_WORDS, "-d", device, "-i", number, "-p", str(port)]
    if connection:
        words += perftest_srd.build_options(_WORDS[0], connection)
    return words if gid_index is None else [*words, "-x", str(gid_index)]


def _measure(hca: str, one: Bound, transport: str) -> float:
    """Return the bandwidth in Gbit/s.

    Raises:
        ToolError: perftest is missing, hangs, or was built without the connection type.
        ValueError: it prints no number.
    """
    chosen = rdma.choice(one) if transport == "roce" else None
    if transport == "roce" and chosen is None:
        raise ValueError("the rail's address has no GID")
    connection = nic_drivers.connection_of((one.hca or {}).get("driver"))
    if connection and (why_not := perftest_srd.why_not(_WORDS[0], connection)):
        raise bounded.ToolError(f"rdma_unsupported: {_WORDS[0]} cannot use {connection}: {why_not}")
    gid_index = 0 if connection else chosen.index if chosen else None
    with socket.socket() as free:
        free.bind((_HERE, 0))
        port = free.getsockname()[1]
    words = argv(hca, gid_index, port, connection)
    server = bounded.start(words)
    try:
        _await(server, port)
        client = bounded.ask([*words, _HERE], _EACH_S)
    finally:
        bounded.end(server)
    try:
        answer = output.parse(client.text)
    except NotThisTool as error:
        raise ValueError(f"ib_write_bw ended with {client.status}: {error}") from error
    rows = [row for one_run in answer["outputs"] for row in one_run["rows"]]
    gbps = rows[0].get("bandwidth_average_gbps") if rows else None
    if answer.get("error") or client.status != 0 or not is_number(gbps) or gbps <= 0:
        words_of_it = (answer.get("error") or {}).get("message", "no bandwidth in its answer")
        raise ValueError(f"ib_write_bw ended with {client.status}: {words_of_it}")
    return float(gbps)


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the server listens, by the kernel's table, since it would take a connection for its client.

    If the server has ended, its client reports the error.

    Raises:
        ToolError: it does not listen in time, for example on a busy node.
    """
    until = time.monotonic() + _LISTENS_S
    while server.poll() is None:
        over = time.monotonic() >= until
        if rail_socket.is_listening(_HERE, port):
            return
        if over:
            raise bounded.ToolError(f"{_WORDS[0]}: its server did not listen within {_LISTENS_S:.0f} s")
        time.sleep(_PAUSE_S)

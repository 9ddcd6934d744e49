# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ping nodes that were changed earlier in the same run over the rails, to check the new MTU.

The first node of a run has no such peer: others still have the old MTU. Only nodes that were changed in this
run are pinged, and a peer that does not answer at all is a finding, not an error of the files: netplan does
not configure cables.
"""

from __future__ import annotations

import concurrent.futures
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Run = Callable[[list[str]], tuple[int, str, str]]

# Headers of IP and ICMP, which `ping -s` does not count.
_HEADER_BYTES = {4: 28, 6: 48}


def chosen(
    rails: Sequence[Mapping[str, Any]], committed: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Choose for each rail one node that was committed in this run and has an address in the rail's subnet.

    Args:
        rails: this node's rails.
        committed: `{"node", "rails": [{"address" (CIDR), "mtu"}]}` each, in the order of their confirmation.

    Returns:
        `[{"rail", "peer", "address" (bare), "mtu_bytes"}]`; `mtu_bytes` is the smaller of both ends' MTUs.
    """
    found = []
    for rail in rails:
        own = rail.get("address") or rail.get("address6")
        if not own:
            continue
        subnet = ipaddress.ip_interface(str(own)).network
        for peer in committed:
            there = next((row for row in peer["rails"] if _inside(row.get("address"), subnet)), None)
            if there is not None and there["address"] != own:
                address = ipaddress.ip_interface(str(there["address"])).ip
                mtu_bytes = min(int(rail.get("mtu") or 1500), int(there.get("mtu") or 1500))
                found.append(
                    {
                        "rail": rail["name"],
                        "peer": peer["node"],
                        "address": str(address),
                        "mtu_bytes": mtu_bytes,
                    }
                )
                break
    return found


def _inside(address: object, subnet: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    return bool(address) and ipaddress.ip_interface(str(address)).ip in subnet


def _answers(run: Run, netdev: str, peer: Mapping[str, Any], size: list[str]) -> bool:
    argv = ["ping", "-n", "-q", "-c", "3", "-i", "0.3", "-W", "1", "-I", netdev, *size, str(peer["address"])]
    return run(argv)[0] == 0


def ask(
    run: Run, rails: Sequence[Mapping[str, Any]], peers: Sequence[Mapping[str, Any]]
) -> tuple[list[str], list[str]]:
    """Ping each chosen peer over its rail, with small packets and with the full MTU.

    Returns:
        `(problems, findings)`: a peer that answers small packets and none of the full MTU is a problem, since
        larger packets would be lost from now on; one that answers none is a finding.
    """
    netdevs = {rail["name"]: rail["netdev"] for rail in rails}

    def one(peer: Mapping[str, Any]) -> tuple[str, str]:
        netdev = netdevs[peer["rail"]]
        header_bytes = _HEADER_BYTES[ipaddress.ip_address(str(peer["address"])).version]
        where = f"{peer['rail']} ({netdev}): {peer['peer']} ({peer['address']})"
        if _answers(run, netdev, peer, ["-M", "do", "-s", str(int(peer["mtu_bytes"]) - header_bytes)]):
            return "", ""
        if _answers(run, netdev, peer, []):
            return (
                f"{where} answers small packets and none of {peer['mtu_bytes']} bytes: something between the "
                "two carries less; raise the MTU of the switch ports, or lower `fabric.mtu`",
                "",
            )
        return "", f"{where} does not answer, though it was changed in this run: look at cables and ports"

    asked = [peer for peer in peers if peer["rail"] in netdevs]
    if not asked or run(["ping", "-V"])[0] != 0:
        return [], []
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(asked)) as pool:
        answers = list(pool.map(one, asked))
    return [bad for bad, _note in answers if bad], [note for _bad, note in answers if note]

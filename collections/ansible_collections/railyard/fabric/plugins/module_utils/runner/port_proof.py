# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove which RDMA ports are tested where the ends do not meet over the rail: by the ports' GUIDs.

On a rail with IP the meeting itself shows that the partner is on that rail. Over the management network it
only shows the node. So before each test both ends read their port's GUID from sysfs and send it with their
name and boot id, and each compares it with the one that the controller read before. Both ends detect another
card, a swapped name or another node's port, and nothing is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..channel.errors import MeasurementError, error_of
from ..channel.rail_socket import Place
from ..channel.rendezvous import Channel
from ..measure import rdma_port
from ..schedule import work_order
from .session import Session

_PROVEN_KEYS = ("node", "boot_id", "port_guid")


def exchange(session: Session, channel: Channel) -> dict[str, str]:
    """Exchange which port is at either end, and continue only where both are the expected ones.

    Args:
        session: the meeting of the two nodes, which is not over the rail itself.
        channel: its channel.

    Returns:
        `port_guid` and `peer_port_guid`, as read now.

    Raises:
        MeasurementError: at both ends: `guid_differs`, `guid_unknown`, or why a port could not be read.
        rendezvous.ChannelClosed: the partner disconnected.
    """
    run_context, place = session.run_context, session.place
    wait_s = run_context.waits.answer_s
    peer = {
        "node": session.peer,
        "boot_id": session.hello.get("boot_id"),
        "port_guid": work_order.rails_of(run_context.order, session.peer)[place.rail]["port_guid"],
    }
    guid, failure = _read_guid(place, run_context.rails[place.rail]["hca"])
    mine = {"node": place.host, "boot_id": run_context.boot_id, "port_guid": guid}
    channel.send({"t": "port", "error": error_of(failure), **mine})
    theirs = channel.expect("port", wait_s)
    failure = failure or _compare_port(place, theirs, peer)
    channel.send({"t": "port_seen", "error": error_of(failure)})
    seen = channel.expect("port_seen", wait_s)
    if failure is not None:
        raise failure
    if seen.get("error"):
        raise MeasurementError.from_error(seen["error"])
    return {"port_guid": str(guid), "peer_port_guid": str(theirs["port_guid"])}


def _read_guid(place: Place, hca: str | None) -> tuple[str | None, MeasurementError | None]:
    try:
        return rdma_port.find(place, hca).port_guid, None
    except MeasurementError as failure:
        return None, failure


def _compare_port(
    place: Place, theirs: Mapping[str, Any], peer: Mapping[str, Any]
) -> MeasurementError | None:
    """Return why the partner's port is not the one that was to be tested, or None."""
    if theirs.get("error"):
        return MeasurementError.from_error(theirs["error"])
    node, rail = str(peer["node"]), place.rail
    if not peer.get("port_guid"):
        return MeasurementError(
            "guid_unknown",
            f"the facts of {node} have no port GUID of {rail}, so the tested port cannot be identified",
            node,
            "name the rail's hca in the inventory and see its rdma_port check",
        )
    for key in _PROVEN_KEYS:
        if theirs.get(key) != peer[key]:
            what = {"port_guid": f"the GUID of its port of {rail}"}.get(key, key)
            return MeasurementError(
                "guid_differs",
                f"{node} reports {theirs.get(key)} as {what}, its facts have {peer[key]}",
                node,
                "look at: rdma link; grep . /sys/class/infiniband/*/ports/*/gids/0; compare the names of its "
                "ports with the inventory, then validate again",
            )
    return None

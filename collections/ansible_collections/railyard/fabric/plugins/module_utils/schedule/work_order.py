# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test schedule of a node (`work_order.json`): all that it needs to calculate its share of a run.

The controller writes the part that all nodes share; each node's copy adds its name, the netdevs and RDMA
ports of its rails, and the secret of the run. Addresses are not in it: every node calculates them from the
fabric with the same function as the plan. A node whose rails have no IP cannot be calculated: its roster
entry then has `management` with `address` (or null and `why_not`) and, from its facts, the GUIDs of its
rails' ports, `port_guids`.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..catalogue.tests import WITHOUT_IP
from . import rounds
from .policy_keys import KEYS

SCHEMA = 1
#: A schedule for 100,000 nodes has some 10 MB.
MOST_BYTES = 64 << 20
RUN_ID = re.compile(r"^[0-9]{8}T[0-9]{6}Z-[0-9a-z]{1,16}\Z")

COMMON_KEYS = ("schema", "run", "fabrics", "roster", "absent", "pattern", "seed", "policy", "rails")
NODE_KEYS = ("node", "secret", "netdevs", "hcas")

POLICY_KEYS = tuple(name for name, key in KEYS.items() if key.to_node)


class WorkOrderError(ValueError):
    """An invalid schedule; the message names the key and what is wrong with it."""


def for_node(
    common: Mapping[str, Any], node: str, secret: str, netdevs: Mapping[str, str], hcas: Mapping[str, str]
) -> dict[str, Any]:
    """Return a node's copy of the schedule.

    Args:
        common: the part that all nodes share.
        node: the node's name.
        secret: the run's secret.
        netdevs: rail name -> netdev, for the rails that could be bound.
        hcas: rail name -> RDMA port as `device:port`, for the rails that have one.
    """
    return {**common, "node": node, "secret": secret, "netdevs": dict(netdevs), "hcas": dict(hcas)}


def check(order: Any, own: bool = True) -> list[str]:
    """Return what is wrong with a schedule, nothing if it is valid; with `own` also check a node's keys."""
    if not isinstance(order, Mapping):
        return ["it is not a JSON object"]
    wanted = COMMON_KEYS + (NODE_KEYS if own else ())
    problems = [f"key {key!r} is missing" for key in wanted if key not in order]
    if problems:
        return problems
    if order["schema"] != SCHEMA:
        return ["schema is {!r}; this runner reads {}".format(order["schema"], SCHEMA)]
    if not RUN_ID.match(str(order["run"])):
        problems.append("run {!r} is not a run id like 20261121T101500Z-3f2a".format(order["run"]))
    missing = [key for key in POLICY_KEYS if key not in order["policy"]]
    problems.extend(f"policy.{key} is missing" for key in missing)
    names = [entry.get("name") for entry in order["roster"]]
    problems.extend(
        f"roster entry {entry.get('name')!r} has fabric {entry.get('fabric')}, which does not exist"
        for entry in order["roster"]
        if not 0 <= int(entry.get("fabric", 0)) < len(order["fabrics"])
    )
    if own and order["node"] not in names:
        problems.append("node {!r} is not in the roster".format(order["node"]))
    if own and len(str(order["secret"])) < 32:
        problems.append("secret is shorter than 32 characters")
    problems.extend(_management_problems(order["roster"]))
    return problems


def _management_problems(roster: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for entry in roster:
        management = entry.get("management")
        if management is None:
            continue
        if not isinstance(management, Mapping) or not isinstance(management.get("port_guids"), Mapping):
            yield "roster entry {!r} has a management without port_guids".format(entry.get("name"))


def load(path: str) -> dict[str, Any]:
    """Read and check a node's test schedule.

    Raises:
        WorkOrderError: the file cannot be read, is not JSON, or is incomplete; the message names the file.
    """
    try:
        with open(path, encoding="utf-8") as handle:
            order = json.load(handle)
    except (OSError, ValueError) as error:
        raise WorkOrderError(f"{path}: {error}") from error
    problems = check(order)
    if problems:
        raise WorkOrderError("{}: {}".format(path, "; ".join(problems)))
    checked: dict[str, Any] = order
    return checked


def dump(order: Mapping[str, Any]) -> str:
    """Return the schedule as canonical JSON."""
    return json.dumps(order, sort_keys=True, separators=(",", ":")) + "\n"


def pack(order: Mapping[str, Any]) -> str:
    """Return the schedule compressed, for sending it to the node: 9 kB instead of 90 for a thousand nodes."""
    return base64.b64encode(zlib.compress(dump(order).encode("utf-8"), 9)).decode("ascii")


def unpack(text: str) -> str:
    """Return the canonical JSON of a packed schedule.

    Raises:
        WorkOrderError: it is not a packed schedule, or too large.
    """
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
        if not unpacker.eof:
            raise ValueError("it is truncated or too large")
        return data.decode("utf-8")
    except (ValueError, zlib.error) as error:
        raise WorkOrderError(f"unpacking failed: {error}") from error


def roster_entry(order: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the roster entry of a node."""
    for entry in order["roster"]:
        if entry["name"] == name:
            return dict(entry)
    raise WorkOrderError(f"node {name!r} is not in the roster")


def first_wait_s(order: Mapping[str, Any]) -> float:
    """Return how long a node waits for its first partner: nodes are started one after the other."""
    return float(order["policy"]["first_rendezvous_timeout_s"]) + float(order.get("start_skew_s", 0))


def rails_of(order: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    """Return a node's planned rails by name; those of the schedule's own node with their netdevs and ports.

    A rail without an address also has `management` (the address at which its node is reached instead, or None
    with `why_not`) and the `port_guid` of its facts.
    """
    entry = roster_entry(order, name)
    own = name == order.get("node")
    netdevs: Mapping[str, str] = order.get("netdevs", {}) if own else {}
    hcas: Mapping[str, str] = order.get("hcas", {}) if own else {}
    rails: dict[str, dict[str, Any]] = {}
    for index, rail in enumerate(rounds.node_rails(order, entry)):
        rails[str(rail["name"])] = {
            **_without_ip(order, entry, rail),
            **rail,
            "index": index,
            "netdev": netdevs.get(str(rail["name"]), rail.get("netdev")),
            "hca": hcas.get(str(rail["name"]), rail.get("hca")),
            "ip": address_of(rail),
        }
    return rails


def _without_ip(
    order: Mapping[str, Any], entry: Mapping[str, Any], rail: Mapping[str, Any]
) -> dict[str, Any]:
    transport = order["fabrics"][int(entry.get("fabric", 0))].get("transport")
    if address_of(rail) or transport not in WITHOUT_IP:
        return {}
    management = entry.get("management") or {}
    return {
        "management": management.get("address"),
        "why_not": management.get("why_not") or "the controller gives no reason",
        "port_guid": (management.get("port_guids") or {}).get(str(rail["name"])),
    }


def address_of(rail: Mapping[str, Any]) -> str | None:
    """Return the bare address that the rail's tests use: IPv4 where there is one, else IPv6, else None."""
    cidr = rail.get("address") or rail.get("address6")
    return str(cidr).split("/", maxsplit=1)[0] if cidr else None

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work order: all that a node needs to find its share of a run, in one JSON file.

The controller writes the part that all nodes share; each node's copy adds its own name, the netdevs and
RDMA ports that its rails were bound to, and the secret of the run. Addresses are not in it: every node
computes them from the fabric by the same function as the plan. What cannot be computed is where a node is
reached whose rails have no IP: its roster entry then has `management`, with `address` (or null and
`why_not`) and the GUIDs of its rails' ports by its facts, `port_guids`.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.policy_keys import KEYS

SCHEMA = 1
#: An order of 100,000 nodes has some 10 MB.
MOST_BYTES = 64 << 20
RUN_ID = re.compile(r"^[0-9]{8}T[0-9]{6}Z-[0-9a-z]{1,16}\Z")

COMMON_KEYS = ("schema", "run", "fabrics", "roster", "absent", "pattern", "seed", "policy", "rails")
NODE_KEYS = ("node", "secret", "netdevs", "hcas")

POLICY_KEYS = tuple(name for name, key in KEYS.items() if key.to_node)


class WorkOrderError(ValueError):
    """The order is not one; the message names the key and what is wrong with it."""


def for_node(
    common: Mapping[str, Any],
    node: str,
    secret: str,
    netdevs: Mapping[str, str],
    hcas: Mapping[str, str],
) -> dict[str, Any]:
    """Return a node's own copy of the order.

    Args:
        common: the part that all nodes share.
        node: the node's name.
        secret: the run's secret.
        netdevs: rail name -> netdev, for the rails that could be bound.
        hcas: rail name -> RDMA port as `device:port`, for the rails that have one.
    """
    return {**common, "node": node, "secret": secret, "netdevs": dict(netdevs), "hcas": dict(hcas)}


def check(order: Any, own: bool = True) -> list[str]:
    """Return what is wrong with an order, nothing when it is good; `own` asks for a node's own keys too."""
    if not isinstance(order, Mapping):
        return ["the work order is not a JSON object"]
    wanted = COMMON_KEYS + (NODE_KEYS if own else ())
    problems = [f"key {key!r} is missing" for key in wanted if key not in order]
    if problems:
        return problems
    if order["schema"] != SCHEMA:
        return ["schema is {!r}; this runner reads {}".format(order["schema"], SCHEMA)]
    if not RUN_ID.match(str(order["run"])):
        problems.append("run {!r} is no run id like 20261121T101500Z-3f2a".format(order["run"]))
    missing = [key for key in POLICY_KEYS if key not in order["policy"]]
    problems.extend(f"policy.{key} is missing" for key in missing)
    names = [entry.get("name") for entry in order["roster"]]
    problems.extend(
        f"roster entry {entry.get('name')!r} names fabric {entry.get('fabric')}, which is not there"
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
        said = entry.get("management")
        if said is None:
            continue
        if not isinstance(said, Mapping) or not isinstance(said.get("port_guids"), Mapping):
            yield "roster entry {!r} has a management without port_guids".format(entry.get("name"))


def load(path: str) -> dict[str, Any]:
    """Read and check a node's work order.

    Raises:
        WorkOrderError: the file cannot be read, is no JSON, or lacks something; the message names the file.
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
    """Return the order as text, the same for the same order."""
    return json.dumps(order, sort_keys=True, separators=(",", ":")) + "\n"


def pack(order: Mapping[str, Any]) -> str:
    """Return the order as text for its way to the node: of a thousand nodes 9 kB, and not 90.

    Names and numbers of a roster that follow on each other take next to nothing.
    """
    return base64.b64encode(zlib.compress(dump(order).encode("utf-8"), 9)).decode("ascii")


def unpack(text: str) -> str:
    """Return what was packed, as `dump` wrote it.

    Raises:
        WorkOrderError: it is no packed order, or larger than any can be.
    """
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
        if not unpacker.eof:
            raise ValueError("it is cut off, or too large")
        return data.decode("utf-8")
    except (ValueError, zlib.error) as error:
        raise WorkOrderError(f"the work order cannot be unpacked: {error}") from error


def roster_entry(order: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the roster entry of a node."""
    for entry in order["roster"]:
        if entry["name"] == name:
            return dict(entry)
    raise WorkOrderError(f"node {name!r} is not in the roster")


def first_wait_s(order: Mapping[str, Any]) -> float:
    """Return how long a node waits for its first partner: they are started one after the other."""
    return float(order["policy"]["first_rendezvous_timeout_s"]) + float(order.get("start_skew_s", 0))


def rails_of(order: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    """Return a node's planned rails by name, bound to what the order says of its own node.

    A rail without an address also has `management` (where its node is reached instead, or None with
    `why_not`) and the `port_guid` of its facts.
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
    said = entry.get("management") or {}
    return {
        "management": said.get("address"),
        "why_not": said.get("why_not") or "the controller does not say it",
        "port_guid": (said.get("port_guids") or {}).get(str(rail["name"])),
    }


def address_of(rail: Mapping[str, Any]) -> str | None:
    """Return the bare address that the rail's tests use: IPv4 where there is one, else IPv6, else None."""
    cidr = rail.get("address") or rail.get("address6")
    return str(cidr).split("/", maxsplit=1)[0] if cidr else None

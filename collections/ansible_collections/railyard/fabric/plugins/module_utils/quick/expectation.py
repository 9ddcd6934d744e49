# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The expected state of a node: a file that the controller writes for the quick check."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..numeric import is_number, is_whole

SCHEMA = 1
TRANSPORTS = ("roce", "infiniband", "efa", "tcp")
CLASSES = ("hardware", "virtual", "container")
_TEXTS = ("netdev", "mac", "pci", "hca", "ipoib_mode")
_LARGEST_BYTES = 1 << 20
# The most characters of an invalid value in a message.
_SHOWN = 60


class ExpectationError(ValueError):
    """The expectation is invalid; the message has the reason."""


class Expectation(NamedTuple):
    """The expected state of a node.

    Attributes:
        node: its name in the inventory.
        transport: one of TRANSPORTS.
        node_class: one of CLASSES, which decides what can be checked.
        rails: the plan's rails (`documents.Rail`).
        governor: the governor of every CPU; empty for any.
        gpus: the inventory's declaration of its GPUs (`expected_gpus`), or None.
    """

    node: str
    transport: str
    node_class: str
    rails: list[dict[str, Any]]
    governor: str
    gpus: dict[str, Any] | None


def load(path: str) -> Expectation:
    """Read the file.

    Raises:
        ExpectationError: it is missing, cannot be read, or is invalid.
    """
    try:
        with open(path, "rb") as handle:
            data = handle.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise ExpectationError(f"{path}: {error.strerror or error}") from error
    if len(data) > _LARGEST_BYTES:
        raise ExpectationError(f"{path}: larger than {_LARGEST_BYTES} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ExpectationError(f"{path}: not JSON ({error})") from error
    try:
        return parse(document)
    except ExpectationError as error:
        raise ExpectationError(f"{path}: {error}") from error


def parse(document: object) -> Expectation:
    """Parse what the controller wrote; a missing or invalid value is an error, never ignored.

    Raises:
        ExpectationError: with the first error.
    """
    if not isinstance(document, Mapping):
        raise ExpectationError("no JSON object")
    if document.get("schema") != SCHEMA or not is_whole(document.get("schema")):
        raise ExpectationError(f"schema is {_show(document.get('schema'))}, this program knows {SCHEMA}")
    node = document.get("node")
    if not isinstance(node, str) or not node:
        raise ExpectationError(f"node is {_show(node)}")
    rails = document.get("rails")
    if not isinstance(rails, list):
        raise ExpectationError(f"rails is {_show(rails)}, no list")
    for place, rail in enumerate(rails):
        _check_rail(rail, place)
    if len({rail["name"] for rail in rails}) < len(rails):
        raise ExpectationError("two rails have one name")
    governor, gpus = document.get("governor"), document.get("gpus")
    if not isinstance(governor, str):
        raise ExpectationError(f"governor is {_show(governor)}, no text")
    if "gpus" not in document or not (gpus is None or isinstance(gpus, Mapping)):
        raise ExpectationError(f"gpus is {_show(gpus)}, no JSON object and not null")
    if gpus is not None:
        _check_gpus(gpus)
    if not (rails or governor) and gpus is None:
        raise ExpectationError("it expects nothing: no rails, no governor, no number of GPUs")
    transport = _one_of(document, "transport", TRANSPORTS)
    node_class = _one_of(document, "node_class", CLASSES)
    return Expectation(
        node,
        transport,
        node_class,
        [dict(rail) for rail in rails],
        governor,
        None if gpus is None else dict(gpus),
    )


def _one_of(document: Mapping[str, Any], key: str, words: tuple[str, ...]) -> str:
    if document.get(key) not in words:
        raise ExpectationError(f"{key} is {_show(document.get(key))}, none of {', '.join(words)}")
    return str(document[key])


def _check_gpus(gpus: Mapping[str, Any]) -> None:
    if not is_whole(gpus.get("count")) or gpus["count"] < 0:
        raise ExpectationError(f"gpus: count is {_show(gpus.get('count'))}, no number of GPUs")
    for key in ("model", "driver"):
        if not isinstance(gpus.get(key), (str, type(None))):
            raise ExpectationError(f"gpus: {key} is {_show(gpus[key])}, no text")
    for key in ("nvlinks", "power_cap_w"):
        if not (gpus.get(key) is None or (is_whole(gpus[key]) and gpus[key] >= 0)):
            raise ExpectationError(f"gpus: {key} is {_show(gpus[key])}, no whole number")


def _check_rail(rail: object, place: int) -> None:
    if not isinstance(rail, Mapping) or not isinstance(rail.get("name"), str) or not rail["name"]:
        raise ExpectationError(f"rails[{place}] has no name")
    name = rail["name"]
    for key in _TEXTS:
        if not isinstance(rail.get(key), (str, type(None))):
            raise ExpectationError(f"{name}: {key} is {_show(rail[key])}, no text")
    for key in ("mtu", "vlan"):
        if not (rail.get(key) is None or (is_whole(rail[key]) and rail[key] > 0)):
            raise ExpectationError(f"{name}: {key} is {_show(rail[key])}, no whole number above 0")
    if not (rail.get("rate_gbps") is None or (is_number(rail["rate_gbps"]) and rail["rate_gbps"] > 0)):
        raise ExpectationError(f"{name}: rate_gbps is {_show(rail['rate_gbps'])}, no number above 0")
    for key in ("address", "address6"):
        try:
            if rail.get(key) is not None:
                # A number would be an address, too.
                ipaddress.ip_interface(str(rail[key]) if "/" in str(rail[key]) else "no prefix")
        except ValueError as error:
            raise ExpectationError(
                f"{name}: {key} is {_show(rail[key])}, no address with its prefix length"
            ) from error


def _show(value: object) -> str:
    return repr(value)[:_SHOWN]

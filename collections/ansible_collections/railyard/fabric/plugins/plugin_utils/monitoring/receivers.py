# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check `monitoring_receivers`: who gets alerts. A secret in plain text is refused and not shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding, near_key
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Vaulted, literal, show
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import alertmanager
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring.rules import SEVERITIES

VARIABLE = "monitoring_receivers"
#: Of the values of each kind: those that must be there, and those that may.
KEYS = {
    "webhook": (("url",), ("bearer_token", "bearer_token_file")),
    "mail": (("to", "from", "smarthost"), ("username", "password", "password_file", "require_tls")),
    "slack": (("channel",), ("api_url", "api_url_file")),
}
_OWN_KEYS = ("name", "severities", *alertmanager.KINDS)
# It is the name of a file too.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_URL = re.compile(r"https?://[^\s/@]+(/\S*)?")
_HOST_AND_PORT = re.compile(r"\S+:[0-9]{1,5}")
_FIX_READABLE = (
    "encrypt it (ansible-vault encrypt_string), or name a file on the monitoring host by {key}_file; then "
    "change the secret, since anyone with the inventory has it"
)


class _Item(NamedTuple):
    """One integration of a receiver, and the path of its variable."""

    kind: str
    values: Mapping[str, Any]
    where: str


def check(receivers: Any) -> Iterator[Finding]:
    """Yield what is wrong with the raw value; only Ansible knows what an expression means."""
    if receivers is None or not _is_known(receivers):
        return
    if not isinstance(receivers, Sequence) or isinstance(receivers, str):
        fix = "write a list of receivers, as [{name: ops}]"
        yield Finding(VARIABLE, f"it is {show(receivers)}, not a list", fix)
        return
    names: set[str] = set()
    for index, receiver in enumerate(receivers):
        where = f"{VARIABLE}[{index}]"
        if not isinstance(receiver, Mapping):
            fix = "write it as {name: ops, webhook: {url: ...}}"
            yield Finding(where, f"it is {show(receiver)}, not a mapping", fix)
            continue
        yield from _check_own(receiver, where, names)
        for kind in alertmanager.KINDS:
            if kind in receiver:
                yield from _check_kind(kind, receiver[kind], f"{where}.{kind}")


def _check_own(receiver: Mapping[str, Any], where: str, names: set[str]) -> Iterator[Finding]:
    yield from _check_keys(receiver, _OWN_KEYS, where)
    name = receiver.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == alertmanager.NOBODY:
        fix = f"name it by letters, digits, - and _ (not {alertmanager.NOBODY}), as `name: ops`"
        yield Finding(f"{where}.name", f"{show(name)} is no name of a receiver", fix)
    elif name in names:
        yield Finding(f"{where}.name", f"{name} is there twice", "give each receiver a name of its own")
    else:
        names.add(name)
    if not any(kind in receiver for kind in alertmanager.KINDS):
        fix = f"add one of {', '.join(alertmanager.KINDS)}"
        yield Finding(where, "it has no way to be reached", fix)
    severities = receiver.get("severities", [])
    if not isinstance(severities, list) or not set(map(str, severities)) <= set(SEVERITIES):
        fix = f"write some of {', '.join(SEVERITIES)}, as `severities: [critical]`; without it all are sent"
        yield Finding(f"{where}.severities", f"{show(severities)} is no list of severities", fix)


def _check_keys(values: Mapping[str, Any], known: Sequence[str], where: str) -> Iterator[Finding]:
    for key in values:
        if key not in known:
            near = near_key(str(key), list(known))
            hint = f"did you mean {near}? " if near else ""
            yield Finding(f"{where}.{key}", "this key is not known", f"{hint}There are: {', '.join(known)}")


def _check_kind(kind: str, values: Any, where: str) -> Iterator[Finding]:
    if not isinstance(values, Mapping):
        if _is_known(values):
            fix = f"write its keys: {', '.join(KEYS[kind][0])}"
            yield Finding(where, f"it is {show(values)}, not a mapping", fix)
        return
    item = _Item(kind, values, where)
    needed, optional = KEYS[kind]
    yield from _check_keys(values, (*needed, *optional), where)
    for key in needed:
        if not isinstance(values.get(key), (str, Vaulted)) or values[key] == "":
            message = "it is missing" if key not in values else "it is no text"
            yield Finding(f"{where}.{key}", message, f"write {key}")
    yield from _check_secret(item)
    yield from _check_forms(item)


def _check_secret(item: _Item) -> Iterator[Finding]:
    key = alertmanager.SECRET_KEYS[item.kind]
    value, file = item.values.get(key), item.values.get(f"{key}_file")
    if value is not None and _is_known(value):
        fix = _FIX_READABLE.format(key=key)
        yield Finding(f"{item.where}.{key}", "a secret in plain text", fix)
    if value is not None and file is not None:
        yield Finding(f"{item.where}.{key}", f"{key}_file is there as well", "keep one of the two")
    if isinstance(file, str) and _is_known(file) and not file.startswith("/"):
        fix = "write the absolute path of a file on the monitoring host that group prometheus can read"
        yield Finding(f"{item.where}.{key}_file", f"{show(file)} is no absolute path", fix)
    if item.kind == "slack" and value is None and file is None:
        fix = "write api_url_file (a file on the monitoring host) or an encrypted api_url"
        yield Finding(item.where, "the address of its incoming webhook is missing", fix)
    if item.kind == "mail" and ("username" in item.values) != (value is not None or file is not None):
        fix = "write username and password_file, or neither"
        yield Finding(item.where, "username and password belong together", fix)


def _check_forms(item: _Item) -> Iterator[Finding]:
    url, smarthost = item.values.get("url"), item.values.get("smarthost")
    if isinstance(url, str) and _is_known(url) and not _URL.fullmatch(url):
        fix = "write http://HOST:PORT/PATH; a user and a password do not belong there, bearer_token_file does"
        # It may hold a password.
        yield Finding(f"{item.where}.url", "it is no address of a web service", fix)
    if isinstance(smarthost, str) and _is_known(smarthost) and not _HOST_AND_PORT.fullmatch(smarthost):
        fix = "write HOST:PORT, as mail.example.org:587"
        yield Finding(f"{item.where}.smarthost", f"{show(smarthost)} lacks a port", fix)
    if not isinstance(item.values.get("require_tls", True), (bool, Vaulted)):
        yield Finding(f"{item.where}.require_tls", "it is neither true nor false", "write true or false")


def _is_known(value: Any) -> bool:
    """Tell whether a value is neither encrypted nor an expression."""
    return isinstance(value, (Mapping, list)) or not list(literal(value))

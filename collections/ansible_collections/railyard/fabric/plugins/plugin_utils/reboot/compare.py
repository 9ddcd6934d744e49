# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node had before a reboot and has not after it. Pure: two readings in, sentences out.

What was missing before is not missed after. A new kernel is no difference, since it is what one reboots for;
whether it was announced is a question of its own, since a driver is built for one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number

#: A part of what was read of a node, or all of it.
Reading = Mapping[str, Any]
# Modules that rails and GPUs depend on; others come and go with what is plugged in.
_MODULES = re.compile(r"(ib|rdma|iw|mlx|nvidia|gdrdrv|bnxt|irdma|qed)[a-z0-9_]*\Z")


#: What a port must have as before, and its name in a message.
_PORT_KEYS = (
    ("state", "state"),
    ("link_layer", "link layer"),
    ("netdev", "netdev"),
    ("active_mtu_bytes", "RDMA MTU"),
)


def differences(before: Reading, after: Reading, rails: Sequence[Mapping[str, Any]]) -> list[str]:
    """Compare two readings of a node.

    Args:
        before: `facts` (rail_info), `modules` (lines of /proc/modules), `settings` (result of
            kernel_settings in check mode), from before the reboot; what could not be read is absent.
        after: the same from after it.
        rails: the node's rails as planned.

    Returns:
        One sentence per thing that is gone or different, with its rail; none when all is as it was.
    """
    facts_before, facts_after = before.get("facts") or {}, after.get("facts") or {}
    if not facts_after:
        return ["the node could not be read after the reboot"]
    problems = []
    if not facts_before.get("boot_id") or not facts_after.get("boot_id"):
        problems.append("a boot id is missing: whether the node has rebooted is not known")
    elif facts_before["boot_id"] == facts_after["boot_id"]:
        problems.append(f"the boot id is still {facts_after['boot_id']}: the node has not rebooted")
    bound_after = bind.bind(rails, facts_after)
    for name, bound in bind.bind(rails, facts_before).items():
        renamed = list(_renamed(name, bound, bound_after[name], facts_before, facts_after))
        others = [f"{name}: {problem}" for problem in _rail(bound, bound_after[name])]
        # A message on the port by its MAC is more specific than that a name is gone or different.
        problems += [*renamed, *(others[1:] if renamed and _of_name(bound, bound_after[name]) else others)]
    gone = _modules(before.get("modules") or ()) - _modules(after.get("modules") or ())
    if gone:
        problems.append(f"kernel modules are not loaded: {', '.join(sorted(gone))}")
    wrong = set(_deviations(after.get("settings"))) - set(_deviations(before.get("settings")))
    problems += [f"not as provisioned: {one}" for one in sorted(wrong)]
    return problems


def kernel_change(before: Reading, after: Reading) -> str | None:
    """Say that another kernel runs now, or None."""
    old, new = (reading.get("facts") or {} for reading in (before, after))
    if not old.get("kernel") or old["kernel"] == new.get("kernel"):
        return None
    return f"kernel {old['kernel']} before, {new.get('kernel')} now"


def unexpected_kernel(before: Reading, after: Reading, announced: Sequence[str] = ()) -> str | None:
    """Say that the kernel that runs after a reboot is not the one that was to be booted, or None.

    Args:
        before: as in `differences`.
        after: as in `differences`.
        announced: the kernels that waited for this reboot; without any, the one from before it.
    """
    old, new = ((reading.get("facts") or {}).get("kernel") for reading in (before, after))
    expected = list(announced) or ([old] if old else [])
    if not expected or new in expected:
        return None
    if announced and new == old:
        return f"kernel {' or '.join(expected)} was to be booted, and {old} runs again"
    return f"kernel {new} runs, and {' or '.join(expected)} was expected"


def _renamed(
    rail: str, before: bind.Bound, after: bind.Bound, facts_before: Reading, facts_after: Reading
) -> Iterator[str]:
    """Say that the rail's port came back under another name, or that another port has its name now.

    A port is known by its MAC, the permanent one where the node knows it. A MAC is not compared that two
    ports share, or that the node made up anew.
    """
    if before.netdev is None:
        return
    mac = before.netdev.get("permanent_mac") or before.netdev.get("mac")
    was, now = (bind.port_of_mac(facts, mac) for facts in (facts_before, facts_after))
    if was is None:
        return
    if now is not None and now["netdev"] != was["netdev"]:
        yield (
            f"{rail}: the port with MAC {mac} was {was['netdev']} and is {now['netdev']} now "
            f"(Fix: rail_overrides: {{{rail}: {{netdev: {now['netdev']}}}}} for this node, or give the port "
            "its old name back, which playbooks/network.yml then keeps by its MAC)"
        )
    elif now is None and after.netdev is not None:
        own, other = before.netdev.get("permanent_mac"), after.netdev.get("permanent_mac")
        if own and other:
            yield f"{rail}: {after.netdev['netdev']} is another port now: its MAC is {other}, not {own}"


def _of_name(before: bind.Bound, after: bind.Bound) -> bool:
    """Tell whether `_rail` has a message on the netdev's name, which is then its first."""
    old, new = (None if one.netdev is None else one.netdev["netdev"] for one in (before, after))
    return old is not None and old != new


def _rail(before: bind.Bound, after: bind.Bound) -> Iterator[str]:
    for what, key, was, now, inner in (
        ("netdev", "netdev", before.netdev, after.netdev, _netdev),
        ("RDMA port", "hca", before.hca, after.hca, _port),
    ):
        if was is not None and now is None and key == "hca" and after.renamed is not None:
            yield f"{what} {was[key]}, which the inventory names, is called {after.renamed[key]} now"
        elif was is not None and now is None:
            yield f"{what} {was[key]} is gone"
        elif was is not None and now is not None:
            # What a rail's RDMA device is called is no property of the rail: rdma-core's rule acts at boot.
            if now[key] != was[key] and key != "hca":
                yield f"{what} {was[key]} is {now[key]} now"
            yield from inner(was, now)


def _netdev(before: Reading, after: Reading) -> Iterator[str]:
    name = after["netdev"]
    if before.get("carrier") and not after.get("carrier"):
        yield f"{name} has no carrier"
    if after.get("carrier"):  # a link that is down has no speed to lose
        yield from _slower(name, before.get("speed_mbps"), after.get("speed_mbps"), 1000)
    if before.get("mtu_bytes") != after.get("mtu_bytes"):
        yield f"{name} has MTU {after.get('mtu_bytes')}, not {before.get('mtu_bytes')}"
    for key in ("addresses", "addresses6"):
        lost = _lasting(before.get(key)) - _lasting(after.get(key))
        if lost:
            yield f"{name} has lost {', '.join(sorted(lost))}"
        new = _lasting(after.get(key)) - _lasting(before.get(key))
        if new:
            yield f"{name} has a new address {', '.join(sorted(new))}"


def _port(before: Reading, after: Reading) -> Iterator[str]:
    name = after["hca"]
    active = before.get("state") == after.get("state") == "ACTIVE"
    if active:  # another state's rate and MTU mean nothing
        yield from _slower(name, before.get("rate_gbps"), after.get("rate_gbps"))
    for key, unit in _PORT_KEYS if active else _PORT_KEYS[:-1]:
        if before.get(key) != after.get(key):
            yield f"{name} has {unit} {after.get(key)}, not {before.get(key)}"
    for gid in sorted(_gids(before) - _gids(after)):
        yield f"{name} has lost GID {gid}"


def _slower(name: str, before: object, now: object, per_gbps: float = 1) -> Iterator[str]:
    """Say that a link that had a speed lost some of it; more than before is no loss."""
    if not is_number(before):
        return
    if not is_number(now):
        yield f"{name} runs at an unknown speed, not {before / per_gbps:g} Gbit/s"
    elif now < before:
        yield f"{name} runs at {now / per_gbps:g} Gbit/s, not {before / per_gbps:g}"


def _gids(port: Mapping[str, Any]) -> set[str]:
    """GIDs by type and value: the kernel may fill its table in another order at each boot."""
    return {
        f"{row.get('type')} {row.get('gid')}"
        for row in port.get("gids") or []
        if not _is_link_local(str(row.get("address") or ""))
    }


def _lasting(addresses: object) -> set[str]:
    if not isinstance(addresses, (list, tuple)):
        return set()
    return {str(one) for one in addresses if not _is_link_local(str(one))}


def _is_link_local(address: str) -> bool:
    try:
        return ipaddress.ip_interface(address).ip.is_link_local
    except ValueError:
        return False


def _modules(lines: Iterable[str]) -> set[str]:
    """Return the modules that somebody needs, of lines with name, size, uses and users (`-`: none)."""
    found = [str(line).split(" ") for line in lines]
    return {words[0] for words in found if _MODULES.match(words[0]) and not _is_asked_of_alone(words)}


def _is_asked_of_alone(words: Sequence[str]) -> bool:
    """Tell whether `rdma` alone has loaded it: its question does, also where there is no RDMA device."""
    return words[0] == "ib_core" and words[2:4] == ["0", "-"]


def _deviations(settings: object) -> Iterator[str]:
    """Yield what kernel_settings in check mode would change: `/proc/sys/… = value` and what it should be."""
    diffs = settings.get("diff") if isinstance(settings, Mapping) else None
    for part in diffs if isinstance(diffs, (list, tuple)) else ():
        if part.get("before_header") != "running kernel":
            continue  # its record of original values
        for now, wanted in zip(part["before"].splitlines(), part["after"].splitlines(), strict=True):
            yield f"{now}, wanted is {wanted.partition(' = ')[2]}"

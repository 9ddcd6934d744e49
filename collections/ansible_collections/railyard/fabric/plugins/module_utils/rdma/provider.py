# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the provider of the RDMA stack for a node's NICs. Pure: NICs and node in, choice and refusals out.

The releases for each generation are data with sources in `releases`. Other conditions:
- 4.9 builds on kernels up to 5.4 (release notes of 4.9-2.2.6.0), on Debian to 10 and Ubuntu to 20.04, whose
Python is
  older than what Railyard needs on a node.
- Since DOCA 3.2 the kernel part is DKMS only, which NVIDIA cannot sign (general support of DOCA 3.2.1).
"""

from __future__ import annotations

import re
import typing as t

from ..apt import vendor_repository
from . import releases
from .hardware import Card

_LEGACY_KERNEL = (5, 4)
_NODE_PYTHON = (3, 9)
_CURRENT = "doca"
# dkms(8), mokutil(1): DKMS signs with what its framework.conf names, by itself /var/lib/dkms/mok.pub;
# Ubuntu's uses the key of update-secureboot-policy(8).
_MOK_STEPS = (
    "make a key (`update-secureboot-policy --new-key` on Ubuntu, or the one that /etc/dkms/framework.conf "
    "names, by itself /var/lib/dkms/mok.pub), enrol it (`mokutil --import FILE`, which asks for a password), "
    "reboot and confirm it at the console with that password, see it with `mokutil --test-key FILE`"
)


class Node(t.NamedTuple):
    """The properties of the node that matter, besides its NICs.

    Attributes:
        kernel: The running kernel, as `uname -r` prints it.
        python: The version of the node's Python, major and minor.
        has_headers: Whether the headers of the running kernel are installed, to build modules.
        secure_boot: Whether Secure Boot is on; None where it is unknown.
        key_enrolled: Whether the site declares that the key with which DKMS signs is enrolled.
        system: Its distribution and architecture.
    """

    kernel: str
    python: tuple[int, int]
    has_headers: bool
    secure_boot: bool | None
    key_enrolled: bool = False
    system: vendor_repository.Node = vendor_repository.Node(None, None, None)


class Choice(t.NamedTuple):
    """The provider, why it cannot be used (then nothing is done), and notes about the installation."""

    provider: str
    refusals: list[str]
    findings: list[str]


def choose(
    wanted: str,
    version: str,
    cards: t.Sequence[Card],
    node: Node,
    uris: t.Sequence[str] = (),
    suites: t.Sequence[str] = ("./",),
) -> Choice:
    """Choose a provider, or return why the wanted one does not fit.

    Args:
        wanted: `doca`, `mlnx_ofed`, `inbox` or `auto`.
        version: The version of the vendor's metapackage (`4.9-7.1.0.0`, `2.9.5-0.1.8`); empty for any.
        cards: The NICs on the bus.
        node: Other properties of the node.
        uris: The vendor's repository, if a vendor's stack is used.
        suites: Its suites.
    """
    provider = best(cards, node, version) if wanted == "auto" else wanted
    refusals: list[str] = []
    if provider == "doca":
        refusals += _refuse_doca(version, cards, node)
    elif provider == "mlnx_ofed":
        refusals += _refuse_mlnx_ofed(version, cards, node)
    unknown = sorted({card.pci_id for card in cards if card.generation is None})
    findings = (
        [f"PCI id {', '.join(unknown)} is not in the table of cards; taken for a current one"]
        if unknown
        else []
    )
    if provider == "doca":
        findings += _find_unlisted(version, cards)
    if provider in ("doca", "mlnx_ofed"):
        refusals += vendor_repository.refuse(node.system, uris, suites, "rdma_stack_source")
        refusals += _refuse_unsigned(node)
        findings += _building(node)
    return Choice(provider, refusals, findings)


def best(cards: t.Sequence[Card], node: Node, version: str = "") -> str:
    """Return the provider that serves all NICs; `inbox` where there is none, or no NIC."""
    if not cards:
        return "inbox"
    if _oldest(cards):
        return "mlnx_ofed" if len(_oldest(cards)) == len(cards) and _can_legacy(node) else "inbox"
    return "inbox" if _ended(version, cards) or _too_new(version, cards) else _CURRENT


def _refuse_doca(version: str, cards: t.Sequence[Card], node: Node) -> list[str]:
    """Return errors for NICs that this release of DOCA-OFED does not serve."""
    if not cards:
        return ["no card of NVIDIA Networking is on the PCI bus. Fix: use provider inbox, or look for it"]
    refusals = []
    old = _oldest(cards)
    if old:
        instead = (
            "mlnx_ofed 4.9, which this kernel and Python allow, or inbox (mlx4 and rdma-core)"
            if _can_legacy(node)
            else "inbox (the kernel's own driver and rdma-core); MLNX_OFED 4.9, the last for them, does not "
            f"build on kernel {node.kernel}"
            if _kernel(node.kernel) > _LEGACY_KERNEL
            else "inbox (the kernel's own driver and rdma-core); MLNX_OFED 4.9 is for systems whose "
            "Python is "
            "too old here"
        )
        refusals.append(f"DOCA-OFED has no driver for {_named(old)}. Fix: use provider {instead}")
    for last, ended in _by_release(_ended(version, cards), "doca_last"):
        refusals.append(
            f"support of {_named(ended)} ends with DOCA {last}. Fix: name a rdma_stack_version {last}, or "
            "use provider inbox"
        )
    for _absent, young in _by_release(_too_new(version, cards), "doca_absent_until"):
        first = releases.served_by(young[0].generation).doca_listed_from
        newer = f"a rdma_stack_version {releases.name_release(first)} or newer" if first else "a newer one"
        refusals.append(
            f"DOCA {version} has no driver for {_named(young)}. Fix: name {newer}, or use provider inbox"
        )
    return refusals


def _find_unlisted(version: str, cards: t.Sequence[Card]) -> list[str]:
    """Return a note for NICs that no known list of the vendor has for this release of DOCA-OFED."""
    release = _doca_release(version)
    unlisted = []
    for card in cards:
        served = releases.served_by(card.generation)
        after, first = served.doca_absent_until, served.doca_listed_from
        if release and after and release > after and (first is None or release < first):
            unlisted.append(card)
    if not unlisted:
        return []
    return [
        f"it is not known here whether DOCA {version} serves {_named(unlisted)}: no list of adapter cards "
        'that was read says so. Look it up in "General Support" of that release before you install it'
    ]


def _refuse_mlnx_ofed(version: str, cards: t.Sequence[Card], node: Node) -> list[str]:
    """Return why this version of MLNX_OFED does not fit the NICs or the node."""
    release = _release(version)
    if release is None:
        return [f"the version of MLNX_OFED {version!r} is none. Fix: name one, such as 4.9-7.1.0.0"]
    refusals = []
    old = _oldest(cards)
    legacy = release < (5, 1)
    if old and not legacy:
        refusals.append(
            f"MLNX_OFED {version} has no driver for {_named(old)}: dropped in 5.1. Fix: use 4.9, or provider "
            "inbox"
        )
    young = [card for card in cards if card not in old and not releases.served_by(card.generation).mlnx_ofed]
    if young:
        refusals.append(
            f"MLNX_OFED has no driver for {_named(young)}: BlueField-2 and ConnectX-7 are its last. Fix: use "
            "provider doca, or inbox"
        )
    if legacy and _kernel(node.kernel) > _LEGACY_KERNEL:
        refusals.append(
            f"MLNX_OFED {version} builds on kernels up to 5.4, this one is {node.kernel}. Fix: use provider "
            "inbox"
        )
    if legacy and node.python < _NODE_PYTHON:
        refusals.append(
            f"the node's Python is {node.python[0]}.{node.python[1]}, Railyard needs 3.9. Fix: "
            "install a newer "
            "Python beside it and name it in ansible_python_interpreter"
        )
    current = [card for card in cards if card not in old and card not in young]
    if legacy and current:
        refusals.append(
            f"MLNX_OFED {version} is for the oldest cards, and the node has {_named(current)}. Fix: use inbox"
        )
    return refusals


def _building(node: Node) -> list[str]:
    """Return notes about building and loading the modules."""
    findings = []
    if not node.has_headers:
        findings.append(
            f"the headers of kernel {node.kernel} are not there, and the driver is built on the node: "
            "they are installed with it"
        )
    if node.secure_boot:
        findings.append(
            "Secure Boot is on: the modules load while the key that DKMS signs with is enrolled, as "
            "rdma_stack_secure_boot_key_enrolled says (`mokutil --test-key FILE` on the node tells it)"
        )
    return findings


def _refuse_unsigned(node: Node) -> list[str]:
    """Return an error for modules that Secure Boot would not load at the next boot, leaving no rails."""
    if not node.secure_boot or node.key_enrolled:
        return []
    return [
        "Secure Boot is on, and modules that are built on the node load only when they are signed with a key "
        f"of this machine's. Fix: {_MOK_STEPS}, then set rdma_stack_secure_boot_key_enrolled: true; or "
        "switch Secure Boot off, or use provider inbox"
    ]


def _oldest(cards: t.Sequence[Card]) -> list[Card]:
    """Return the NICs that only MLNX_OFED 4.9 serves."""
    return [card for card in cards if releases.served_by(card.generation).mlnx_ofed_legacy]


def _ended(version: str, cards: t.Sequence[Card]) -> list[Card]:
    """Return the NICs whose support ended with an earlier release of DOCA-OFED."""
    release = _doca_release(version)
    found = []
    for card in cards:
        served = releases.served_by(card.generation)
        if served.doca_last and not served.mlnx_ofed_legacy and (not release or release > served.doca_last):
            found.append(card)
    return found


def _too_new(version: str, cards: t.Sequence[Card]) -> list[Card]:
    """Return the NICs that are missing in the list of this or a later release of DOCA-OFED."""
    release = _doca_release(version)
    return [
        card
        for card in cards
        if release and release <= (releases.served_by(card.generation).doca_absent_until or (0, 0))
    ]


def _by_release(cards: t.Sequence[Card], field: str) -> list[tuple[str, list[Card]]]:
    """Group the NICs by the release in a field of their row."""
    groups: dict[releases.Release, list[Card]] = {}
    for card in cards:
        groups.setdefault(getattr(releases.served_by(card.generation), field), []).append(card)
    return [(releases.name_release(release), group) for release, group in sorted(groups.items())]


def _named(cards: t.Sequence[Card]) -> str:
    """Format NICs with their addresses."""
    return ", ".join(f"{card.generation or card.pci_id} ({card.pci})" for card in cards)


def _can_legacy(node: Node) -> bool:
    """Return whether MLNX_OFED 4.9 can be used here."""
    return _kernel(node.kernel) <= _LEGACY_KERNEL and node.python >= _NODE_PYTHON


def _kernel(release: str) -> tuple[int, int]:
    """Return major and minor of a kernel; an invalid version counts as newer than any."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match.group(1)), int(match.group(2))) if match else (9999, 0)


def _doca_release(version: str) -> releases.Release | None:
    """Return major and minor of a version of DOCA-OFED; None where none is named."""
    match = re.match(r"(\d+)\.(\d+)\.", version)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _release(version: str) -> tuple[int, int] | None:
    """Return major and minor of a version of MLNX_OFED."""
    match = re.match(r"(\d+)\.(\d+)-\d", version)
    return (int(match.group(1)), int(match.group(2))) if match else None

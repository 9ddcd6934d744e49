# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which provider of the RDMA stack a node's cards can have. Pure: cards and node in, choice and refusals out.

What a provider serves is data, with its source:
- DOCA-OFED: ConnectX-5 and newer, BlueField in NIC mode (HPE's SDR page of doca-ofed). MLNX_OFED 24.10
  was the last release of its own; what is newer comes as DOCA-OFED only. "DOCA 2.9.0 (and its LTS branch) is
  the final software version to support ConnectX-4", and has no ConnectX-8 (docs.nvidia.com, DOCA 2.9.4,
  "Changes and New Features"; its "General Support" has firmware of ConnectX-4 and ConnectX-4 Lx).
- MLNX_OFED dropped ConnectX-3, ConnectX-3 Pro and Connect-IB in 5.1 (release notes of 5.3 and 4.9): 4.9
  is their last.
- 4.9 builds on kernels up to 5.4 (release notes of 4.9-2.2.6.0), on Debian to 10 and Ubuntu to 20.04,
  whose own Python is older than what Railyard needs on a node.
- Since DOCA 3.2 the kernel part is DKMS only, which NVIDIA cannot sign (general support of DOCA 3.2.1).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.apt import vendor_repository
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.hardware import Card

_OLD = ("ConnectX-3", "ConnectX-3 Pro", "Connect-IB")
_BETWEEN = ("ConnectX-4", "ConnectX-4 Lx")
_AFTER_LTS = ("ConnectX-8",)
_DOCA_LTS = (2, 9)
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
    """What of the node decides beside its cards.

    Attributes:
        kernel: The running kernel, as `uname -r` says it.
        python: The version of the node's Python, major and minor.
        has_headers: Whether the headers of the running kernel are there to build modules against.
        secure_boot: Whether Secure Boot is on; None where it cannot be told.
        key_enrolled: Whether the site says that the key which DKMS signs with is enrolled.
        system: Its distribution and architecture.
    """

    kernel: str
    python: tuple[int, int]
    has_headers: bool
    secure_boot: bool | None
    key_enrolled: bool = False
    system: vendor_repository.Node = vendor_repository.Node(None, None, None)


class Choice(t.NamedTuple):
    """The provider, why it cannot be had (nothing is done then), and what has to be known before the act."""

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
    """Decide between providers, or say why the wanted one does not fit.

    Args:
        wanted: `doca`, `mlnx_ofed`, `inbox` or `auto`.
        version: Of the vendor's metapackage (`4.9-7.1.0.0`, `2.9.5-0.1.8`); empty where none is named.
        cards: What stands on the bus.
        node: What else decides.
        uris: Where the vendor's repository is, if a vendor's is taken.
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
    if provider in ("doca", "mlnx_ofed"):
        refusals += vendor_repository.refuse(node.system, uris, suites, "rdma_stack_source")
        refusals += _refuse_unsigned(node)
        findings += _building(node)
    return Choice(provider, refusals, findings)


def best(cards: t.Sequence[Card], node: Node, version: str = "") -> str:
    """Name the provider that serves all cards; where there is none, or no card, the kernel's own."""
    if not cards:
        return "inbox"
    if _named(cards, _OLD):
        return "mlnx_ofed" if not _named_not(cards, _OLD) and _can_legacy(node) else "inbox"
    return "inbox" if _named(cards, _BETWEEN) and not _is_lts(version) else _CURRENT


def _refuse_doca(version: str, cards: t.Sequence[Card], node: Node) -> list[str]:
    """Say which cards DOCA-OFED does not serve."""
    if not cards:
        return ["no card of NVIDIA Networking is on the PCI bus. Fix: use provider inbox, or look for it"]
    old, between = _named(cards, _OLD), _named(cards, _BETWEEN)
    refusals = []
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
        refusals.append(f"DOCA-OFED has no driver for {old}. Fix: use provider {instead}")
    if between and not _is_lts(version):
        refusals.append(
            f"support of {between} ends with DOCA 2.9 LTS. Fix: name a rdma_stack_version 2.9, or use "
            "provider inbox"
        )
    young = _named(cards, _AFTER_LTS)
    if young and _is_lts(version):
        refusals.append(
            f"DOCA 2.9 LTS has no driver for {young}. Fix: name a newer rdma_stack_version, or use provider "
            "inbox"
        )
    return refusals


def _refuse_mlnx_ofed(version: str, cards: t.Sequence[Card], node: Node) -> list[str]:
    """Say why this version of MLNX_OFED does not go with the cards or the node."""
    release = _release(version)
    if release is None:
        return [f"the version of MLNX_OFED {version!r} is none. Fix: name one, such as 4.9-7.1.0.0"]
    refusals = []
    old = _named(cards, _OLD)
    legacy = release < (5, 1)
    if old and not legacy:
        refusals.append(
            f"MLNX_OFED {version} has no driver for {old}: dropped in 5.1. Fix: use 4.9, or provider inbox"
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
    current = _named_not(cards, _OLD)
    if legacy and current:
        refusals.append(
            f"MLNX_OFED {version} is for the oldest cards, and the node has {current}. Fix: use inbox"
        )
    return refusals


def _building(node: Node) -> list[str]:
    """Say what stands between a module's source and a loaded module."""
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
    """Refuse modules that Secure Boot would not load: after the next boot the node would have no rails."""
    if not node.secure_boot or node.key_enrolled:
        return []
    return [
        "Secure Boot is on, and modules that are built on the node load only when they are signed with a key "
        f"of this machine's. Fix: {_MOK_STEPS}, then set rdma_stack_secure_boot_key_enrolled: true; or "
        "switch Secure Boot off, or use provider inbox"
    ]


def _named(cards: t.Sequence[Card], generations: t.Container[str]) -> str:
    """Name the cards of these generations with their addresses; empty when there is none."""
    return ", ".join(f"{card.generation} ({card.pci})" for card in cards if card.generation in generations)


def _named_not(cards: t.Sequence[Card], generations: t.Container[str]) -> str:
    """Name the cards of other generations."""
    return ", ".join(
        f"{card.generation or card.pci_id} ({card.pci})"
        for card in cards
        if card.generation not in generations
    )


def _can_legacy(node: Node) -> bool:
    """Tell whether MLNX_OFED 4.9 can be had here."""
    return _kernel(node.kernel) <= _LEGACY_KERNEL and node.python >= _NODE_PYTHON


def _kernel(release: str) -> tuple[int, int]:
    """Return major and minor of a kernel; one that cannot be read is newer than any."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match.group(1)), int(match.group(2))) if match else (9999, 0)


def _is_lts(version: str) -> bool:
    """Tell whether a version of DOCA-OFED is of the branch that ends support of the older cards."""
    match = re.match(r"(\d+)\.(\d+)\.", version)
    return match is not None and (int(match.group(1)), int(match.group(2))) == _DOCA_LTS


def _release(version: str) -> tuple[int, int] | None:
    """Return major and minor of a version of MLNX_OFED."""
    match = re.match(r"(\d+)\.(\d+)-\d", version)
    return (int(match.group(1)), int(match.group(2))) if match else None

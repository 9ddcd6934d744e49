# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links several texts agree on.

Each tool prints a link at both of its ports. A link counts where both ends name each other, or where the
other end has no line at all. A line with a damaged GUID or number contradicts the line of the other end, so
that damage takes links away and never makes one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...records.subnet import PortKey, Problem, Source
from .identities import Identities
from .statements import Found, Statement

# Of each kind of disagreement so many are named.
_MOST_NAMED = 20


class Lines(NamedTuple):
    """The lines of one text, by port.

    Attributes:
        text: the text.
        by_port: port -> what its first line says.
        peers: port -> its peer; None where the text says that there is none.
        unclear: ports of which the text says two things.
        unnamed: ports whose peer is named by a LID alone that no other line explains.
        listed: GUIDs of devices of which each link has a line.
    """

    text: Found
    by_port: dict[PortKey, Statement]
    peers: dict[PortKey, PortKey | None]
    unclear: set[PortKey]
    unnamed: set[PortKey]
    listed: set[str]


def sort_lines(text: Found, identities: Identities) -> Lines:
    """Sort the statements of a text by the ports that they are about."""
    by_port: dict[PortKey, Statement] = {}
    peers: dict[PortKey, PortKey | None] = {}
    unclear: set[PortKey] = set()
    unnamed: set[PortKey] = set()
    for statement in text.statements:
        key = identities.find(statement.end)
        if key is None:
            continue
        peer = identities.find(statement.peer) if statement.peer is not None else None
        if statement.peer is not None and peer is None:
            unnamed.add(key)
        elif key in peers and peers[key] != peer:
            unclear.add(key)
        if key not in by_port:
            by_port[key], peers[key] = statement, peer
    listed = {one.guid for one in text.devices} if text.names_all_links else set()
    return Lines(text, by_port, peers, unclear, unnamed, listed)


def links_of(lines: Lines) -> tuple[dict[PortKey, PortKey], set[PortKey], list[PortKey]]:
    """Return the links that a text confirms, the ports that it contradicts itself on, and one-sided ports.

    A one-sided port is named as a peer and has no line of its own.
    """
    claims = {
        (key, peer) for key, peer in lines.peers.items() if peer is not None and key not in lines.unclear
    }
    pairs = {frozenset(claim) for claim in claims if claim[0] != claim[1]}
    uses = Counter(key for pair in pairs for key in pair)
    links: dict[PortKey, PortKey] = {}
    contradicted: set[PortKey] = set(lines.unclear)
    one_sided = []
    for pair in pairs:
        near, far = sorted(pair)
        is_mutual = (near, far) in claims and (far, near) in claims
        alone = [key for key in pair if key not in lines.peers]
        if any(uses[key] > 1 for key in pair) and not (is_mutual and _is_only_mutual(pair, pairs, claims)):
            contradicted |= pair
        elif is_mutual or (alone and alone[0].guid not in lines.listed):
            links[near], links[far] = far, near
            one_sided += alone
        else:
            contradicted |= pair
    return links, contradicted - links.keys(), sorted(one_sided)


def _is_only_mutual(
    pair: frozenset[PortKey],
    pairs: Iterable[frozenset[PortKey]],
    claims: set[tuple[PortKey, PortKey]],
) -> bool:
    """Tell whether both ends name each other and no other link of these ports is confirmed by both."""
    rivals = [one for one in pairs if one != pair and one & pair]
    return not any((a, b) in claims and (b, a) in claims for a, b in map(sorted, rivals))


class Agreement(NamedTuple):
    """The links that no text contradicts, the ports on which texts differ, and why."""

    links: dict[PortKey, PortKey]
    differ: set[PortKey]
    problems: list[Problem]


def agree(sorted_lines: Sequence[Lines]) -> Agreement:
    """Join the links of several texts."""
    answers: dict[PortKey, dict[PortKey | None, str]] = {}
    problems: list[Problem] = []
    for lines in sorted_lines:
        links, contradicted, one_sided = links_of(lines)
        is_alone = not any(one.text.names_both_ends for one in sorted_lines)
        problems += _tell_damage(lines, contradicted, one_sided, is_alone)
        contradicted |= lines.unnamed - links.keys()
        for key in {*lines.peers, *links} - contradicted:
            answers.setdefault(key, {}).setdefault(links.get(key), lines.text.file)
        if lines.listed:
            others = {key for one in sorted_lines for key in one.peers if key.guid in lines.listed}
            for key in others - lines.peers.keys() - contradicted - links.keys():
                answers.setdefault(key, {}).setdefault(None, lines.text.file)
    differ = {key for key, said in answers.items() if len(said) > 1}
    links = {}
    for key, said in answers.items():
        peer = next(iter(said))
        if peer is not None and key not in differ and peer not in differ:
            links[key] = peer
    for key, peer in list(links.items()):
        links.setdefault(peer, key)
    problems += _tell_differences(answers, differ)
    return Agreement({key: peer for key, peer in links.items() if links.get(peer) == key}, differ, problems)


def _tell_damage(
    lines: Lines, contradicted: set[PortKey], one_sided: list[PortKey], is_alone: bool
) -> list[Problem]:
    """Report links that a text does not confirm; `is_alone` where no other text has both ends of links."""
    file, found = lines.text.file, []
    if contradicted:
        first = min(contradicted)
        at = lines.by_port[first].line if first in lines.by_port else 0
        text = (
            f"{file}: the lines of {len(contradicted)} ports contradict each other, the first is"
            f" {first.guid} port {first.number}"
        )
        found.append(Problem("damaged", text, Source(file, at)))
    if lines.unnamed:
        first = min(lines.unnamed)
        text = (
            f"{file}: the peers of {len(lines.unnamed)} ports have LIDs that no line gives a GUID for,"
            f" the first is that of {first.guid} port {first.number}. Add ibnetdiscover.txt"
        )
        found.append(Problem("missing", text, Source(file, lines.by_port[first].line)))
    if not one_sided:
        return found
    first = one_sided[0]
    text = (
        f"{file}: {len(one_sided)} ports are named as peers and have no line of their own, the first is"
        f" {first.guid} port {first.number}"
    )
    if lines.text.names_both_ends or _lists_adapters(lines) or _lists_device(lines, one_sided):
        found.append(Problem("damaged", f"{text}: the output is cut", Source(file, 0)))
    elif is_alone:
        # It may as well be cut behind the last switch.
        text += ": it is of `--switches-only`, or is cut. Add the output of `ibnetdiscover -p`"
        found.append(Problem("missing", text, Source(file, 0)))
    return found


def _lists_adapters(lines: Lines) -> bool:
    """Tell whether a text without kinds has a line of an adapter: of what has one port only."""
    ports = Counter(key.guid for key in lines.peers)
    return any(one == 1 for one in ports.values())


def _lists_device(lines: Lines, ports: list[PortKey]) -> bool:
    devices = {key.guid for key in lines.peers}
    return any(key.guid in devices for key in ports)


def _tell_differences(
    answers: dict[PortKey, dict[PortKey | None, str]], differ: set[PortKey]
) -> list[Problem]:
    found = []
    for key in sorted(differ)[:_MOST_NAMED]:
        said = "; ".join(
            f"{file}: {f'{peer.guid} port {peer.number}' if peer else 'no peer'}"
            for peer, file in answers[key].items()
        )
        text = f"the peer of {key.guid} port {key.number} changed while the subnet was read ({said})"
        found.append(Problem("changed", text, Source(next(iter(answers[key].values())), 0)))
    if len(differ) > _MOST_NAMED:
        text = f"the peers of {len(differ) - _MOST_NAMED} further ports differ"
        found.append(Problem("changed", text, Source(found[0].source.file, 0)))
    return found

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma link (iproute2): text of both ages, and `rdma -j link`."""

from __future__ import annotations

import json
import re
from typing import Any

from .. import common
from ..common import error, to_int
from . import state as hca_state

# `link mlx5_0/1 state ACTIVE ...`, up to iproute2 4.20 `5/1: mlx5_5/1: state ACTIVE ...`
_LINE = re.compile(r"^\s*(?:link |[0-9]+/[0-9]+: )([^/\s:]{1,80})/([0-9]{1,3}|-)(?::)? (.*)$")
_BEGUN = re.compile(r"^\s*link \S{0,80}\s*$")
_JSON_START = re.compile(r"(?:^|(?<=\]))[ \t]*\[(?=\s*[\]{])", re.M)
_WORDS = ("state", "physical_state", "netdev", "lid", "sm_lid")
_STATES = ("ACTIVE", "DOWN", "INIT", "LINK_UP", "POLLING", "DISABLED")
_STATE = re.compile(r"[A-Z_]{1,40}\Z")
_OTHER_WORDS = ("netdev_index", "subnet_prefix", "lmc", "caps:")


def _is_cut(word: str) -> bool:
    if word in _STATES:
        return False
    return not _STATE.match(word) or any(state.startswith(word) for state in _STATES)


def _is_of_link(tokens: list[str]) -> bool:
    """Return whether a line is of a link, not of `rdma statistic` or `rdma resource`, which begin equally."""
    words = (*_WORDS, *_OTHER_WORDS)
    return not tokens or any(word.startswith(tokens[0]) for word in words)


def _odd(tokens: list[str]) -> str | None:
    """Return the first key that no link has; the last one may be truncated."""
    # Before the capabilities `-o` has a backslash.
    end = next((at for at, word in enumerate(tokens) if word in ("\\", "caps:")), len(tokens))
    known = (*_WORDS, *_OTHER_WORDS)
    names = tokens[:end:2]
    if end % 2 and any(word.startswith(names[-1]) for word in known):
        names.pop()
    return next((name for name in names if name not in known), None)


def _link(device: str, port: object, words: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": device,
        "port": to_int(port),
        "state": words.get("state"),
        "physical_state": words.get("physical_state"),
        "netdev": words.get("netdev"),
        "lid": to_int(words.get("lid")),
        "sm_lid": to_int(words.get("sm_lid")),
    }


def _read_json(text: str) -> list[dict[str, Any]] | None:
    found: list[Any] = []
    end = 0
    try:
        # There may be a prompt before and after it, and another node's list.
        while start := _JSON_START.search(text, end):
            one, end = json.JSONDecoder().raw_decode(text, start.end() - 1)
            found += one
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(one, dict) and "ifname" in one for one in found):
        return None
    if any("physical_state" not in one for one in found):
        raise common.NotThisTool("JSON of rdma, but not of its links: it has no physical_state")
    links = []
    for one in found:
        words = {key: str(value) for key, value in one.items() if isinstance(value, (str, int))}
        links.append(_link(str(one["ifname"]), one.get("port"), words))
    return links


def _read_text(lines: list[str]) -> tuple[list[dict[str, Any]], dict[str, str] | None]:
    links = []
    problem = None
    for line in lines:
        match = _LINE.match(line)
        tokens = match.group(3).split() if match else []
        if match and _is_of_link(tokens):
            words = {key: tokens[at + 1] for at, key in enumerate(tokens[:-1]) if key in _WORDS}
            if tokens and tokens[-1] in (*_WORDS, *_OTHER_WORDS[:-1]):
                problem = problem or error("truncated", f"a link ends with {tokens[-1]!r} and has no value")
            if any(tokens.count(word) > 1 for word in _WORDS):
                problem = problem or error("garbled", f"a link's line has a key twice: {line.strip()[:80]}")
            odd = _odd(tokens)
            if odd:
                problem = problem or error("garbled", f"{odd[:40]!a} is not a property of a link")
            links.append(_link(match.group(1), match.group(2), words))
        elif not match and _BEGUN.match(line):
            problem = hca_state.graver(problem, error("truncated", f"the line {line.strip()[:60]!r} is cut"))
        elif not match and line.strip():
            problem = hca_state.graver(problem, hca_state.message(line))
    return links, hca_state.without_shell(problem, bool(links))


def parse(text: str) -> dict[str, Any]:
    """Parse the output of `rdma link` or `rdma -j link`.

    Args:
        text: What rdma printed.

    Returns:
        The common object, one output per run: `links`. An InfiniBand link has no netdev.

    Raises:
        NotThisTool: There is neither a link nor a message of rdma.
    """
    lines = common.split_lines(text)
    links, problem = _read_text(lines)
    has_json = bool(_JSON_START.search(text))
    warnings = [common.not_read("JSON")] if links and has_json else []
    if not links and has_json:
        found = _read_json(text)
        if found is None and '"ifname"' in text:
            problem = error("truncated", "the JSON ends in the middle")
        links = found or []
        if found == []:
            problem = error("no_device", "there is no RDMA link")
    if not links and problem is None:
        raise common.refusal("no link of rdma", lines)
    for state in (link[key] for link in links for key in ("state", "physical_state")):
        if problem is None and state is None:
            problem = error("truncated", "a link has no state")
        elif problem is None and _is_cut(state):
            problem = error("truncated", f"a link's state is {state[:40]!a}, part of a word or none")
    outputs = [{"links": run} for run in common.runs(links, "device", "port")]
    return common.result("rdma-link", outputs, problem, warnings)

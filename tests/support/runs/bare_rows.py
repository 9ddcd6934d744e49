"""Rows as the rules see them, without a run around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import (
    RowEnd,
    RowNumbers,
    RowPair,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.end_rules import list_number_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.pair_rules import (
    list_counter_rules,
    list_number_agreement_rules,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import find_broken

Row = Mapping[str, Any]


class BareEnd(RowEnd):
    """An end of which no more is known than its row and the policy."""

    def __init__(self, row: Row, policy: Row) -> None:
        whole: Any = {"host": "gpu1", "window_s": None, **row}
        RowNumbers.__init__(self, whole, policy, CHECKS[row["check"]])


def impossible(row: Row, policy: Row) -> list[str]:
    """Return what is wrong with the numbers of a row."""
    end = BareEnd(row, policy)
    return [seen for _cause, seen in find_broken(list_number_rules(end.check, row["end"]), end)]


def disagreement(client: Row, server: Row, policy: Row) -> str | None:
    """Return in what the numbers of both rows contradict each other, or None."""
    pair = RowPair(BareEnd(client, policy), BareEnd(server, policy))
    return next((seen for _cause, seen in find_broken(list_number_agreement_rules(), pair)), None)


def counter_problem(row: Row, client: Row, policy: Row) -> str | None:
    """Return in what a row's counters contradict the client's numbers, or None."""
    one, other = BareEnd(row, policy), BareEnd(client, policy)
    pair = RowPair(one if row["end"] == "client" else other, one)
    rules = list_counter_rules(one.check, row["end"])
    return next((seen.partition(": ")[2] for _cause, seen in find_broken(rules, pair)), None)

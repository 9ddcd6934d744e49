# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node reports about a cable has its check's form, or the line is unmeasured."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.cabling import lldp
from ansible_collections.railyard.fabric.plugins.module_utils.records import cable_rows
from support.runs.fake_run import FakeRun

ODD: list[Any] = [None, "", "x", True, -1, float("nan"), 10**400, [], {}, [None], [[]], {"a": [1]}]
RUN = FakeRun()
MAY_BE_NONE = ("route_netdev", "other_rail", "other_address")
TOLD = {row["check"]: row["cabling"] for row in RUN.results if row["id"].startswith("c")}


def test_what_a_healthy_run_tells_is_understood() -> None:
    assert set(TOLD) == {"cabling", "link_address_owner", "reply_path"}
    for check, told in TOLD.items():
        assert cable_rows.refusal(check, told) is None
    heard = lldp.Neighbour(switch=None, chassis="02:00:00:00:00:01", port="7")._asdict()
    assert cable_rows.refusal("neighbour", {"neighbours": [heard], "count": 1}) is None


@pytest.mark.parametrize("check", TOLD)
def test_a_key_that_is_gone_unknown_or_of_another_type_leaves_the_line_unmeasured(check: str) -> None:
    identity = RUN.ids(check)[0]
    assert RUN.verdict(identity)["outcome"] == "pass"
    for key, before in TOLD[check].items():
        for odd in ODD:
            same = type(odd) is type(before) and odd not in ([None], [[]], {"a": [1]}, -1)
            if same or (odd is None and key in MAY_BE_NONE):
                continue  # another value of the same type is judged
            run = RUN.copy()
            run.rows(identity)[0]["cabling"][key] = odd
            found = run.verdict(identity)
            assert (found["outcome"], found["cause_class"]) == ("unmeasured", "row_garbled"), (key, odd)
    for change in ({"more": 1}, None):
        run = RUN.copy()
        told = run.rows(identity)[0]["cabling"]
        told.update(change) if change else told.pop(next(iter(told)))
        assert run.verdict(identity)["cause_class"] == "row_garbled"


def test_one_nodes_garbage_of_a_cable_leaves_the_rest_judged() -> None:
    run = FakeRun()
    before = {one["id"]: one["outcome"] for one in run.judge()}
    for row in run.results:
        if row["id"].startswith("c") and row["host"] == "gpuserver2":
            row["cabling"] = copy.deepcopy({"peer": {}, "known": 5, "foreign": [7]})
    after = {one["id"]: one["outcome"] for one in run.judge()}
    assert len(after) == len(before)
    assert run.status() == 3
    assert {after[identity] for identity in before if not identity.startswith("c")} <= {"pass", "recorded"}

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows and questions that say nothing, or what cannot be."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import (
    PROVEN,
    UNPROVEN,
    Allowance,
    Claim,
    prove,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from support.runs.fake_run import FakeRun

HEALTHY = FakeRun()
MOVED = {name: [0, 1000] for name in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")}


def test_counters_that_are_reported_alone_prove_nothing_of_the_link() -> None:
    run = HEALTHY.copy()
    notices = [name for name, kind in link_errors.KINDS.items() if kind == link_errors.NOTICE]
    for row in run.results:
        if row["link_errors"]:
            row["link_errors"] = {notices[0]: [1, 1]}
    found = {(one["outcome"], one["cause_class"]) for one in run.judge() if one["check"] == "link_errors"}
    assert found == {("unmeasured", "no_error_counters")}
    assert run.status() == 3


@pytest.mark.parametrize(
    ("claim", "proof"),
    [
        (Claim("bytes", 1000.0, 1000.0), PROVEN),
        (Claim("bytes", 0.0, 0.0, 1000.0, 1000.0), PROVEN),
        (Claim("bytes", 0.0, 0.0), UNPROVEN),
        (Claim("packets", 0.0, 0.0), UNPROVEN),
        (Claim("bytes", 5e9, 0.0), UNPROVEN),
        (Claim("bytes", 1000.0, 1000.0, 5e9, 0.0), UNPROVEN),
        (Claim("words", 10.0, 1000.0), UNPROVEN),
    ],
)
def test_a_claim_of_nothing_is_not_proven(claim: Claim, proof: str) -> None:
    assert prove(claim, "client", MOVED, {}, Allowance(0, 1))[0] == proof


def test_a_boot_that_is_unknown_is_not_the_same_boot() -> None:
    run = HEALTHY.copy()
    for row in run.facts:
        row["boot_id"] = None
    for row in run.results:
        if row.get("other_end"):
            row["other_end"] = {"boot_id": None}
    assert run.verdict(run.ids("tcp_bandwidth")[0])["cause_class"] == "facts_garbled"
    assert run.status() == 3


@pytest.mark.parametrize("schema", [2, None, True, "1"])
@pytest.mark.parametrize("name", ["manifest", "plan", "asked"])
def test_another_schema_is_not_judged_by_this_ones_rules(name: str, schema: object) -> None:
    run = HEALTHY.copy()
    (run.asked[-1] if name == "asked" else getattr(run, name))["schema"] = schema
    with pytest.raises(verdict.JudgeError, match=f"{name}.*schema"):
        run.judge()

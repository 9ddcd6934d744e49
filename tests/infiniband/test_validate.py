# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`railyard validate --fabric` on a live subnet: this machine is the node, and the run is put in place.

The run has one slow rail, gpu003 rail0. gpu001 and gpu002 are on su1-leaf1, gpu003 and gpu004 on su2-leaf1.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from infiniband.test_live import CONNECTION
from railyard.lab.subnet.faults import Counted, LiveFault, Silent
from railyard.lab.subnet.net import End
from support import simulated
from support.runs.report_page import page_of
from support.simulated import Cluster, Subnet

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="reading as root without a login needs root")
CLUSTER = Cluster(nodes=4, rails=2, units=2)


class Ended:
    """A run with the fabric around it: what was printed, and what the folders have."""

    def __init__(self, inventory: Path, reports: Path, subnet: Subnet, *events: LiveFault) -> None:
        done = simulated.run_validate(inventory, reports, subnet, *events)
        self.status, self.printed = done.returncode, done.stdout + done.stderr
        runs = [path.parent for path in (reports / inventory.name).glob("*/fabric.json")]
        assert len(runs) == 1, self.printed
        self.run = runs[0]
        self.fabric = json.loads((self.run / "fabric.json").read_text())

    def ways(self, *pair: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the paths of a pair by their direction."""
        paths = [one for one in self.fabric["paths"] if {one["node"], one["peer"]} == set(pair)]
        assert [one["rail"] for one in paths] == ["rail0"]
        return {(way["sender"], way["receiver"]): way for way in paths[0]["ways"]}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """An inventory whose nodes are this machine."""
    folder = tmp_path / "mine"
    (folder / "group_vars" / "all").mkdir(parents=True)
    (folder / "hosts.yml").write_text(CLUSTER.text())
    (folder / "group_vars/all/connection.yml").write_text(CONNECTION)
    return folder


def test_a_slow_pair_is_shown_with_its_path_and_the_errors_on_it(inventory: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    errors = Counted(End("su2-leaf1", 1), "SymbolErrorCounter", 1000)
    with simulated.simulate(CLUSTER.net(), tmp_path / "sim") as subnet:
        ended = Ended(inventory, reports, subnet, errors)
        listed = [one.name for one in (reports / "mine" / "fabric").iterdir()]
    assert ended.status == 1, ended.printed
    assert listed == [ended.fabric["folder"]]
    ways = ended.ways("gpu001", "gpu003")
    for (sender, receiver), way in ways.items():
        ends = [(one["out"]["name"], one["into"]["name"]) for one in way["links"]]
        leaves = ("su1-leaf1", "su2-leaf1") if sender == "gpu001" else ("su2-leaf1", "su1-leaf1")
        spine = ends[1][1]
        assert ends == [
            (f"{sender} rail0", leaves[0]),
            (leaves[0], spine),
            (spine, leaves[1]),
            (leaves[1], f"{receiver} rail0"),
        ]
        assert spine in ("spine1", "spine2")
        assert way["unknown"] is None
        assert {one["rate_gbps"] for one in way["links"]} == {100.0}
    # gpu003 is the first node of its leaf; only its own link has errors, which came during the tests.
    there = ways["gpu001", "gpu003"]["links"]
    assert there[-1]["out"] == {**there[-1]["out"], "name": "su2-leaf1", "port": 1}
    assert [one["grown"] for one in there[:-1]] == [[], [], []]
    expected = {"counter": "SymbolErrorCounter", "by": 1000, "at_least": False, "end": "out"}
    assert there[-1]["grown"] == [expected]
    back = ways["gpu003", "gpu001"]["links"]
    assert back[0]["grown"] == [{**expected, "end": "into"}]
    # Both of the slow rail's pairs, and no other.
    assert {(one["node"], one["peer"]) for one in ended.fabric["paths"]} == {
        ("gpu001", "gpu003"),
        ("gpu002", "gpu003"),
    }
    page, words = page_of(ended.run), "SymbolErrorCounter +1000 at su2-leaf1 port 1"
    for text in (page.text, ended.printed, (ended.run / "report.md").read_text()):
        assert words in text.replace("\\", "")
        assert "gpu003 rail0 port 1" in text
    links = [attributes.get("href") or "" for tag, attributes in page.tags if tag == "a"]
    assert f"../fabric/{ended.fabric['folder']}/index.html" in links
    assert (ended.run / f"../fabric/{ended.fabric['folder']}/index.html").is_file()
    fabric = page_of(reports / "mine" / "fabric" / listed[0])
    assert words in fabric.text
    assert f"../../{ended.run.name}/index.html" in [at.get("href") for tag, at in fabric.tags if tag == "a"]
    # A line for each link between switches that a path takes, whichever spine it is, and two below leaves.
    assert {attributes["class"] for tag, attributes in fabric.tags if tag == "path"} >= {"way", "fault fail"}
    # The finding of the fabric's own judge is there, too.
    assert [one["cause"] for one in ended.fabric["findings"]] == ["errors_above_ber"]
    before = (ended.run / "index.html").read_bytes()
    again = simulated.run_railyard(reports, "report", str(ended.run))
    assert (ended.run / "index.html").read_bytes() == before
    assert words in again.stdout
    judged = simulated.run_railyard(reports, "judge", str(ended.run), "--json")
    assert json.loads(judged.stdout)["fabric"] == ended.fabric


def test_a_path_that_cannot_be_read_is_not_known(inventory: Path, tmp_path: Path) -> None:
    with simulated.simulate(CLUSTER.net(), tmp_path / "sim") as subnet:
        ended = Ended(inventory, tmp_path / "reports", subnet, Silent("su2-leaf1"))
    assert ended.status == 1, ended.printed
    for way in ended.ways("gpu001", "gpu003").values():
        assert way["links"] == []
        assert way["unknown"]
    assert "The path is not known" in ended.printed
    assert "The path is not known" in page_of(ended.run).text

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of each machine of the gallery: a healthy one raises no alert, a sick one shows what it has.

The conditions are those of the alerts of roles/monitoring on what a rail is now, written out by hand, since
the writer's numbers have to fit them on real hardware's names, drivers and files.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import main
from support.machines import pair
from support.metrics.exposition_reader import parse

#: Causes of the quick check that a rail's metrics show as well, and the alert.
SHOWN = {
    "mtu_differs": "RailMtuWrong",
    "no_gid": "RailGidWrong",
    "link_speed": "RailBelowRate",
    "hca_missing": "RailRdmaPortDown",
}


@pytest.fixture(scope="module")
def made():
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        healthy: dict[str, pair.Pair] = {}

        def make(name, variant=None):
            of = pair.read(name)
            place = Path(folder) / name / (variant or "healthy")
            place.mkdir(parents=True)
            if variant is None:
                healthy[name] = pair.Pair(of, place)
                return healthy[name]
            return pair.Pair(of, place, of.variants[variant], healthy.get(name) or make(name))

        yield make


def series(node: pair.NodeOn) -> dict[str, dict[frozenset, float]]:
    """Write the node's metrics, and return them by name."""
    root = node.tree.root
    plan = node.plan
    wanted = {"schema": 1, "node": node.name, "transport": plan["transport"], "rails": plan["rails"]}
    wanted |= {"node_class": plan["node_class"], "gpus": plan.get("gpus")}
    wanted["governor"] = node.tree.node.governor or ""
    (root / "metrics.json").write_text(json.dumps(wanted))
    out = root / "railyard_node.prom"
    argv = ["--expect", str(root / "metrics.json"), "--out", str(out), "--kept", str(root / "kept.json")]
    with node.kernel.running():
        assert main.main([*argv, "--quick", str(root / "looks"), "--root", str(root)]) == 0
    return {name: family.series for name, family in parse(out.read_text()).items()}


def alerts(found: dict[str, dict[frozenset, float]]) -> set[str]:
    """Return `ALERT RAIL` of the conditions that hold."""

    def by_rail(name: str) -> dict[frozenset, float]:
        return found.get(f"railyard_rail_{name}", {})

    def rail(labels: frozenset) -> str:
        return dict(labels)["rail"]

    fired = {
        f"RailRdmaPortDown {rail(at)}" for at, value in by_rail("rdma_port_active").items() if value == 0
    }
    fired |= {f"RailGidWrong {rail(at)}" for at, value in by_rail("gid_present").items() if value == 0}
    for alert, now, wanted, is_bad in (
        ("RailBelowRate", "rate_bytes_per_second", "expected_rate_bytes_per_second", lambda a, b: 0 < a < b),
        ("RailMtuWrong", "mtu_bytes", "expected_mtu_bytes", lambda a, b: a != b),
        ("RailPcieDowntrained", "pcie_lanes", "pcie_lanes_max", lambda a, b: a < b),
    ):
        most = by_rail(wanted)
        fired |= {
            f"{alert} {rail(at)}"
            for at, value in by_rail(now).items()
            if at in most and is_bad(value, most[at])
        }
    return fired


@pytest.mark.parametrize("name", pair.names())
def test_a_healthy_machine_raises_no_alert_and_each_rail_has_its_series(made, name):
    for node in made(name).nodes.values():
        began = time.process_time()
        found = series(node)
        assert time.process_time() - began < 5
        assert alerts(found) == set()
        rails = {rail["name"] for rail in node.plan["rails"]}
        assert {dict(at)["rail"] for at in found["railyard_rail_info"]} == rails
        netdevs = {dict(at)["rail"] for at in found.get("railyard_rail_netdev_info", {})}
        # EFA devices and InfiniBand ports without IP have no netdev that could be without a link.
        assert netdevs == ({rail["name"] for rail in node.plan["rails"] if rail["netdev"]} or netdevs)
        kinds = {(dict(at)["rail"], dict(at)["kind"]) for at in found["railyard_rail_errors_total"]}
        assert len(kinds) == 5 * len(rails)
        wrong = found.get("railyard_cpus_with_wrong_governor", {})
        assert set(wrong.values()) <= {0}


SICK = [
    pytest.param(name, variant, SHOWN[cause.cause], id=f"{name}-{variant}")
    for name in pair.names()
    for variant, one in pair.read(name).variants.items()
    for cause in one.expect
    if cause.stage == "quick" and cause.outcome == "fail" and cause.cause in SHOWN
]


@pytest.mark.parametrize(("name", "variant", "alert"), SICK)
def test_a_sick_machine_shows_what_it_has(made, name, variant, alert):
    fired = {one.split()[0] for node in made(name, variant).nodes.values() for one in alerts(series(node))}
    assert alert in fired


def test_there_are_sick_machines():
    assert len(SICK) >= 5

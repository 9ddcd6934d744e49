"""What ClusterMAX's auditor says of a node before and after Railyard, and when it was uninstalled.

Minutes, root and the package index: part of `make test-full`. With RAILYARD_CLUSTERMAX_LAB=vm the nodes are
virtual machines, whose sysctls are their own; a container shows those of this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from clustermax import auditor
from e2e.conftest import POLICY
from e2e.support import RATE_GBPS, Cluster, edited, needs_root, write_lab

KIND = os.environ.get("RAILYARD_CLUSTERMAX_LAB", "container")
NODE = "gpuserver1"
States = dict[str, dict[str, str]]
# Which of two statuses is better; one that is skipped was not run, and is neither.
BAD = ("fail", "warning")
# The part of the overlay `clustermax` that such nodes can have: neither GPU nor GRUB.
OPT_INS = {"node_tuning_profiling": True, "benchmark_tools_extra_packages": ["linux-perf"]}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[States]:
    """The statuses in four states: bare, with the defaults, with the opt-ins, uninstalled."""
    needs_root()
    folder = tmp_path_factory.mktemp("clustermax")
    cluster = Cluster(folder, "cmax")
    write_lab(cluster, "198.18.68.", KIND)
    if KIND == "container":
        declare_rates(cluster)
    packed = auditor.wheels(folder / "wheels")
    found: States = {}
    with cluster.up(1800):
        auditor.install(cluster, NODE, packed)
        found["bare"] = auditor.statuses(cluster, NODE, KIND)
        play(cluster, "site.yml")
        found["defaults"] = auditor.statuses(cluster, NODE, KIND)
        overlay = cluster.inventory / "group_vars/all/clustermax.yml"
        overlay.write_text(yaml.safe_dump(OPT_INS), encoding="utf-8")
        play(cluster, "playbooks/provision.yml")
        found["opt-ins"] = auditor.statuses(cluster, NODE, KIND)
        play(cluster, "playbooks/uninstall.yml", "-e", "railyard_allow_uninstall=true")
        found["uninstalled"] = auditor.statuses(cluster, NODE, KIND)
        # The rails' network has a way back of its own; the auditor does not look at it on this target.
        Path(os.environ.get("RAILYARD_CLUSTERMAX_OUT", folder / "statuses.json")).write_text(
            json.dumps(found, indent=1)
        )
        print(table(found))
        yield found


def declare_rates(cluster: Cluster) -> None:
    """Shape the rails and ask for a short measurement, as the end-to-end tests do."""
    with edited(cluster.topology) as topology:
        for rail in topology["rails"]:
            rail["rate_gbps"] = RATE_GBPS
    with edited(cluster.fabric_file) as variables:
        for rail in variables["fabric"]["rails"]:
            rail["rate_gbps"] = RATE_GBPS
        variables["fabric_policy"] = POLICY


def play(cluster: Cluster, playbook: str, *argv: str) -> None:
    done = cluster.playbook(playbook, "-e", f"railyard_reports_dir={cluster.reports}", *argv, timeout=1800)
    # What was measured in a lab beside other work may fail; what matters here is that all roles ran.
    told = done.stdout[-6000:]
    assert done.returncode == 0 or "exit status" in told, told


def table(found: States) -> str:
    """Return the checks whose status is not the same in all states, as a table."""
    names = list(found)
    rows = [f"| check | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for key in sorted(found[names[0]]):
        row = [found[name].get(key, "absent") for name in names]
        if len(set(row)) > 1:
            rows.append(f"| `{key}` | {' | '.join(row)} |")
    return "\n".join(rows)


def test_the_audit_is_one(states: States) -> None:
    # 59 checks of version 0.2.1; a node without GPU has some of each kind.
    assert len(states["bare"]) == 59
    assert set(states["bare"].values()) == {"pass", "warning", "fail", "skipped"}
    assert all(found.keys() == states["bare"].keys() for found in states.values())


def test_no_check_gets_worse_by_the_defaults(states: States) -> None:
    bare = states["bare"]
    worse = {
        key: status for key, status in states["defaults"].items() if status in BAD and bare[key] not in BAD
    }
    assert worse == {}
    assert [
        key for key, status in states["defaults"].items() if status == "fail" and bare[key] == "warning"
    ] == []


def test_each_opt_in_turns_its_check_to_pass(states: States) -> None:
    key = "software.perf.installed"
    assert (states["bare"][key], states["opt-ins"][key]) == ("fail", "pass")
    sysctls = ("software.perf.perfEventParanoid", "software.perf.kptrRestrict")
    assert [states["bare"][one] for one in sysctls] == ["skipped"] * 2
    # Run as soon as there is a perf; a container only shows what this machine has.
    found = [states["opt-ins"][one] for one in sysctls]
    assert "skipped" not in found
    assert KIND == "container" or found == ["pass"] * 2


def test_after_uninstall_it_is_as_before(states: States) -> None:
    assert states["uninstalled"] == states["bare"]

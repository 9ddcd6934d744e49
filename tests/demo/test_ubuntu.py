"""The quick demo on Ubuntu: all of it measured, set up as requested, left alone by a second run, taken back.

In `make test-full`: other nodes' packages are fetched for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from e2e.support import BIN, ROOT, needs_root, run

RAILYARD, PLAYBOOK = str(BIN / "railyard"), str(BIN / "ansible-playbook")
INVENTORY = ("-i", "inventories/lab")
VERSIONS = {"jammy": "22.04", "noble": "24.04"}


@pytest.fixture(scope="module", params=VERSIONS)
def demo(request: pytest.FixtureRequest) -> Iterator[tuple[str, int, str]]:
    """The suite, the demo's exit status and its output."""
    needs_root()
    run(RAILYARD, "lab", "down")
    try:
        done = run("make", "demo", "LAB=container", f"SUITE={request.param}", timeout=700)
        yield request.param, done.returncode, done.stdout
    finally:
        down = run(RAILYARD, "lab", "down")
    assert down.returncode == 0, down.stdout


def test_the_nodes_run_ubuntu_and_every_planned_test_is_proven(demo: tuple[str, int, str]) -> None:
    suite, status, said = demo
    assert status == 0, said
    newest = sorted(path for path in (ROOT / "reports" / "lab").iterdir() if path.is_dir())[-1]
    facts = [json.loads(line) for line in (newest / "facts.jsonl").read_text("utf-8").splitlines()]
    assert [(row["os"]["id"], row["os"]["version"]) for row in facts] == [("ubuntu", VERSIONS[suite])] * 2
    assert re.search(r"2 of 2 nodes good: all \d+ checks measured and confirmed", said), said


def test_a_second_program_reads_the_end_state(demo: tuple[str, int, str]) -> None:
    done = run(RAILYARD, "verify", *INVENTORY)
    assert done.returncode == 0, done.stdout
    assert " as planned, 0 not, " in done.stdout


def test_a_second_run_changes_nothing(demo: tuple[str, int, str]) -> None:
    done = run(PLAYBOOK, *INVENTORY, "playbooks/provision.yml", timeout=400)
    assert done.returncode == 0, done.stdout
    recap = [line for line in done.stdout.splitlines() if line.startswith("gpuserver") and "changed=" in line]
    assert len(recap) == 2
    assert all("changed=0" in line for line in recap), done.stdout


def test_uninstall_takes_back_what_was_installed(demo: tuple[str, int, str]) -> None:
    done = run(
        PLAYBOOK, *INVENTORY, "playbooks/uninstall.yml", "-e", "railyard_allow_uninstall=true", timeout=400
    )
    assert done.returncode == 0, done.stdout
    left = run(
        str(BIN / "ansible"), *INVENTORY, "gpu_nodes", "-b", "-m", "ansible.builtin.shell",
        "-a", "dpkg-query -W iperf3 sockperf; find /etc -name '*railyard*' -path '*tuning*'",
    )  # fmt: skip
    assert left.stdout.count("no packages found matching") == 4, left.stdout

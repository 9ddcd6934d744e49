"""`make demo LAB=container`, the quick one: from nothing, again, then down, and the host is as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.support import ROOT, assert_proven

RAILYARD = Path(sys.executable).parent / "railyard"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")


def run(*argv: str, timeout: float = 700) -> subprocess.CompletedProcess[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    return subprocess.run(argv, cwd=ROOT, text=True, timeout=timeout, check=False, **pipes)


def host_settings() -> dict:
    done = subprocess.run(
        [RAILYARD, "lab", "host-settings"], cwd=ROOT, text=True, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def newest_run() -> Path:
    return sorted(path for path in (ROOT / "reports" / "lab").iterdir() if path.is_dir())[-1]


@pytest.fixture(scope="module")
def demos():
    """Two demos, one after the other, and the host's settings before the first and after the lab is down."""
    run(str(RAILYARD), "lab", "down")
    before = host_settings()
    outcomes = []
    try:
        for _ in range(2):
            done = run("make", "demo", "LAB=container")
            outcomes.append((done.returncode, done.stdout))
            print(done.stdout)
    finally:
        down = run(str(RAILYARD), "lab", "down")
    assert down.returncode == 0, down.stdout
    return before, outcomes, host_settings()


def test_both_demos_end_with_0(demos) -> None:
    _, outcomes, _ = demos
    assert [status for status, _ in outcomes] == [0, 0]


def test_the_second_demo_changes_nothing(demos) -> None:
    _, (_, (_, output)), _ = demos
    recap = [line for line in output.splitlines() if " changed=" in line]
    assert len(recap) >= 2, output
    assert all(" changed=0 " in line for line in recap), recap


def test_every_rail_is_measured_and_proven_in_both_directions(demos) -> None:
    assert demos
    rows = [
        json.loads(line) for line in (newest_run() / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    checks = dict.fromkeys(("tcp_bandwidth", "tcp_latency", "path_mtu", "ping_rtt"))
    assert_proven(rows, checks, ("rail0", "rail1"))


def test_the_output_shows_a_new_user_what_to_do(demos) -> None:
    _, ((_, output), _), _ = demos
    assert "TCP only, RDMA was not planned" in output
    assert "index.html" in output
    assert "make demo-down" in output


def test_the_host_is_as_it_was(demos) -> None:
    before, _, after = demos
    changed = {
        key: (before.get(key), after.get(key))
        for key in {*before, *after}
        if before.get(key) != after.get(key)
    }
    assert changed == {}

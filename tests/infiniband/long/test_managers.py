"""Case 9 of the design: no subnet manager, one, one with a standby, two masters."""

from __future__ import annotations

import time
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.capture import parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement
from support import simulated
from support.simulated import Cluster, Subnet

ONE = Cluster(nodes=4, rails=2, more=(("subnet_managers", ["gpu001"]),))
TWO = Cluster(nodes=4, rails=2, more=(("subnet_managers", ["gpu001", "gpu003"]),))
SECOND = "gpu003 mlx5_1"


def judged(subnet: Subnet, cluster: Cluster) -> Judgement:
    return judge(parse(simulated.read(subnet)), cluster.expected())


def failed(judgement: Judgement) -> set[str]:
    return {one.cause for one in judgement.findings if one.severity == "fail"}


def test_without_a_manager_there_is_no_master(tmp_path: Path) -> None:
    with simulated.simulate(ONE.net(), tmp_path / "sim", manager=False) as subnet:
        judgement = judged(subnet, ONE)
    assert "no_master" in failed(judgement)
    assert judgement.status == 1


def test_a_declared_manager_is_healthy(tmp_path: Path) -> None:
    with simulated.simulate(ONE.net(), tmp_path / "sim") as subnet:
        assert judged(subnet, ONE).findings == ()


def test_a_declared_standby_is_healthy_and_reported(tmp_path: Path) -> None:
    with simulated.simulate(TWO.net(), tmp_path / "sim") as subnet:
        standby = subnet.simulation.launch_manager(subnet.manager_at(SECOND))
        deadline = time.monotonic() + 60
        while not standby.log.exists() or "Entering STANDBY state" not in standby.log.read_text():
            assert standby.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        judgement = judged(subnet, TWO)
    assert judgement.findings == ()
    assert any("gpu003" in note and "STANDBY" in note for note in judgement.notes)


def test_a_declared_standby_that_does_not_run_is_named(tmp_path: Path) -> None:
    with simulated.simulate(TWO.net(), tmp_path / "sim") as subnet:
        judgement = judged(subnet, TWO)
    assert [(one.cause, one.node) for one in judgement.findings] == [("manager_missing", "gpu003")]


def test_two_masters_with_different_keys_fail(tmp_path: Path) -> None:
    with simulated.simulate(TWO.net(), tmp_path / "sim") as subnet:
        subnet.simulation.start_manager(subnet.manager_at(SECOND, "-k", "0x22"))
        judgement = judged(subnet, TWO)
    assert failed(judgement) == {"two_masters"}
    text = next(one.text for one in judgement.findings if one.cause == "two_masters")
    assert "gpu001" in text
    assert "gpu003" in text

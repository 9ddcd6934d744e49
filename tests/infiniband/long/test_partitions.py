"""Case 8 of the design: limited and missing members, and a partition file that opensm cannot parse."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.capture import parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement
from support import simulated
from support.simulated import Cluster

DECLARED = {
    "0x7fff": {"name": "Default", "members": "all"},
    "0x0010": {"name": "team", "members": ["gpu001", "gpu002"]},
}
CLUSTER = Cluster(nodes=4, rails=2, more=(("partitions", DECLARED),))


def guids(*nodes: str) -> list[str]:
    return [f"0x{one.guid + 1:016x}" for one in CLUSTER.net().adapters() if one.name.split()[0] in nodes]


def members(full: list[str], limited: list[str] = []) -> str:  # noqa: B006 - is only read
    return ", ".join([*(f"{guid}=full" for guid in full), *(f"{guid}=limited" for guid in limited)])


def judged(tmp_path: Path, conf: str) -> tuple[Judgement, str]:
    file = tmp_path / "partitions.conf"
    file.write_text(conf)
    with simulated.simulate(CLUSTER.net(), tmp_path / "sim", "-P", str(file)) as subnet:
        capture = simulated.read(subnet, partitions=True)
        assert subnet.manager is not None
        log = subnet.manager.log.read_text()
    return judge(parse(capture), CLUSTER.expected()), log


ALL = guids("gpu001", "gpu002", "gpu003", "gpu004")
TEAM = guids("gpu001", "gpu002")


def test_tables_as_declared_are_healthy(tmp_path: Path) -> None:
    conf = f"Default=0x7fff: {members(ALL)};\nteam=0x0010: {members(TEAM)};\n"
    judgement, log = judged(tmp_path, conf)
    assert judgement.findings == ()
    assert judgement.coverage.pkey_tables == 8
    assert "PARSE ERROR" not in log


@pytest.mark.parametrize(
    ("conf", "cause", "severity"),
    [
        (
            f"Default=0x7fff: {members(ALL[:-1], ALL[-1:])};\nteam=0x0010: {members(TEAM)};\n",
            "pkey_limited",
            "fail",
        ),
        (f"Default=0x7fff: {members(ALL)};\nteam=0x0010: {members(TEAM[:-1])};\n", "pkey_missing", "fail"),
    ],
)
def test_a_limited_and_a_missing_member_are_named(
    tmp_path: Path, conf: str, cause: str, severity: str
) -> None:
    judgement, _log = judged(tmp_path, conf)
    (finding,) = judgement.findings
    assert (finding.cause, finding.severity) == (cause, severity)
    # The last of all ports, or of the team's.
    assert (finding.node, finding.rail) == ("gpu004" if cause == "pkey_limited" else "gpu002", "rail1")


def test_what_opensm_falls_back_to_is_named(tmp_path: Path) -> None:
    conf = f"Default=0x7fff: {members(ALL)};\nteam=0x0010: nosuchguid=full;\n"
    judgement, log = judged(tmp_path, conf)
    assert "PARSE ERROR" in log
    assert "partitions_default" in {one.cause for one in judgement.findings}
    assert judgement.status == 1

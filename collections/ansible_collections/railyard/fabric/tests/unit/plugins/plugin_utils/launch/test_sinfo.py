"""sinfo: only what is plainly idle counts as idle; what is not understood is an error, never an idle node."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import sinfo

# States and suffixes: sinfo(1), "NODE STATE CODES", of Slurm 22.05 and 25.05.
BUSY = (
    "idle*", "idle~", "idle#", "idle!", "idle%", "idle$", "idle@", "idle^", "idle-",
    "allocated", "allocated+", "mixed", "mixed-", "completing", "planned", "reserved", "maint",
    "down", "down*", "drained", "drained*", "draining", "draining@", "fail", "failing", "future", "inval",
    "unknown", "unknown*", "perfctrs", "reboot_issued", "powering_up", "powered_down", "some_state_of_2030",
)  # fmt: skip


def one(state, cpus="0/96/0/96", gres="(null)", reason="none"):
    return sinfo.parse(f"gpu001|{state}|{cpus}|{gres}|{reason}\n")["gpu001"]


def test_idle_is_idle():
    assert one("idle").is_idle


@pytest.mark.parametrize("state", BUSY)
def test_every_other_state_is_not_idle(state):
    assert not one(state).is_idle


@pytest.mark.parametrize("cpus", ["1/95/0/96", "", "96", "0/96/0"])
def test_a_node_whose_processors_are_allocated_or_not_known_is_not_idle(cpus):
    assert not one("idle", cpus).is_idle


@pytest.mark.parametrize(
    ("state", "cpus", "drained", "jobs"),
    [
        ("drained", "0/0/96/96", True, False),
        ("drained*", "0/0/96/96", True, False),
        ("draining", "96/0/0/96", True, True),
        ("idle", "0/96/0/96", False, False),
        ("down", "0/0/96/96", False, False),
        ("completing", "0/96/0/96", False, True),
    ],
)
def test_a_drained_node_may_still_have_jobs(state, cpus, drained, jobs):
    found = one(state, cpus)
    assert (found.is_drained, found.has_jobs) == (drained, jobs)


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", 0),
        ("gpu:8", 8),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:a100:4(S:0),gpu:a100:4(S:1)", 8),
        ("shard:32,gpu:b200:8", 8),
        ("nic:4", 0),
    ],
)
def test_gpus_by_gres(gres, gpus):
    assert one("idle", gres=gres).gpus == gpus


def test_a_reason_may_hold_anything_and_is_railyards_by_how_it_begins():
    found = one("drained", "0/0/8/8", reason="Railyard: validation: rail1 | rail_slow")
    assert found.reason == "Railyard: validation: rail1 | rail_slow"
    assert found.is_drained_by("Railyard: ")
    assert not one("drained", reason="not Railyard: x").is_drained_by("Railyard: ")
    assert not one("idle", reason="Railyard: validation: old").is_drained_by("Railyard: ")


def test_a_node_of_two_partitions_is_one_node_and_the_careful_line_counts():
    text = "gpu001|idle|0/8/0/8|gpu:8|none\ngpu001|mixed|4/4/0/8|gpu:8|none\ngpu002|idle|0/8/0/8|gpu:8|none\n"
    for lines in (text, "\n".join(reversed(text.splitlines()))):
        found = sinfo.parse(lines)
        assert (found["gpu001"].is_idle, found["gpu002"].is_idle) == (False, True)


def test_folded_names_are_unfolded():
    assert set(sinfo.parse("gpu[001-003]|idle|0/8/0/8|(null)|none\n")) == {"gpu001", "gpu002", "gpu003"}


@pytest.mark.parametrize(
    "line", ["gpu001", "gpu001|idle", "|idle|0/8/0/8|(null)|none", "gpu001||0/8/0/8|x|y"]
)
def test_a_line_that_is_not_understood_is_an_error(line):
    with pytest.raises(sinfo.SinfoError, match="not understood"):
        sinfo.parse(line)


def test_inventory_names_may_have_a_domain():
    listed = sinfo.parse("gpu001|idle|0/8/0/8|(null)|none\n")
    assert set(sinfo.of_inventory(["gpu001.cluster.example", "gpu002"], listed)) == {"gpu001.cluster.example"}


# Printed by Debian's Slurm 22.05.8 for ARGV: four slurmd of one machine, two partitions, a job by salloc,
# drains by scontrol.
CAPTURED = """\
gpu001|drained|0/0/2/2|(null)|Railyard: validation: rail1 rail_slow, runs a and b
gpu001|drained|0/0/2/2|(null)|Railyard: validation: rail1 rail_slow, runs a and b
gpu002|idle|0/2/0/2|(null)|none
gpu002|idle|0/2/0/2|(null)|none
gpu003|draining|2/0/0/2|(null)|fan | broken
gpu004|allocated|2/0/0/2|(null)|none
"""


def test_what_a_real_slurm_printed():
    found = sinfo.parse(CAPTURED)
    assert [name for name, one in found.items() if one.is_idle] == ["gpu002"]
    drained = {name: (one.has_jobs, one.reason) for name, one in found.items() if one.is_drained}
    ours = "Railyard: validation: rail1 rail_slow, runs a and b"
    assert drained == {"gpu001": (False, ours), "gpu003": (True, "fan | broken")}

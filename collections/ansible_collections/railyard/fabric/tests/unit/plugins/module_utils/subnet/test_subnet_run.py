# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that read a subnet: what runs, within which limits, and what comes of tools that misbehave."""

from __future__ import annotations

import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import capture
from ansible_collections.railyard.fabric.plugins.module_utils.records import subnet as records
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Device, PortKey
from ansible_collections.railyard.fabric.plugins.module_utils.subnet import commands, run
from ansible_collections.railyard.fabric.plugins.module_utils.subnet.commands import Port
from support import subnets

TOOLS = (
    "ibnetdiscover", "iblinkinfo", "ibqueryerrors", "saquery", "sminfo", "ibaddr", "smpquery", "ibtracert",
)  # fmt: skip
# What changes a subnet, or its counters, or needs the subnet manager's key.
NEVER = {
    "-k",
    "-K",
    "-c",
    "-R",
    "--clear-errors",
    "--clear-counts",
    "-s=",
    "--smkey",
    "set",
    "reset",
    "disable",
}


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Put tools into PATH that write down their arguments and print a file; return the folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        tool = folder / name
        tool.write_text(
            "#!/bin/sh\n"
            f'echo "{name}${{*:+ $*}}" >> {tmp_path}/asked\n'
            f'for one in "{tmp_path}/{name}.$*" {tmp_path}/{name}; do\n'
            '  if [ -x "$one" ]; then exec "$one"; fi\n'
            '  if [ -f "$one" ]; then exec cat "$one"; fi\n'
            "done\n"
        )
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    net = subnets.make_net(1)
    (tmp_path / "ibnetdiscover.-p").write_text(subnets.print_ports(net))
    (tmp_path / "ibnetdiscover").write_text(subnets.print_topology(net))
    (tmp_path / "iblinkinfo").write_text(subnets.print_linkinfo(net))
    ports = "IsSM ports\nPortInfoRecord dump:\n\tEndPortLid.5\n\tcapability_mask.0x2\n\nIsSMdisabled ports\n"
    (tmp_path / "saquery").write_text(ports)
    return tmp_path


def read_calls(folder):
    return (folder / "asked").read_text().splitlines()


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_what_runs(tools):
    read = run.read_subnet(Port("mlx5_4", 2), True, 0)
    options = "-C mlx5_4 -P 2"
    lines = read_calls(tools)
    assert lines[:8] == [
        f"ibnetdiscover {options} -p",
        f"ibnetdiscover {options}",
        f"iblinkinfo {options} -l",
        f"ibqueryerrors {options} --threshold-file /dev/null",
        f"ibaddr {options}",
        f"saquery {options} -s",
        f"sminfo {options}",
        f"sminfo {options} 5",
    ]
    net = subnets.make_net(1)
    ports = {
        (box.port_lid(number), number)
        for box, number, link in net.ports()
        if box.kind == "CA" and link is not None
    }
    # The options differ, so that the tools print the topology file for `-p` too; it names the same ports.
    assert {*lines[8:]} == {f"smpquery {options} pkeys {lid} {number}" for lid, number in ports}
    assert (read.device, read.port, read.host) == ("mlx5_4", 2, None)
    assert {one.file for one in read.commands} >= {"topology.txt", "sminfo-5.txt", "ibqueryerrors.1.txt"}
    assert not {word for line in lines for word in line.split()} & NEVER


def test_partitions_of_adapters_with_a_lid_and_a_link_alone():
    def device(guid, kind, lid, peer):
        key = PortKey(guid, 1)
        return Device(guid, kind, "x", {1: records.Port(key, lid=lid, peer=peer)})

    far = PortKey("0x00000000000000aa", 1)
    found = (
        device("0x1", "adapter", 5, far),
        device("0x2", "adapter", None, far),
        device("0x3", "adapter", 7, None),
        device("0x4", "aggregation", 8, far),
        device("0x5", "switch", 9, far),
    )
    reading = records.Reading(1.0, None, None, None, {one.guid: one for one in found})
    steps = commands.plan_partitions(Port(None, None), reading)
    assert steps == [commands.Step(("smpquery", "pkeys", "5", "1"), "smpquery-pkeys-5-1.txt")]


def test_paths_are_traced_both_ways_between_ports_that_have_a_lid(tools):
    net = subnets.make_net(1)
    adapters = [box for box in net.boxes.values() if box.kind == "CA"]
    one, other = adapters[0], adapters[-1]
    guids = [f"0x{box.port_guid(1):016x}" for box in (one, other)]
    absent = "0x00000000000000aa"
    pairs = [(guids[0], guids[1]), (guids[0], guids[1]), (guids[0], absent)]
    read = run.read_subnet(Port("mlx5_4", 2), False, 0, pairs)
    lids = one.port_lid(1), other.port_lid(1)
    traced = [line for line in read_calls(tools) if line.startswith("ibtracert")]
    assert sorted(traced) == sorted(
        f"ibtracert -C mlx5_4 -P 2 -n {source} {target}" for source, target in (lids, lids[::-1])
    )
    files = {one.file for one in read.commands}
    assert {f"ibtracert-{lids[0]}-{lids[1]}.txt", f"ibtracert-{lids[1]}-{lids[0]}.txt"} <= files
    # A path that is not found is reported with the pair, and is no gap of the reading.
    assert not [one for one in capture.parse(read).problems if "tracert" in one.text]


def test_without_a_choice_and_without_partitions(tools):
    read = run.read_subnet(Port(None, None), False, 0)
    assert read_calls(tools)[:2] == ["ibnetdiscover -p", "ibnetdiscover"]
    assert not [line for line in read_calls(tools) if line.startswith("smpquery")]
    reading = capture.parse(read)
    assert [one for one in reading.problems if one.kind == "changed"] == []
    assert len(reading.devices) == len(subnets.make_net(1).boxes)


def test_counters_are_read_twice_with_the_interval_between_them(tools):
    began = time.monotonic()
    read = run.read_subnet(Port(None, None), False, 1.5)
    first, second = (one for one in read.commands if one.file.startswith("ibqueryerrors"))
    assert second.started_at_s - first.started_at_s >= 1.5
    assert time.monotonic() - began < 20


def test_what_is_waited_is_not_taken_from_the_time_of_the_commands():
    clock = run.Clock(10)
    clock.wait(0.3)
    assert clock.left_s() > 9.8


def test_links_that_changed_are_read_again_once(tools):
    net = subnets.make_net(1)
    far = next(key for key, link in net.links.items() if net.boxes[key[0]].kind == "CA" and link)
    links = {key: link for key, link in net.links.items() if far not in (key, link[:2])}
    (tools / "other").write_text(subnets.print_linkinfo(net._replace(links=links)))
    first = (
        f"if [ -f {tools}/seen ]; then cat {tools}/whole; else cat {tools}/other; touch {tools}/seen; fi\n"
    )
    (tools / "whole").write_text(subnets.print_linkinfo(net))
    script(tools / "iblinkinfo", first)
    reading = capture.parse(run.read_subnet(Port(None, None), False, 0))
    assert sum(line.startswith("iblinkinfo") for line in read_calls(tools)) == 2
    assert [one for one in reading.problems if one.kind == "changed"] == []
    # What goes on changing is reported, and not read for ever.
    script(tools / "iblinkinfo", f"cat {tools}/other\n")
    reading = capture.parse(run.read_subnet(Port(None, None), False, 0))
    assert sum(line.startswith("iblinkinfo") for line in read_calls(tools)) == 4
    assert [one for one in reading.problems if one.kind == "changed"]


def test_a_tool_that_hangs_is_killed_and_reported(tools, monkeypatch):
    monkeypatch.setattr(run, "COMMAND_LIMIT_S", 0.5)
    script(tools / "ibqueryerrors", "echo begun; echo trouble >&2; exec sleep 60\n")
    began = time.monotonic()
    read = run.read_subnet(Port(None, None), False, 0)
    hung = next(one for one in read.commands if one.file == "ibqueryerrors.1.txt")
    assert (hung.rc, hung.timed_out, hung.stdout, hung.stderr) == (None, True, "begun\n", "trouble\n")
    assert time.monotonic() - began < 15
    assert any("did not end" in one.text for one in capture.parse(read).problems)


def test_a_tool_that_crashes_is_run_once_more(tools):
    script(tools / "ibqueryerrors", f"mkdir {tools}/crashed 2>/dev/null && kill -s SEGV $$; echo read\n")
    script(tools / "ibaddr", "kill -s SEGV $$\n")
    read = run.read_subnet(Port(None, None), False, 0)
    ended = {one.file: (one.stdout, one.rc) for one in read.commands}
    assert ended["ibqueryerrors.1.txt"] == ("read\n", 0)
    assert ended["ibaddr.txt"] == ("", -11)
    assert read_calls(tools).count("ibaddr") == 2


def test_when_the_time_for_all_is_over_the_rest_is_not_started(tools):
    script(tools / "ibnetdiscover", "exec sleep 60\n")
    (tools / "ibnetdiscover.-p").unlink()
    read = run.read_subnet(Port(None, None), False, 0, limit_s=0.5)
    assert read_calls(tools) == ["ibnetdiscover -p"]
    assert {one.rc for one in read.commands} == {None}
    told = [one.text for one in capture.parse(read).problems]
    assert any("`iblinkinfo -l` was not started" in one for one in told)


def test_output_without_end_is_cut(tools, monkeypatch):
    monkeypatch.setattr(run, "MOST_OUTPUT_BYTES", 1000)
    monkeypatch.setattr(run, "MOST_ERROR_BYTES", 100)
    monkeypatch.setattr(run, "COMMAND_LIMIT_S", 1.0)
    script(tools / "ibqueryerrors", "yes wrong >&2 & exec yes\n")
    read = run.read_subnet(Port(None, None), False, 0)
    endless = next(one for one in read.commands if one.file == "ibqueryerrors.1.txt")
    assert (len(endless.stdout), len(endless.stderr), endless.rc) == (1000, 100, None)


def test_tools_run_in_the_c_locale_and_bytes_that_are_no_text_are_kept_out(tools, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    script(tools / "ibaddr", "printf '%s \\377\\n' $LC_ALL; exit 3\n")
    read = run.read_subnet(Port(None, None), False, 0)
    one = next(one for one in read.commands if one.file == "ibaddr.txt")
    assert (one.stdout, one.rc) == ("C \ufffd\n", 3)


def test_missing_tools_are_named_with_their_package(tools, monkeypatch):
    (tools / "bin" / "iblinkinfo").unlink()
    monkeypatch.setattr(run.bounded, "PATH", "/nonexistent")
    monkeypatch.setenv("PATH", str(tools / "bin"))
    with pytest.raises(
        run.MissingToolsError, match=r"iblinkinfo: not found\. Install the package infiniband-diags"
    ):
        run.read_subnet(Port(None, None), False, 0)


def test_at_most_eight_at_a_time(monkeypatch):
    running, most = set(), []

    def note(step, clock):
        running.add(step)
        most.append(len(running))
        time.sleep(0.02)
        running.discard(step)
        return step

    monkeypatch.setattr(run, "_run", note)
    steps = [commands.Step(("x", str(at)), f"x{at}") for at in range(40)]
    assert run._run_many(steps, run.Clock(9)) == steps
    assert 2 <= max(most) <= 8

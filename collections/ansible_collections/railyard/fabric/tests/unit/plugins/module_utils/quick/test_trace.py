# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What railyard-quick leaves after each look, and what stays reported until a look at the item is good."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts.kernel_log import Record
from ansible_collections.railyard.fabric.plugins.module_utils.quick import (
    expectation,
    found,
    look,
    main,
    trace,
    xids,
)
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Finding, Found
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from support.nodes.files import write
from support.nodes.sysfs_tree import Tree, addresses

NODE = {"schema": 1, "node": "gpu001", "transport": "tcp", "node_class": "container", "governor": ""}
REPO = Path(__file__).parents[9]


class Node(Tree):
    """A node with two rails and no GPU, looked at in this process."""

    def __init__(self, root, monkeypatch):
        super().__init__(root)
        self.kept, self.bin = root / "kept", root / "bin"
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        self.rails = []
        for number, netdev in enumerate(("ens6", "ens7")):
            card = self.pci(f"0000:0{number + 5}:00.0", "mlx5_core")
            address = f"10.0.{number}.1/24"
            self.netdev(netdev, card, addresses(address), speed=40000, address=f"02:00:00:00:00:0{number}")
            self.write(f"sys/class/net/{netdev}/statistics/rx_crc_errors", 3)
            self.rails.append({"name": f"rail{number}", "netdev": netdev, "address": address, "mtu": 9000})
        self.boot("first")
        self.expects()

    def expects(self, **change):
        self.expect = write(
            self.root, "quick.json", json.dumps({**NODE, "rails": self.rails, "gpus": None, **change})
        )

    def boot(self, boot_id):
        self.write("proc/sys/kernel/random/boot_id", boot_id)

    def crc(self, value):
        self.write("sys/class/net/ens7/statistics/rx_crc_errors", value)

    def look(self, capfd, *words):
        write(self.bin, "ip", "#!/bin/sh\ncat <<'END'\n" + self.ip_json() + "\nEND\n", 0o755)
        argv = [
            "--expect",
            str(self.root / "quick.json"),
            "--folder",
            str(self.kept),
            "--root",
            str(self.root),
        ]
        status = main.main([*argv, "--json", *words])
        return status, json.loads(capfd.readouterr().out)

    def trace(self, name="local"):
        return json.loads((self.kept / f"{name}.trace.json").read_text())


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


def test_each_look_leaves_its_status_findings_time_and_duration(node, capfd):
    before = time.time()
    assert node.look(capfd)[0] == 0
    left = node.trace()
    assert (left["status"], left["findings"], left["began_unix_s"]) == (0, [], None)
    assert before <= left["ended_unix_s"] <= time.time()
    assert 0 < left["duration_s"] < 60
    node.write("sys/class/net/ens6/mtu", 1500)
    node.expects(governor="performance", node_class="hardware")
    status, said = node.look(capfd)
    assert status == 1
    causes = {(one["cause"], one["rail"], one["is_wrong"]) for one in node.trace()["findings"]}
    assert causes == {("mtu_differs", "rail0", True), ("governor_unread", "", False)}
    assert {(one["cause"], one["rail"], one["is_wrong"]) for one in said["findings"]} == causes
    # A look that is not kept leaves nothing.
    node.write("sys/class/net/ens6/mtu", 9000)
    assert node.look(capfd, "--no-keep")[0] == 3
    assert node.trace()["status"] == 1


@pytest.mark.parametrize(
    ("breaks", "cause"),
    [
        (lambda monkeypatch: monkeypatch.setattr(look, "look", lambda *_: time.sleep(60)), "look_unfinished"),
        (lambda monkeypatch: monkeypatch.setattr(look, "look", lambda *_: 1 // 0), "look_unfinished"),
        (lambda monkeypatch: monkeypatch.setattr(main, "bounded_look", lambda *_: 1 // 0), "look_unfinished"),
        (lambda monkeypatch: None, "expectation_unusable"),
    ],
    ids=["hangs", "child breaks down", "breaks down", "no expectation"],
)
def test_a_look_that_does_not_end_leaves_a_trace_and_what_was_wrong(node, capfd, monkeypatch, breaks, cause):
    node.write("sys/class/net/ens6/mtu", 1500)
    assert node.look(capfd)[0] == 1
    monkeypatch.setattr(look.bounded_look, "__defaults__", (0.5,))
    breaks(monkeypatch)
    if cause == "expectation_unusable":
        write(node.root, "quick.json", "{")
    status, said = node.look(capfd)
    assert status == 1
    assert len(said["unknown"]) == 1
    left = node.trace()
    assert left["status"] == 1
    assert [(one["cause"], one["is_wrong"]) for one in left["findings"]] == [
        (cause, False),
        ("mtu_differs", True),
    ]


def test_a_look_that_was_killed_shows_by_its_beginning(node, capfd):
    assert node.look(capfd, "--as", "slurm")[0] == 0
    good = trace.load(str(node.kept), "slurm")
    trace.begin(str(node.kept), "slurm", 5000.0)
    # While it may still be under way the one before it counts.
    assert trace.load_newest(str(node.kept), 5030.0)._replace(began_unix_s=None) == good
    killed = trace.load_newest(str(node.kept), 5061.0)
    assert (killed.status, killed.ended_unix_s) == (3, 5000.0)
    assert [(one.cause, one.is_wrong) for one in killed.findings] == [("look_unfinished", False)]
    # Also one that began before the clock was set back.
    assert trace.load_newest(str(node.kept), 4000.0).status == 3


def test_the_first_look_that_was_killed_shows_too(tmp_path):
    trace.begin(str(tmp_path), "slurm", 5000.0)
    assert trace.load_newest(str(tmp_path), 5030.0) is None
    assert trace.load_newest(str(tmp_path), 5100.0).status == 3


def test_who_looks_all_the_time_goes_before_a_person(node, capfd):
    node.write("sys/class/net/ens6/mtu", 1500)
    assert node.look(capfd, "--as", "timer")[0] == 1
    node.write("sys/class/net/ens6/mtu", 9000)
    assert node.look(capfd, "--as", "local")[0] == 0
    assert trace.load_newest(str(node.kept), time.time()).status == 1
    (node.kept / "timer.trace.json").unlink()
    assert trace.load_newest(str(node.kept), time.time()).status == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 1}', "null", '{"schema": 2, "status": 0}', "\xff"]
)
def test_a_trace_that_is_none_is_none(tmp_path, text):
    (tmp_path / "timer.trace.json").write_text(text, encoding="latin-1")
    assert trace.load_newest(str(tmp_path), 0.0) is None
    trace.begin(str(tmp_path), "timer", 5.0)
    assert trace.load(str(tmp_path), "timer").began_unix_s == 5.0


def test_a_counter_that_grew_before_a_reboot_stays_reported_until_a_look_compares_it(node, capfd):
    grew = "link_errors: rail1: netdev.rx_crc_errors grew by 1"
    assert node.look(capfd)[0] == 0
    node.crc(4)
    assert node.look(capfd)[1]["wrong"] == [grew]
    node.boot("second")
    node.crc(0)
    # Nothing can be compared yet: that the node was rebooted did not fix its cable.
    for _look in range(2):
        status, said = node.look(capfd, "--no-keep")
        assert (status, [one.startswith(grew) for one in said["wrong"]]) == (1, [True])
    assert node.look(capfd)[0] == 1
    assert (node.trace()["status"], len(node.trace()["findings"])) == (1, 1)
    # This look compares, and is good.
    status, said = node.look(capfd)
    assert (status, said["wrong"], node.trace()["findings"]) == (0, [], [])


def test_a_drain_of_a_look_is_not_ended_by_a_reboot_alone(node, capfd):
    node.look(capfd, "--as", "slurm")
    node.crc(4)
    node.look(capfd, "--as", "slurm")
    node.boot("second")
    # --resume ends a drain where this is 0.
    assert node.look(capfd, "--as", "slurm")[0] == 1
    assert node.look(capfd, "--as", "slurm")[0] == 0


def test_what_can_be_looked_at_at_once_is_good_at_once(node, capfd):
    node.write("sys/class/net/ens6/mtu", 1500)
    assert node.look(capfd)[0] == 1
    node.boot("second")
    node.write("sys/class/net/ens6/mtu", 9000)
    assert node.look(capfd)[0] == 0


def test_a_rail_or_a_governor_that_is_expected_no_more_ends_its_finding(node, capfd):
    node.crc(3)
    node.look(capfd)
    node.crc(4)
    node.look(capfd)
    node.boot("second")
    node.expects(rails=node.rails[:1])
    assert node.look(capfd)[0] == 0
    governor = Finding("governor", "governor_differs", "", True, "governor: powersave")
    mine = expectation.parse({**NODE, "rails": node.rails, "gpus": None})
    assert not look._is_expected(governor, mine)
    assert look._is_expected(governor, mine._replace(governor="performance"))


def test_an_xid_does_not_stay_after_the_reboot_that_cures_it():
    earlier = [
        Finding("gpus/gpu_xid", "gpu_xid", "", True, "gpu_xid: 79"),
        Finding("gpus/gpu_memory", "gpu_ecc", "", True, "gpu_ecc: 1"),
    ]
    this = Found()
    this.keep_earlier(earlier, lambda _one: True)
    assert [one.cause for one in this.findings] == ["gpu_ecc"]
    assert this.status == found.WRONG


def test_a_record_of_the_version_before_is_read(node, capfd):
    assert node.look(capfd)[0] == 0
    path = node.kept / "local.json"
    kept = json.loads(path.read_text())
    del kept["findings"], kept["xids"]
    path.write_text(json.dumps(kept))
    node.crc(4)
    assert node.look(capfd)[0] == 1


def records(*lines):
    return [Record(number, float(number), text) for number, text in enumerate(lines)]


XID_79 = "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
XID_45 = "NVRM: Xid (PCI:0000:17:00): 45, pid=1, Preemptive Removal"
NVLINK = "NVRM: Xid (PCI:0000:18:00): 145, RLW_CTRL {} link 3"
#: As NVIDIA's catalogue writes it: the action that the driver no longer asks for.
WELL = (
    "NVRM: Xid (PCI:0000:17:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
)


def test_xids_are_counted_over_looks_and_end_with_a_reset():
    counted = xids.add(xids.NONE, records(XID_79, NVLINK.format("Fatal"), NVLINK.format("Nonfatal")))
    # The log forgot them; a later XID of an application hides nothing.
    counted = xids.add(counted, records(XID_45))
    assert xids.of_gpus(counted.since_reset) == {
        ("0000:17:00", "79"): 1, ("0000:18:00", "145_fatal"): 2, ("0000:17:00", "45"): 1,
    }  # fmt: skip
    counted = xids.add(xids.read(json.loads(json.dumps(xids.document(counted)))), records(WELL))
    assert xids.of_gpus(counted.since_reset) == {("0000:18:00", "145_fatal"): 2}
    counted = xids.add(counted, records("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01"))
    assert xids.of_gpus(counted.since_reset) == {}
    assert counted.total == {
        ("0000:17:00", "79"): 1, ("0000:18:00", "145_fatal"): 1, ("0000:18:00", "145"): 1,
        ("0000:17:00", "45"): 1,
    }  # fmt: skip


def test_every_cause_of_the_quick_check_is_documented():
    """A finding's cause is a label of a metric: of a closed list, which a person can look up."""
    page = (REPO / "docs/quick.md").read_text()
    for cause in found.OWN_CAUSES:
        assert f"`{cause}`" in page
        assert cause not in causes.CAUSES


def test_no_other_cause_is_given():
    known = {*found.OWN_CAUSES, *causes.CAUSES}
    for path in Path(look.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ("add_wrong", "add_unknown"):
                texts = [one.value for one in call.args[2:3] if isinstance(one, ast.Constant)]
                assert set(texts) <= known, path

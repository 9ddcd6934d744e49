# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: check mode writes nothing and says the same, a second look changes nothing, plans read only."""

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.state.baseline import OriginalsError
from ansible_collections.railyard.fabric.plugins.modules import baseline
from support.nodes.module import FakeModule

OURS = "# Managed by Railyard (role nccl_profile)\n"


class Node:
    """What dpkg, apt and systemctl of a small node say."""

    def __init__(self, root):
        self.root = root
        self.packages = {"adduser": "3.134", "iperf3": "3.12"}
        self.calls = []
        self.fails = None

    def run(self, argv):
        self.calls.append(argv)
        program = argv[0].rsplit("/", 1)[-1]
        if program == self.fails:
            return 100, "", "E: dpkg was interrupted"
        if program == "dpkg-query":
            return (
                0,
                "".join(f"install installed {one} {version}\n" for one, version in self.packages.items()),
                "",
            )
        if program == "apt-mark":
            return 0, "", ""
        if program == "apt-get":
            names = argv[argv.index("purge") + 1 :]
            return 0, "".join(f"Purg {name} [1]\n" for name in names), ""
        return 0, {"is-enabled": "disabled\n", "is-active": "inactive\n"}[argv[1]], ""


def hold(node, check_mode=False, **params):
    unset = {"state": "present", "role": None, "packages": [], "files": [], "record": {}}
    return baseline.hold(FakeModule({**unset, **params}, node.run, check_mode))


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setattr(baseline, "ROOT", str(tmp_path))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_DEBUG=WARN\n")
    return Node(tmp_path)


def record_of(node, role):
    return json.loads((node.root / f"var/lib/railyard/originals/{role}.json").read_text())["record"]


WANTED = {
    "role": "benchmark_tools",
    "packages": ["iperf3", "sockperf"],
    "files": ["/etc/nccl.conf", "/etc/x/y"],
}


def test_check_real_check_real(node):
    checked = hold(node, check_mode=True, **WANTED)
    assert checked["changed"]
    assert not (node.root / "var").exists()
    done = hold(node, **WANTED)
    assert done == checked
    assert "installed_before" not in done["diff"]["after"]
    kept = record_of(node, "benchmark_tools")
    assert kept["packages"] == {"iperf3": {"version": "3.12", "hold": False}, "sockperf": None}
    assert kept["installed_before"] == ["adduser", "iperf3"]
    assert kept["files"]["/etc/x/y"] is None
    assert kept["folders"] == {"/etc/x": None}
    for check_mode in (True, False):
        again = hold(node, check_mode, **WANTED)
        assert not again["changed"]
        assert again["diff"]["before"] == again["diff"]["after"]


def test_what_a_role_did_since_is_not_recorded(node):
    hold(node, **WANTED)
    before = record_of(node, "benchmark_tools")
    node.packages["sockperf"] = "3.7"
    (node.root / "etc/nccl.conf").write_text(OURS)
    assert not hold(node, **WANTED)["changed"]
    more = {**WANTED, "packages": [*WANTED["packages"], "fio"]}
    assert hold(node, **more)["changed"]
    after = record_of(node, "benchmark_tools")
    assert after["packages"] == {**before["packages"], "fio": None}
    assert after["installed_before"] == before["installed_before"]
    copy = node.root / "var/lib/railyard/originals/files/benchmark_tools/etc/nccl.conf"
    assert copy.read_text() == "NCCL_DEBUG=WARN\n"


def test_a_plan_reads_only_and_all_roles(node):
    hold(node, **WANTED)
    unit = {"units": {"iperf3.service": {"package": "iperf3", "enabled": "enabled", "active": "inactive"}}}
    hold(node, role="other", record=unit)
    node.packages["sockperf"] = "3.7"
    (node.root / "etc/nccl.conf").write_text(OURS)
    read = hold(node, state="read")
    assert not read["changed"]
    assert read["roles"] == ["benchmark_tools", "other"]
    assert read["plan"]["remove_packages"] == ["sockperf"]
    assert [one["path"] for one in read["plan"]["restore_files"]] == ["/etc/nccl.conf"]
    assert read["plan"]["units"] == [{"unit": "iperf3.service", "enabled": True, "active": False}]
    assert not read["empty"]
    assert all("--simulate" in argv for argv in node.calls if argv[0].endswith("apt-get"))


def test_without_a_record_there_is_nothing_to_do(node):
    read = hold(node, state="read")
    assert read["empty"]
    assert node.calls == []


def test_absent_forgets_one_role_or_all(node):
    for role in ("a", "b", "c"):
        hold(node, role=role, record={"x": {"y": 1}})
    assert hold(node, True, state="absent")["changed"]
    assert hold(node, state="absent", role="a")["changed"]
    assert hold(node, state="read")["roles"] == ["b", "c"]
    assert hold(node, state="absent")["changed"]
    assert not hold(node, state="absent")["changed"]


def test_a_dpkg_that_cannot_answer_stops_it_before_anything_is_recorded(node):
    node.fails = "dpkg-query"
    with pytest.raises(OriginalsError, match=r"dpkg was interrupted.*Fix:"):
        hold(node, **WANTED)
    assert not (node.root / "var").exists()


def test_an_empty_name_of_a_role_is_no_leave_to_forget_all(node):
    hold(node, role="a", record={"x": 1})
    with pytest.raises(OriginalsError, match="role ''"):
        hold(node, role="")
    assert record_of(node, "a") == {"x": 1}

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: one look at dpkg, apt queried only where something is missing, as the roles do."""

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.apt import query
from ansible_collections.railyard.fabric.plugins.modules import driver_plan
from support.nodes.files import write
from support.nodes.module import FakeModule

# What dpkg-query prints on a node that has rdma-core and the vendor's stack, whose parts are held.
DPKG = """\
rdma-core:amd64\t44.0-2\tinstall ok installed
doca-ofed\t3.2.0\thold ok installed
mlnx-ofed-kernel-dkms\t25.10-1\thold ok installed
mine\t1\thold ok installed
"""
EMPTY = {"missing": [], "install": [], "remove": [], "problem": None, "refused": [], "needs": [], "notes": []}


class DummyModule(FakeModule):
    """A node with a dpkg, and an apt that answers what a test wants."""

    def __init__(self, *requests):
        super().__init__({"requests": list(requests)}, self.answer)
        self.calls = []
        self.apt = (0, "Inst perftest (4.5.0.19-1 Debian:12.13/oldstable [amd64])\n", "")
        self.shown = ""
        self.preferences = None

    def answer(self, argv):
        self.calls.append(argv)
        if argv[0] == "dpkg":
            return 0, "amd64\n", ""
        if argv[0] == "dpkg-query":
            return 0, DPKG, ""
        if argv[0] == "apt-get":
            for one in argv:
                if one.startswith("-oDir::Etc::preferencesparts="):
                    folder = one.partition("=")[2]
                    self.preferences = {}
                    for name in os.listdir(folder):
                        with open(f"{folder}/{name}", encoding="utf-8") as file:
                            self.preferences[name] = file.read()
            return self.apt
        return 0, self.shown if argv[1] == "show" else "", ""

    @property
    def apt_calls(self):
        """Return the verbs and packages of apt-get's calls, without its options."""
        return [
            [word for word in argv[1:] if not word.startswith("-")]
            for argv in self.calls
            if argv[0] == "apt-get"
        ]


@pytest.fixture(autouse=True)
def node(tmp_path, monkeypatch):
    monkeypatch.setattr(driver_plan, "ROOT", str(tmp_path))
    monkeypatch.setattr(driver_plan, "PREFERENCES", str(tmp_path / "preferences.d"))
    monkeypatch.setattr(query, "DPKG_UPDATES", str(tmp_path / "updates"))
    write(tmp_path, "/proc/sys/kernel/random/boot_id", "boot-1\n")
    write(tmp_path, "/proc/sys/kernel/osrelease", "6.1.0-55-amd64\n")
    return tmp_path


def test_what_is_there_asks_apt_nothing():
    module = DummyModule({"packages": ["rdma-core"]}, {"pins": {"doca-ofed": "3.2.0"}}, {})
    found = driver_plan.look(module)
    assert [argv[0] for argv in module.calls] == ["dpkg", "dpkg-query"]
    assert found["plan"] == EMPTY
    assert found["ansible_facts"] == {
        "railyard_driver_plan": found["plan"],
        "railyard_drivers_settled": [True, True, True],
        "railyard_waits": [],
    }


def test_nothing_wanted_asks_no_one():
    module = DummyModule({"packages": []}, {})
    assert driver_plan.look(module)["plan"] == EMPTY
    assert module.calls == []


def test_what_is_missing_is_simulated_only():
    module = DummyModule({"packages": ["rdma-core", "perftest"]})
    plan = driver_plan.look(module)["plan"]
    assert plan["install"] == [{"name": "perftest", "from": None, "to": "4.5.0.19-1"}]
    assert module.apt_calls == [["install", "perftest"]]
    assert all("--simulate" in argv for argv in module.calls if argv[0] == "apt-get")


def test_the_removal_of_a_held_stack_is_planned_as_the_role_does():
    pins, hold = {"doca-ofed": "3.1.0"}, ["doca-ofed", "mlnx-ofed-kernel-dkms"]
    module = DummyModule({"pins": pins, "hold": hold})
    module.shown = "Package: doca-ofed\nDepends: mlnx-ofed-kernel-dkms (= 25.07-1)\n"
    module.apt = (
        0,
        "Inst mlnx-ofed-kernel-dkms [25.10-1] (25.07-1 vendor [all])\n"
        "Inst doca-ofed [3.2.0] (3.1.0 vendor [all])\n",
        "",
    )
    plan = driver_plan.look(module)["plan"]
    assert module.apt_calls == [["install", "doca-ofed=3.1.0", "mlnx-ofed-kernel-dkms=25.07-1"]]
    options = next(argv for argv in module.calls if argv[0] == "apt-get")
    assert {"--allow-downgrades", "--allow-change-held-packages", "--ignore-hold"} <= set(options)
    assert [(one["name"], one["from"], one["to"]) for one in plan["install"]] == [
        ("mlnx-ofed-kernel-dkms", "25.10-1", "25.07-1"),
        ("doca-ofed", "3.2.0", "3.1.0"),
    ]
    assert (plan["problem"], plan["refused"]) == (None, [])


def test_what_the_role_will_refuse_is_reported():
    module = DummyModule({"packages": ["perftest"], "conflicts": ["doca-ofed"]})
    module.apt = (0, "Inst mine [1] (2 site [all])\nRemv rdma-core [44.0-2]\n", "")
    refused = driver_plan.look(module)["plan"]["refused"]
    assert len(refused) == 3
    assert "in conflict with the requested packages: doca-ofed 3.2.0" in refused[0]
    assert "apt would remove rdma-core 44.0-2" in refused[1]
    assert "on hold, and not by this request: mine" in refused[2]


def test_what_may_be_removed_is_removed():
    module = DummyModule(
        {"packages": ["perftest"], "conflicts": ["doca-ofed"], "remove_allow": ["doca-ofed"]}
    )
    module.apt = (0, "Remv doca-ofed [3.2.0]\n", "")
    plan = driver_plan.look(module)["plan"]
    assert "doca-ofed-" in next(argv for argv in module.calls if argv[0] == "apt-get")
    assert (plan["remove"], plan["refused"]) == (["doca-ofed"], [])


def test_apt_is_queried_with_its_preferences_as_they_will_be(node):
    folder = node / "preferences.d"
    folder.mkdir()
    (folder / "site").write_text("of the site")
    (folder / "railyard-rdma-stack").write_text("old")
    (folder / "railyard-nvidia-replace").write_text("old")
    module = DummyModule(
        {"packages": ["x"], "preferences": {"railyard-rdma-stack": "new", "railyard-nvidia-replace": ""}}
    )
    driver_plan.look(module)
    assert module.preferences == {"site": "of the site", "railyard-rdma-stack": "new"}
    assert (folder / "railyard-rdma-stack").read_text() == "old"


def test_what_apt_cannot_plan_is_reported_and_no_failure():
    module = DummyModule({"packages": ["perftest"]})
    module.apt = (100, "", "E: Unable to locate package perftest\n")
    plan = driver_plan.look(module)["plan"]
    assert "Unable to locate package perftest" in plan["problem"]
    assert plan["missing"] == ["perftest"]


def test_what_waits_comes_with_the_same_look(node):
    kept = '{"schema": 1, "items": [{"what": "x", "why": "y", "needs": "reboot", "boot_id": "boot-1"}]}'
    write(node, "/var/lib/railyard/waits/kernel.json", kept)
    assert driver_plan.look(DummyModule())["waits"] == [
        {"topic": "kernel", "what": "x", "why": "y", "needs": "reboot"}
    ]


FILE = {"path": "/etc/modules-load.d/x.conf", "content": "ib_umad\n", "mode": "0644"}
# By name: what a role asks, and whether there is nothing for it to do on a node with FILE and /etc/left.
SETTLED = {
    "packages_and_files": ({"packages": ["rdma-core"], "files": [FILE], "unwanted": [FILE["path"]]}, True),
    "nothing": ({}, True),
    "a_package_is_missing": ({"packages": ["rdma-core", "perftest"]}, False),
    "another_version": ({"pins": {"doca-ofed": "3.1.0"}}, False),
    "a_hold_is_missing": ({"packages": ["rdma-core"], "hold": ["rdma-core"]}, False),
    "a_hold_too_many": ({"packages": ["rdma-core"], "unhold": ["mine"]}, False),
    "a_package_in_conflict": ({"packages": ["rdma-core"], "conflicts": ["doca-ofed"]}, False),
    "another_content": ({"files": [{**FILE, "content": "ib_uverbs\n"}]}, False),
    "another_mode": ({"files": [{**FILE, "mode": "0600"}]}, False),
    "a_file_is_missing": ({"files": [{**FILE, "path": "/etc/missing"}]}, False),
    "a_file_is_left": ({"files": [FILE], "unwanted": ["/etc/missing", "/etc/left"]}, False),
    # The role fails there, with what to do about it.
    "a_folder_in_its_place": ({"unwanted": ["/etc"]}, False),
}


@pytest.mark.parametrize("name", SETTLED)
def test_a_role_is_complete_where_packages_and_files_are_as_wanted(node, name):
    request, settled = SETTLED[name]
    write(node, FILE["path"], FILE["content"])
    write(node, "/etc/left", "")
    assert driver_plan.look(DummyModule(request))["settled"] == [settled]

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All files of a role in one call: written together, removed, recorded; check mode reports the same."""

from __future__ import annotations

import grp
import json
import os
from pathlib import Path

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files
from ansible_collections.railyard.fabric.plugins.module_utils.state.baseline import OriginalsError
from ansible_collections.railyard.fabric.plugins.module_utils.state.managed_files import ManagedFilesError
from ansible_collections.railyard.fabric.plugins.module_utils.state.units import UnitsError
from ansible_collections.railyard.fabric.plugins.modules import managed_files
from support.nodes.module import FakeModule

UNIT = "railyard-x.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"


class Node:
    """A root folder, and systemctl's answers and arguments."""

    def __init__(self, root):
        self.root = root
        self.calls = []
        self.states = {"UnitFileState": "", "ActiveState": "inactive"}
        self.fails = False

    def run(self, argv):
        self.calls.append(argv[1:])
        if self.fails:
            return 1, "", "Access denied"
        return 0, "\n".join(f"{key}={value}" for key, value in self.states.items()) + "\n", ""

    def path(self, path):
        return self.root / path.lstrip("/")

    def tree(self):
        """Every path below the root, with content and mode."""
        return {
            str(one.relative_to(self.root)): (
                one.lstat().st_mode,
                one.read_bytes() if one.is_file() else None,
            )
            for one in sorted(self.root.rglob("*"))
        }


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setattr(managed_files, "ROOT", str(tmp_path))
    (tmp_path / "etc/sysctl.d").mkdir(parents=True)
    return Node(tmp_path)


def file(path, content="a\n", mode="0644", group="root"):
    return {"path": path, "content": content, "template": None, "mode": mode, "group": group}


UNSET = {"unwanted": [], "own_folders": [], "role": None, "units": [], "checks": [], "reload_systemd": False}


def hold(node, *files, check_mode=False, **params):
    unset = {"files": list(files), **UNSET}
    return managed_files.hold(FakeModule({**unset, **params}, node.run, check_mode))


WANTED = (file("/etc/sysctl.d/60-a.conf"), file("/usr/local/bin/b", "#!/bin/sh\n", "0755"))
OLD = "/etc/sysctl.d/50-old.conf"
# As a role names them: all files that it ever writes, those that are wanted now among them.
UNWANTED = [OLD, "/etc/never", "/etc/sysctl.d/60-a.conf"]


def test_check_mode_reports_what_a_run_does_and_a_second_run_changes_nothing(node):
    node.path(OLD).write_text("old\n")
    before = node.tree()
    checked = hold(node, *WANTED, unwanted=UNWANTED, check_mode=True)
    assert node.tree() == before
    done = hold(node, *WANTED, unwanted=UNWANTED)
    assert checked == done
    assert done["changed"]
    assert done["written"] == ["/etc/sysctl.d/60-a.conf", "/usr/local/bin/b"]
    assert done["removed"] == [OLD]
    assert done["changed_files"] == [*done["written"], OLD]
    assert node.path("/etc/sysctl.d/60-a.conf").read_text() == "a\n"
    assert node.path("/usr/local/bin/b").stat().st_mode & 0o7777 == 0o755
    assert sorted(one.name for one in node.path("/etc/sysctl.d").iterdir()) == ["60-a.conf"]
    for check_mode in (True, False):
        again = hold(node, *WANTED, unwanted=UNWANTED, check_mode=check_mode)
        assert (again["changed"], again["changed_files"], again["diff"]) == (False, [], [])


def test_the_diff_shows_each_file_and_its_mode(node):
    node.path(OLD).write_text("old\n")
    node.path("/etc/sysctl.d/60-a.conf").write_text("b\n")
    os.chmod(node.path("/etc/sysctl.d/60-a.conf"), 0o664)
    diff = hold(node, *WANTED, unwanted=[OLD])["diff"]
    assert [
        (one["before_header"], one["before"], one["after"]) for one in diff if "uid" not in one["after"]
    ] == [
        ("/etc/sysctl.d/60-a.conf", "b\n", "a\n"),
        ("/usr/local/bin/b (absent)", "", "#!/bin/sh\n"),
        (OLD, "old\n", ""),
    ]
    (mode,) = [one for one in diff if "uid" in one["after"]]
    assert mode["before_header"] == "/etc/sysctl.d/60-a.conf (mode and owner)"
    assert mode["before"].startswith("mode 0664, ")
    assert mode["after"].startswith("mode 0644, ")


@pytest.mark.parametrize("old", [b"\0" * 9, b"x" * 200_000])
def test_the_diff_leaves_out_what_is_binary_or_large(node, old):
    node.path("/etc/sysctl.d/60-a.conf").write_bytes(old)
    (entry,) = hold(node, WANTED[0])["diff"]
    assert "before" not in entry
    assert "not shown" in entry["prepared"]


def test_a_mode_alone_is_a_change(node):
    hold(node, *WANTED)
    os.chmod(node.path("/usr/local/bin/b"), 0o644)
    assert hold(node, *WANTED)["changed_files"] == ["/usr/local/bin/b"]
    assert node.path("/usr/local/bin/b").stat().st_mode & 0o7777 == 0o755


def test_missing_folders_are_open_to_all_whatever_the_umask_and_others_stay(node):
    node.path("/etc/sysctl.d").chmod(0o700)
    earlier = os.umask(0o077)
    try:
        hold(node, WANTED[0], file("/etc/x/y/z"))
    finally:
        os.umask(earlier)
    modes = {path: node.path(path).stat().st_mode & 0o777 for path in ("/etc/x", "/etc/x/y", "/etc/sysctl.d")}
    assert modes == {"/etc/x": 0o755, "/etc/x/y": 0o755, "/etc/sysctl.d": 0o700}


def test_a_full_disk_changes_no_file(node, monkeypatch):
    node.path("/etc/sysctl.d/60-a.conf").write_text("b\n")
    real = os.fsync
    left = [1]

    def fsync(descriptor):
        if not left:
            raise OSError(28, "No space left on device")
        left.pop()
        real(descriptor)

    monkeypatch.setattr(atomic_files.os, "fsync", fsync)
    before = node.tree()
    with pytest.raises(OSError, match=r"No space left on device.*60-b\.conf"):
        hold(node, WANTED[0], file("/etc/sysctl.d/60-b.conf"), unwanted=["/etc/hosts"])
    assert node.tree() == before


def test_a_link_is_replaced_by_the_file_and_its_target_stays(node):
    node.path("/etc/site.conf").write_text("site\n")
    node.path("/etc/sysctl.d/60-a.conf").symlink_to("../site.conf")
    node.path(OLD).symlink_to("../site.conf")
    done = hold(node, WANTED[0], unwanted=[OLD])
    assert done["changed_files"] == ["/etc/sysctl.d/60-a.conf"]
    assert not node.path("/etc/sysctl.d/60-a.conf").is_symlink()
    assert node.path("/etc/site.conf").read_text() == "site\n"
    assert node.path(OLD).is_symlink()


def test_the_originals_are_recorded_before_the_first_file_is_written(node):
    node.path("/etc/sysctl.d/60-a.conf").write_text("site\n")
    checked = hold(node, *WANTED, role="some_role", check_mode=True)
    assert not node.path("/var/lib").exists()
    done = hold(node, *WANTED, role="some_role")
    assert done["diff"] == checked["diff"]
    record = json.loads(node.path("/var/lib/railyard/originals/some_role.json").read_text())["record"]
    assert record["files"]["/usr/local/bin/b"] is None
    assert record["files"]["/etc/sysctl.d/60-a.conf"]["mode"] == "0644"
    assert record["folders"] == {"/usr": None, "/usr/local": None, "/usr/local/bin": None}
    copy = node.path("/var/lib/railyard/originals/files/some_role/etc/sysctl.d/60-a.conf")
    assert copy.read_text() == "site\n"
    # Not again, when another run finds the role's own file.
    assert not hold(node, *WANTED, role="some_role")["changed"]
    hold(node, file("/etc/sysctl.d/60-a.conf", "c\n"), role="some_role")
    assert copy.read_text() == "site\n"


def test_nothing_is_written_whose_original_cannot_be_recorded(node):
    node.path("/var/lib/railyard/originals").mkdir(parents=True)
    node.path("/var/lib/railyard/originals/some_role.json").write_text("torn")
    with pytest.raises(OriginalsError, match="Fix: "):
        hold(node, *WANTED, role="some_role")
    assert not node.path("/etc/sysctl.d/60-a.conf").exists()


def test_a_unit_is_disabled_before_its_file_is_removed(node):
    hold(node, file(UNIT_FILE))
    node.states = {"UnitFileState": "enabled", "ActiveState": "active"}
    shown = ["show", "--property=UnitFileState,ActiveState", "--", UNIT]
    for check_mode, calls in (
        (True, [shown]),
        (False, [["disable", "--now", "--", UNIT], shown]),
        (False, [shown]),
    ):
        node.calls.clear()
        done = hold(node, unwanted=[UNIT_FILE], units=[UNIT], check_mode=check_mode)
        assert node.calls == calls
    assert not done["changed"]


def test_systemd_is_reloaded_for_its_own_files_before_the_units_are_read(node):
    show = ["show", "--property=UnitFileState,ActiveState", "--", UNIT]
    asked = {"units": [UNIT], "reload_systemd": True}
    drop_in = file("/etc/systemd/system.conf.d/60-x.conf")
    for files, check_mode, calls in (
        ([WANTED[0]], False, [show]),
        ([drop_in], True, [show]),
        ([drop_in], False, [["daemon-reload"], show]),
        ([drop_in], False, [show]),
    ):
        node.calls.clear()
        hold(node, *files, check_mode=check_mode, **asked)
        assert node.calls == calls
    node.calls.clear()
    hold(node, unwanted=[drop_in["path"]], reload_systemd=True)
    assert node.calls == [["daemon-reload"]]


def test_a_unit_that_cannot_be_stopped_keeps_its_file(node):
    hold(node, file(UNIT_FILE))
    node.fails = True
    with pytest.raises(UnitsError, match="Access denied"):
        hold(node, unwanted=[UNIT_FILE], units=[UNIT])
    assert node.path(UNIT_FILE).exists()


def test_the_state_of_units_comes_with_the_files(node):
    node.states = {"UnitFileState": "enabled", "ActiveState": "failed"}
    assert hold(node, units=[UNIT])["units"] == {
        UNIT: {"unit_file_state": "enabled", "active_state": "failed"}
    }
    assert hold(node)["units"] == {}


@pytest.mark.parametrize(
    "wanted",
    [
        [file("etc/a")],
        [file("/etc/../../a")],
        [file("/etc/a/")],
        [file("/")],
        [file("/etc/sysctl.d")],
        [file("/etc/a", mode="u=rw")],
        [file("/etc/a", mode="888")],
        [file("/etc/a"), file("/etc/a", "other\n")],
    ],
)
def test_what_cannot_be_a_file_is_refused_before_any_change(node, wanted):
    before = node.tree()
    with pytest.raises(ManagedFilesError, match="Fix: "):
        hold(node, WANTED[0], *wanted)
    assert node.tree() == before


def test_a_folder_is_never_removed(node):
    with pytest.raises(ManagedFilesError, match="is not a file"):
        hold(node, unwanted=["/etc/sysctl.d"])


def test_text_that_is_not_utf_8_comes_through(node):
    hold(node, file("/etc/a", "caf\udce9\n"))
    assert node.path("/etc/a").read_bytes() == b"caf\xe9\n"


def test_the_documented_options_are_those_of_the_module():
    options = yaml.safe_load(managed_files.DOCUMENTATION)["options"]
    assert set(options) == {"files", *UNSET}
    assert set(options["files"]["suboptions"]) == {"path", "template", "content", "mode", "group"}
    assert set(options["checks"]["suboptions"]) == {"folder", "argv"}


CHECK = {"folder": "/etc/x", "argv": ["checker", "check", "main.conf"]}


class Checker(FakeModule):
    """A node with a program that refuses files with the word `bad`, and what that program saw."""

    def __init__(self, params, check_mode=False):
        super().__init__(params, self.check, check_mode)
        self.seen = None

    def check(self, argv):
        assert argv == ["/usr/bin/checker", "check", "main.conf"]
        folder = Path(self.cwd)
        self.seen = {
            str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()
        }
        bad = [name for name, text in self.seen.items() if "bad" in text]
        return (1, "", f"{self.cwd}/{bad[0]}: it is bad") if bad else (0, "good", "")


def checked(*files, check_mode=False, installed=True, unwanted=()):
    module = Checker(
        {"files": list(files), **UNSET, "unwanted": list(unwanted), "checks": [CHECK]}, check_mode
    )
    module.installed = installed
    return module, managed_files.hold(module)


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_folder_is_checked_as_it_will_be_before_any_file_is_replaced(node, check_mode):
    hold(
        node,
        file("/etc/x/main.conf", "old\n"),
        file("/etc/x/rules/a", "rule\n"),
        file("/etc/x/gone", "bad\n"),
    )
    module, _done = checked(
        file("/etc/x/main.conf", "new\n"),
        file("/etc/y", "bad\n"),
        unwanted=["/etc/x/gone"],
        check_mode=check_mode,
    )
    assert module.seen == {"main.conf": "new\n", "rules/a": "rule\n"}
    assert not Path(module.cwd).exists()


@pytest.mark.parametrize("check_mode", [True, False])
def test_files_that_a_program_refuses_change_nothing(node, check_mode):
    hold(node, file("/etc/x/main.conf", "old\n"))
    before = node.tree()
    with pytest.raises(ManagedFilesError, match=r"/etc/x/main.conf: it is bad. Fix: correct the variables"):
        checked(file("/etc/a"), file("/etc/x/main.conf", "bad\n"), check_mode=check_mode)
    assert node.tree() == before


def test_a_check_runs_only_where_its_folder_changes_and_its_program_is_there(node):
    wanted = file("/etc/x/main.conf", "new\n")
    module, done = checked(wanted, installed=False)
    assert (module.seen, done["unchecked"], done["changed"]) == (None, ["checker"], True)
    module, done = checked(wanted, file("/etc/y"))
    assert (module.seen, done["unchecked"], done["changed"]) == (None, [], True)


def test_a_secret_has_the_group_of_its_daemon(node):
    other = next(one for one in grp.getgrall() if one.gr_gid not in (0, os.getegid()))
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    secret = file("/etc/x/password", "s\n", "0640", other.gr_name)
    assert hold(node, secret)["changed"]
    status = node.path("/etc/x/password").stat()
    assert (status.st_gid, status.st_uid, status.st_mode & 0o777) == (other.gr_gid, 0, 0o640)
    assert not hold(node, secret)["changed"]
    assert hold(node, {**secret, "group": "root"})["changed"]


def test_a_group_that_is_not_there_is_refused_but_for_check_mode(node):
    secret = file("/etc/x/password", group="no-such-group")
    assert hold(node, secret, check_mode=True)["changed"]
    with pytest.raises(ManagedFilesError, match=r"no group no-such-group\. Fix: "):
        hold(node, secret)


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_a_folder_of_its_own_has_beside_the_files_is_removed(node, check_mode):
    hold(node, file("/etc/x/rules/old"), file("/etc/x/main.conf"), file("/etc/xy/other"))
    done = hold(node, file("/etc/x/main.conf"), own_folders=["/etc/x/", "/etc/none"], check_mode=check_mode)
    assert done["removed"] == ["/etc/x/rules/old"]
    assert node.path("/etc/x/rules/old").exists() == check_mode
    assert node.path("/etc/xy/other").exists()
    assert node.path("/etc/x/rules").is_dir()


def test_the_diff_shows_no_secret_neither_new_nor_old(node):
    hold(node, file("/etc/password", "old-word\n", "0640"), file("/etc/key", "old-word\n", "0600"))
    done = hold(node, file("/etc/password", "new-word\n", "0644"), unwanted=["/etc/key"])
    assert "-word" not in str(done["diff"])
    assert done["changed_files"] == ["/etc/password", "/etc/key"]
    again = hold(node, file("/etc/other", "third-word\n", "0600"))
    assert "-word" not in str(again["diff"])

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt-get 2.6 and dpkg-query 1.21 print, and what is done and refused because of it."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.apt import plan
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import apt_get
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node.apt_get import Move, Package, Sizes

MEBIBYTE_BYTES = 1024 * 1024
HERE = Package("1.0", "install", "installed", False)
HELD = Package("1.0", "hold", "installed", False)

SIMULATED = """\
Reading package lists...
0 upgraded, 3 newly installed, 0 to remove and 114 not upgraded.
Remv mlnx-ofed-kernel-dkms [4.9-OFED.4.9.7.1.0.1] [rdma:amd64 ]
Inst libpcap0.8 [1.10.1-4] (1.10.3-1 Debian:12.15/oldstable [amd64]) [tcpdump:amd64 ]
Inst ethtool (1:6.1-1 Debian:12.15/oldstable [amd64])
Conf libpcap0.8 (1.10.3-1 Debian:12.15/oldstable [amd64])
Purg old-tools [2.0]
"""


def wish(**parts):
    empty = {"names": [], "pins": {}, "hold": [], "unhold": [], "conflicts": [], "remove_allow": []}
    return plan.Wish(**{**empty, **parts})


def test_dpkg_list_is_read_with_selection_state_and_foreign_architecture():
    text = (
        "bash\t5.2.15-2+b8\tinstall ok installed\n"
        "libc6:amd64\t2.36-9\thold ok installed\n"
        "libc6:i386\t2.36-9\tinstall ok installed\n"
        "gone\t\tunknown ok not-installed\n"
        "half\t1\tinstall reinstreq half-installed\n"
    )
    packages = apt_get.parse_packages(text, "amd64")
    assert packages["libc6"] == Package("2.36-9", "hold", "installed", False)
    assert packages["libc6:i386"].want == "install"
    assert packages["half"] == Package("1", "install", "half-installed", True)
    assert plan.installed(packages) == {"bash": "5.2.15-2+b8", "libc6": "2.36-9", "libc6:i386": "2.36-9"}
    assert plan.unfinished(packages) == ["half (reinst-required, half-installed)"]


def test_simulation_gives_each_move_once():
    assert apt_get.parse_simulation(SIMULATED) == [
        Move("mlnx-ofed-kernel-dkms", "4.9-OFED.4.9.7.1.0.1", None),
        Move("libpcap0.8", "1.10.1-4", "1.10.3-1"),
        Move("ethtool", None, "1:6.1-1"),
        Move("old-tools", "2.0", None),
    ]


def test_complaints_are_errors_and_dependencies_not_met():
    text = (
        "The following packages have unmet dependencies:\n"
        " doca-ofed : Depends: mlnx-ofed-kernel-dkms (>= 25.10) but 4.9 is to be installed\n"
        "E: Unable to correct problems, you have held broken packages.\n"
        "dpkg: error processing archive /x/big_1.0_all.deb (--unpack):\n"
        " cannot copy extracted data for './opt/big': failed to write (No space left on device)\n"
        "Processing triggers\n not of an error\n"
    )
    assert apt_get.parse_complaints(text) == [
        "doca-ofed : Depends: mlnx-ofed-kernel-dkms (>= 25.10) but 4.9 is to be installed",
        "Unable to correct problems, you have held broken packages.",
        "dpkg: error processing archive /x/big_1.0_all.deb (--unpack):",
        "cannot copy extracted data for './opt/big': failed to write (No space left on device)",
    ]


def test_sizes_count_each_version_once():
    record = "Package: a\nVersion: 1\nArchitecture: amd64\nInstalled-Size: 3\nSize: 100\nDescription: x\n"
    other = "Package: a\nVersion: 2\nArchitecture: amd64\nSize: 10\n"
    assert apt_get.parse_sizes(f"{record}\n{record}\n{other}") == Sizes(110, 3072)


def test_madison_gives_the_versions_in_order_and_no_sources():
    text = (
        "      bash | 5.2.15-2+b13 | http://deb.debian.org/debian bookworm/main amd64 Packages\n"
        "      bash | 5.2.15-2 | file:/srv ./ Packages\n"
        "      bash | 5.1 | http://deb.debian.org/debian bookworm/main Sources\n"
    )
    assert apt_get.parse_madison(text) == {"bash": ["5.2.15-2+b13", "5.2.15-2"]}


def test_only_what_is_needed_in_one_version_is_an_exact_dependency():
    text = (
        "Package: doca-ofed\nVersion: 3.1.0\nRecommends: tools (= 9)\n"
        "Pre-Depends: base (= 1:2.0-1)\n"
        "Depends: dkms, mlnx-ofed-kernel-dkms (= 25.07-1), rdma-core (>= 44), a (= 1) | b,\n"
        " mlnx-ofed-kernel-utils:any (=25.07-1)\nDescription: needs x (= 3)\n"
    )
    assert apt_get.parse_exact_depends(text) == {
        "base": "1:2.0-1",
        "mlnx-ofed-kernel-dkms": "25.07-1",
        "mlnx-ofed-kernel-utils": "25.07-1",
    }
    assert apt_get.parse_exact_depends("Package: a\nVersion: 1\n") == {}


def test_nothing_is_needed_where_all_is_as_wanted():
    needed = plan.need(wish(names=["a"], pins={"b": "1.0"}, hold=["b"]), {"a": HERE, "b": HELD})
    assert (needed.specs, needed.hold, needed.absent, needed.conflicts) == ([], [], [], [])


def test_what_is_missing_or_in_another_version_becomes_a_spec():
    asked = wish(
        names=["a", "b", "c"], pins={"b": "2.0", "c": "1.5"}, hold=["a", "d"], unhold=["b"], conflicts=["e"]
    )
    needed = plan.need(asked, {"a": HERE, "b": HELD, "e": HERE})
    assert needed.specs == ["c=1.5", "b=2.0"]
    assert needed.missing == ["c"]
    assert needed.other_version == [Move("b", "1.0", "2.0")]
    assert (needed.hold, needed.unhold, needed.absent, needed.conflicts) == (["a", "d"], ["b"], ["d"], ["e"])


def test_a_removed_package_with_its_configuration_left_is_missing():
    left = Package("1.0", "deinstall", "config-files", False)
    assert plan.need(wish(names=["a"]), {"a": left}).missing == ["a"]
    assert plan.unfinished({"a": left}) == []


@pytest.mark.parametrize("version", ["", "535.*", "1.0 2.0"])
def test_a_pattern_is_no_exact_version(version):
    assert "is a pattern" in plan.wrong_wish(wish(pins={"a": version}))[0]


def test_contradictions_are_named():
    said = plan.wrong_wish(wish(names=["a"], conflicts=["a"], hold=["b"], unhold=["b"]))
    assert len(said) == 2
    assert all("Fix: ask for one of the two" in line for line in said)


def test_removal_is_refused_unless_allowed_by_name():
    moves = [Move("old", "1.0", None), Move("older", "0.9", None)]
    (said,) = plan.refuse_moves(wish(remove_allow=["old"]), moves, {})
    assert "apt would remove older 0.9." in said
    assert plan.refuse_moves(wish(remove_allow=["old", "older"]), moves, {}) == []


@pytest.mark.parametrize(
    ("asked", "here", "refused"),
    [
        ({"names": ["a"]}, HELD, True),
        ({"pins": {"a": "2.0"}}, HELD, True),
        ({"names": ["a"], "hold": ["a"]}, HELD, True),
        ({"pins": {"a": "2.0"}, "hold": ["a"]}, HELD, False),
        ({"pins": {"meta": "2.0"}, "hold": ["a"]}, HELD, False),
        ({"names": ["a"], "unhold": ["a"]}, HELD, False),
        ({"names": ["a"]}, HERE, False),
    ],
)
def test_a_hold_is_moved_only_by_the_request_that_holds_it_and_pins(asked, here, refused):
    moves = [Move("a", "1.0", "2.0")]
    said = plan.refuse_moves(wish(**asked), moves, {"a": here})
    assert ["a (held at 1.0, would become 2.0)" in one for one in said] == [True] * refused
    assert plan.moves_held(moves, {"a": here}) == (here is HELD)


def test_a_hold_does_not_keep_what_may_be_removed_by_name():
    gone = [Move("a", "1.0", None)]
    assert plan.refuse_moves(wish(remove_allow=["a"]), gone, {"a": HELD}) == []
    assert len(plan.refuse_moves(wish(), gone, {"a": HELD})) == 2
    # The confirmation covers the removal alone.
    assert plan.refuse_moves(wish(remove_allow=["a"]), [Move("a", "1.0", "2.0")], {"a": HELD}) != []


def test_conflicts_are_listed_before_the_act():
    asked = wish(conflicts=["x", "y"], remove_allow=["y"])
    packages = {"x": HERE, "y": HERE}
    needed = plan.need(asked, packages)
    assert "x 1.0. Fix" in plan.refuse_conflicts(asked, needed, packages)[0]
    assert plan.to_remove(asked, needed) == ["y"]


def test_interrupted_and_unfinished_dpkg_is_reported():
    half = Package("1.0", "install", "half-configured", False)
    said = plan.refuse_state({"a": half, "b": HERE}, True)
    assert "dpkg was interrupted" in said[0]
    assert "a (half-configured)" in said[1]
    assert plan.refuse_state({"b": HERE}, False) == []


def test_one_filesystem_has_to_hold_both():
    sizes = Sizes(10 * MEBIBYTE_BYTES, 30 * MEBIBYTE_BYTES)
    spare_bytes = 5 * MEBIBYTE_BYTES
    free = 44 * MEBIBYTE_BYTES
    (room,) = plan.rooms(sizes, ("/var", 1, free), ("/usr", 1, free), spare_bytes)
    assert plan.refuse_space([room])[0].startswith("/var and /usr: 45 MiB needed, 44 MiB free")
    apart = plan.rooms(sizes, ("/var", 1, free), ("/usr", 2, free), spare_bytes)
    assert plan.refuse_space(apart) == []


def test_a_missing_version_is_named_with_those_there_are():
    asked = wish(names=["a"], pins={"b": "9"})
    (said,) = plan.explain_failure(asked, ["Version '9' for 'b' was not found"], {"b": ["2", "1"]})
    assert said.startswith("no source has b in version 9; there are: 2, 1. Fix:")
    assert plan.explain_failure(asked, [], {})[0].startswith("no source has b. Fix:")
    assert (
        "Unable to locate" in plan.explain_failure(wish(names=["a"]), ["Unable to locate package a"], {})[0]
    )


def test_the_cause_of_a_failed_transaction_brings_its_cure():
    said = plan.explain_failed_transaction("x\nfailed to write (No space left on device)", ["dpkg: error"])
    assert said.startswith("dpkg: error. Fix: free some space")
    assert "tail of it" in plan.explain_failed_transaction("the tail of it", [])


def test_a_script_that_cannot_fetch_is_not_the_mirror():
    mirror = (
        "E: Failed to fetch http://127.0.0.1:8123/./x_1.0_all.deb  404  File not found [IP: 127.0.0.1 8123]\n"
        "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n"
    )
    script = (
        "Failed to fetch https://example.com/blob: 403\n"
        "dpkg: error processing package x (--configure):\n"
        " installed x package post-installation script subprocess returned error exit status 1\n"
    )
    assert "the mirror does not answer" in plan.explain_failed_transaction(mirror, [])
    assert "a package's own script failed" in plan.explain_failed_transaction(script, [])


def test_a_restore_purges_what_is_new_and_restores_what_moved():
    moves = [
        Move("new", None, "1"),
        Move("never-came", None, "1"),
        Move("configured-before", None, "1"),
        Move("moved", "1.0", "2.0"),
        Move("kept", "1.0", "2.0"),
        Move("removed", "1.0", None),
    ]
    before = {
        "moved": HELD,
        "kept": HELD,
        "removed": HERE,
        "configured-before": Package("0.9", "deinstall", "config-files", False),
    }
    now = {
        "new": Package("1", "install", "half-configured", False),
        "configured-before": Package("1", "install", "unpacked", False),
        "moved": Package("2.0", "install", "installed", False),
        "kept": HELD,
    }
    back = plan.undo(moves, before, now)
    assert back.purge == ["new"]
    assert back.remove == ["configured-before"]
    assert back.restore == ["moved=1.0", "removed=1.0"]
    assert back.hold == ["moved"]
    assert plan.undo(moves, before, before) == ([], [], [], [])

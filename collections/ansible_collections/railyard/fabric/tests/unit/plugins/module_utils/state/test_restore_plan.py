# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a restore: what goes, what comes back, and what stays since another needs or wrote it."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline, restore_plan
from support.nodes.files import write

# As apt 2.6 prints it (Debian 12).
SIMULATED = """\
Reading package lists...
Building dependency tree...
Reading state information...
The following packages will be REMOVED:
  iperf3* libiperf0:i386* perftest*
0 upgraded, 0 newly installed, 3 to remove and 0 not upgraded.
Purg iperf3 [3.12-1+deb12u1]
Purg libiperf0:i386 [3.12-1+deb12u1]
Remv perftest [4.5.0.19-1] [libibverbs1:amd64 ]
"""


class Apt:
    """A small apt: who needs whom, and who was installed only for others.

    Args:
        needs: Package to the packages that it depends on.
        automatic: Packages that were installed only for others.
    """

    def __init__(self, needs, automatic=()):
        self.needs = needs
        self.automatic = set(automatic)
        self.installed = {name: {"version": "1", "hold": False} for name in needs}

    def simulate(self, names, orphans):
        gone = set(names)
        while True:
            more = {name for name, needed in self.needs.items() if gone.intersection(needed)} - gone
            left = {name: needed for name, needed in self.needs.items() if name not in gone}
            if orphans:
                wanted = {one for needed in left.values() for one in needed}
                more |= {name for name in left if name in self.automatic and name not in wanted}
            if not more:
                return sorted(gone)
            gone |= more


def record(ours, before=("base",), **more):
    return {"packages": dict.fromkeys(ours), "installed_before": list(before), **more}


def plan(apt, **records):
    return restore_plan.plan_packages(records, apt.installed, apt.automatic, apt.simulate)


def test_apt_s_words_are_read():
    assert restore_plan.parse_simulation(SIMULATED) == ["iperf3", "libiperf0", "perftest"]
    assert restore_plan.parse_simulation("0 upgraded, 0 newly installed, 0 to remove\n") == []


def test_railyards_packages_go_with_what_came_along():
    apt = Apt({"base": [], "iperf3": ["libiperf0"], "libiperf0": []}, automatic=["libiperf0"])
    assert plan(apt, benchmark_tools=record(["iperf3", "never-came"])) == (
        ["iperf3", "libiperf0"],
        [],
        [],
        [],
        [],
    )


def test_an_orphan_of_the_site_stays():
    apt = Apt({"base": [], "iperf3": [], "old": [], "by-hand": []}, automatic=["old"])
    assert plan(apt, benchmark_tools=record(["iperf3"], before=["base", "old"])).remove == ["iperf3"]


def test_what_was_there_before_stays():
    apt = Apt({"base": [], "perftest": [], "iperf3": []})
    known = {
        "packages": {"perftest": {"version": "1", "hold": False}, "iperf3": None},
        "installed_before": ["perftest"],
    }
    assert plan(apt, benchmark_tools=known).remove == ["iperf3"]


def test_what_the_site_needs_since_stays_and_says_who_needs_it():
    apt = Apt(
        {
            "base": [],
            "rdma-core": ["libverbs"],
            "libverbs": [],
            "openmpi": ["libverbs"],
            "perftest": ["libverbs"],
        },
        automatic=["libverbs"],
    )
    made = plan(apt, rdma_stack=record(["rdma-core", "libverbs"]), benchmark_tools=record(["perftest"]))
    assert made.remove == ["perftest", "rdma-core"]
    assert made.keep == [{"name": "libverbs", "why": "needed by openmpi"}]


def test_two_that_only_together_take_another_along_both_stay():
    class Either(Apt):
        def simulate(self, names, orphans):
            return sorted({*names, *(["site"] if {"a", "b"} <= set(names) else [])})

    apt = Either({"a": [], "b": [], "site": []})
    made = plan(apt, rdma_stack=record(["a", "b"], before=["site"]))
    assert made.remove == []
    assert [one["name"] for one in made.keep] == ["a", "b"]


def test_of_two_roles_the_one_that_saw_it_missing_came_first():
    apt = Apt({"base": [], "rdma-core": []})
    later = {
        "packages": {"rdma-core": {"version": "1", "hold": False}},
        "installed_before": ["base", "rdma-core"],
    }
    for order in ({"a": record(["rdma-core"]), "b": later}, {"b": later, "a": record(["rdma-core"])}):
        assert plan(apt, **order).remove == ["rdma-core"]


def test_railyards_hold_is_released_and_the_sites_own_stays():
    apt = Apt({"driver": [], "own": []})
    apt.installed = {"driver": {"version": "2", "hold": True}, "own": {"version": "1", "hold": True}}
    known = {"driver": {"version": "1", "hold": False}, "own": {"version": "1", "hold": True}}
    made = plan(apt, nvidia_driver={"packages": known, "installed_before": ["driver", "own"]})
    assert made == ([], [], ["driver"], [{"name": "driver", "was": "1", "is": "2"}], [])


def test_what_a_transaction_moved_or_removed_of_the_site_s_is_reported():
    apt = Apt({"rdma-core": [], "brought": []}, automatic=["brought"])
    apt.installed = {"rdma-core": {"version": "2", "hold": False}, "brought": {"version": "2", "hold": False}}
    known = {
        "doca-ofed": None,
        "rdma-core": {"version": "1", "hold": False},
        "mlnx-ofed-all": {"version": "24.10", "hold": False},
        # Moved by a later run, and brought by an earlier one.
        "brought": {"version": "1", "hold": False},
    }
    made = plan(apt, rdma_stack={"packages": known, "installed_before": ["mlnx-ofed-all", "rdma-core"]})
    assert made.moved == [{"name": "rdma-core", "was": "1", "is": "2"}]
    assert made.gone == [{"name": "mlnx-ofed-all", "was": "24.10"}]


def files_of(root, role, *paths):
    """Record files as the module does."""
    seen = {path: baseline.look_at_file(str(root), path) for path in paths}
    folders = [folder for path in paths for folder in baseline.missing_folders(str(root), path)]
    for path, state in seen.items():
        if state is not None:
            baseline.keep_file(str(root), role, path)
    return {role: {"files": seen, "folders": dict.fromkeys(folders)}}


OURS = "# Managed by Railyard (role nccl_profile)\n"
CONF, ENV = "/etc/nccl.conf", "/etc/railyard/nccl.env"


def test_files_go_or_come_back_with_their_bytes(tmp_path):
    write(tmp_path, CONF, "NCCL_DEBUG=WARN\n", 0o640)
    records = files_of(tmp_path, "nccl_profile", CONF, ENV)
    untouched = restore_plan.plan_files(str(tmp_path), records)
    assert untouched == {"remove_files": [], "restore_files": [], "keep_files": [], "remove_folders": []}
    write(tmp_path, CONF, OURS)
    write(tmp_path, ENV, OURS)
    made = restore_plan.plan_files(str(tmp_path), records)
    assert made["remove_files"] == [ENV]
    assert made["remove_folders"] == ["/etc/railyard"]
    [back] = made["restore_files"]
    assert (back["path"], back["mode"]) == (CONF, "0640")
    assert (tmp_path / back["backup"].lstrip("/")).read_text() == "NCCL_DEBUG=WARN\n"


def test_files_of_the_nvidia_driver_go_and_what_it_put_aside_is_reported(tmp_path):
    write(tmp_path, "/etc/modules-load.d/railyard-nvidia.conf", "nvidia-peermem\n")
    write(tmp_path, "/etc/modules-load.d/site.conf", "x\n")
    write(tmp_path, "/etc/apt/sources.list.d/graphics.list.railyard.disabled", "deb x\n")
    plan = restore_plan.plan_files(str(tmp_path), {})
    assert plan["remove_files"] == ["/etc/modules-load.d/railyard-nvidia.conf"]
    (kept,) = plan["keep_files"]
    assert kept["path"] == "/etc/apt/sources.list.d/graphics.list.railyard.disabled"
    assert "put aside" in kept["why"]


def test_a_file_that_is_gone_comes_back(tmp_path):
    write(tmp_path, CONF, "NCCL_DEBUG=WARN\n")
    records = files_of(tmp_path, "nccl_profile", CONF)
    (tmp_path / "etc/nccl.conf").unlink()
    assert [one["path"] for one in restore_plan.plan_files(str(tmp_path), records)["restore_files"]] == [CONF]


def test_a_file_that_somebody_wrote_since_stays(tmp_path):
    records = files_of(tmp_path, "nccl_profile", CONF)
    write(tmp_path, CONF, "NCCL_DEBUG=INFO\n")
    made = restore_plan.plan_files(str(tmp_path), records)
    assert made["remove_files"] == made["restore_files"] == []
    assert made["keep_files"] == [{"path": CONF, "why": "somebody else has written it since"}]


@pytest.mark.parametrize("damage", ["other bytes", None])
def test_a_copy_that_is_damaged_is_not_put_back(tmp_path, damage):
    write(tmp_path, CONF, "NCCL_DEBUG=WARN\n")
    records = files_of(tmp_path, "nccl_profile", CONF)
    write(tmp_path, CONF, OURS)
    copy = tmp_path / "var/lib/railyard/originals/files/nccl_profile/etc/nccl.conf"
    if damage is None:
        copy.unlink()
    else:
        copy.write_text(damage)
    made = restore_plan.plan_files(str(tmp_path), records)
    assert made["restore_files"] == []
    assert "gone or damaged" in made["keep_files"][0]["why"]


def test_a_link_comes_back_as_one(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").symlink_to("site.conf")
    records = files_of(tmp_path, "nccl_profile", CONF)
    (tmp_path / "etc/nccl.conf").unlink()
    write(tmp_path, CONF, OURS)
    made = restore_plan.plan_files(str(tmp_path), records)
    assert made["restore_files"] == [{"path": CONF, "link": "site.conf"}]


def test_files_that_are_railyards_by_name_go_without_a_record(tmp_path):
    for path in ("/etc/apt/sources.list.d/railyard-doca.sources", "/etc/apt/keyrings/railyard-doca.asc"):
        write(tmp_path, path, "x")
    write(tmp_path, "/etc/apt/sources.list.d/debian.sources", "x")
    made = restore_plan.plan_files(str(tmp_path), {})
    assert made["remove_files"] == [
        "/etc/apt/keyrings/railyard-doca.asc",
        "/etc/apt/sources.list.d/railyard-doca.sources",
    ]


def test_units_come_back_unless_a_role_brought_them():
    unit = {"iperf3.service": {"package": "iperf3", "enabled": "enabled", "active": "active"}}
    site = {"benchmark_tools": {"packages": {"iperf3": {"version": "1"}}, "units": unit}}
    was = restore_plan.recorded_units(site)
    off = {"enabled": False, "active": False}
    assert restore_plan.plan_units(was, {"iperf3.service": off}) == [
        {"unit": "iperf3.service", "enabled": True, "active": True}
    ]
    assert restore_plan.plan_units(was, {"iperf3.service": {"enabled": True, "active": True}}) == []
    assert restore_plan.plan_units(was, {}) == []
    ours = {"benchmark_tools": {"packages": {"iperf3": None}, "units": unit}}
    assert restore_plan.recorded_units(ours) == {}


def test_what_roles_take_back_is_reported(tmp_path):
    assert restore_plan.by_roles(str(tmp_path)) == []
    write(tmp_path, "/var/lib/railyard/node_tuning/originals.json", "{}")
    assert ["node_tuning" in one for one in restore_plan.by_roles(str(tmp_path))] == [True]


def test_an_empty_plan_is_one_that_changes_nothing():
    nothing = {"remove_packages": [], "keep_packages": [{"name": "x"}], "remove_folders": ["/etc/railyard"]}
    assert restore_plan.is_empty(nothing)
    assert not restore_plan.is_empty({**nothing, "unhold": ["x"]})


PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\nprometheus:x:105:112:Prometheus daemon:/var/lib/prometheus:/bin/sh\n"
)


@pytest.mark.parametrize(
    ("was", "stays", "file", "passwd", "removed"),
    [
        (False, [], None, PASSWD, ["prometheus"]),
        (True, [], None, PASSWD, []),  # the site's
        (False, ["prometheus-alertmanager"], None, PASSWD, []),  # another package of the site's runs as it
        (False, [], "var/lib/prometheus/metrics2/wal/0", PASSWD, []),  # data that a person kept
        (False, [], None, "root:x:0:0:root:/root:/bin/bash\n", []),
    ],
)
def test_a_system_user_that_a_package_left_goes_where_nothing_is_its(
    tmp_path, was, stays, file, passwd, removed
):
    write(tmp_path, "etc/passwd", passwd)
    (tmp_path / "var/lib/prometheus").mkdir(parents=True)
    if file:
        write(tmp_path, file, "x")
    record = {"users": {"prometheus": {"there": was, "home": "/var/lib/prometheus"}}}
    later = {"users": {"prometheus": {"there": True, "home": "/var/lib/prometheus"}}}
    records = {"monitoring": later, "node_metrics": record}
    # Of two roles the one that saw it missing came first.
    assert restore_plan.plan_users(str(tmp_path), {"node_metrics": record}, stays) == removed
    assert restore_plan.plan_users(str(tmp_path), records, stays) == removed
    assert restore_plan.plan_users(str(tmp_path), {"monitoring": later}, stays) == []
    assert restore_plan.plan_users(str(tmp_path), {"rdma_stack": {"packages": {}}}, []) == []

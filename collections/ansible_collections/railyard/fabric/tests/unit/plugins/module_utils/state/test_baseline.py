# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was there before a role is kept once, as it was; what a role wrote itself is no original."""

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline
from ansible_collections.railyard.fabric.plugins.module_utils.state.baseline import OriginalsError
from support.nodes.files import write

DPKG = """\
install installed iperf3 3.12-1+deb12u1
hold installed perftest 4.5.0.19-1
deinstall config-files opensm 3.3.23-2
unknown not-installed sockperf
install half-configured numactl 2.0.16-1
"""
OURS = "# Managed by Railyard (role nccl_profile): change the inventory, not this file.\nNCCL_NET=IB\n"


def test_only_installed_packages_count_and_a_hold_is_seen():
    packages = baseline.parse_packages(DPKG)
    assert packages == {
        "iperf3": {"version": "3.12-1+deb12u1", "hold": False},
        "perftest": {"version": "4.5.0.19-1", "hold": True},
    }
    seen = baseline.look_at_packages(["iperf3", "opensm", "nowhere"], packages)
    assert seen == {"iperf3": {"version": "3.12-1+deb12u1", "hold": False}, "opensm": None, "nowhere": None}


def test_a_file_of_the_site_is_kept_with_its_bytes_and_mode(tmp_path):
    write(tmp_path, "/etc/nccl.conf", "NCCL_DEBUG=WARN\n", 0o640)
    was = baseline.look_at_file(str(tmp_path), "/etc/nccl.conf")
    # of the 16 bytes, by sha256sum
    assert was["sha256"] == "bf9ee2f14cd5554b93a374321c2bd45d61837902195d985735057dcea32d6948"
    assert (was["mode"], was["uid"], was["gid"]) == ("0640", os.getuid(), os.getgid())
    baseline.keep_file(str(tmp_path), "nccl_profile", "/etc/nccl.conf")
    copy = tmp_path / "var/lib/railyard/originals/files/nccl_profile/etc/nccl.conf"
    assert copy.read_text() == "NCCL_DEBUG=WARN\n"
    assert copy.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "var/lib/railyard/originals/files").stat().st_mode & 0o777 == 0o700


def test_a_file_that_a_role_wrote_is_no_original(tmp_path):
    write(tmp_path, "/etc/nccl.conf", OURS)
    assert baseline.is_ours(str(tmp_path), "/etc/nccl.conf")
    assert baseline.look_at_file(str(tmp_path), "/etc/nccl.conf") is None
    assert baseline.look_at_file(str(tmp_path), "/etc/nowhere") is None


def test_a_link_is_recorded_as_one_even_where_it_leads_to_railyards(tmp_path):
    write(tmp_path, "/etc/real.conf", OURS)
    (tmp_path / "etc/nccl.conf").symlink_to("real.conf")
    assert baseline.look_at_file(str(tmp_path), "/etc/nccl.conf") == {"link": "real.conf"}


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    (tmp_path / "etc/nccl.conf").mkdir(parents=True)
    with pytest.raises(OriginalsError, match=r"/etc/nccl\.conf is no file\. Fix:"):
        baseline.look_at_file(str(tmp_path), "/etc/nccl.conf")


def test_folders_that_are_missing_are_named_from_the_outermost(tmp_path):
    (tmp_path / "etc").mkdir()
    assert baseline.missing_folders(str(tmp_path), "/etc/railyard/a/nccl.env") == [
        "/etc/railyard",
        "/etc/railyard/a",
    ]
    assert baseline.missing_folders(str(tmp_path), "/etc/nccl.conf") == []


def test_what_is_recorded_is_never_changed_and_what_is_new_is_added():
    first = baseline.merged(None, {"packages": {"iperf3": None}, "installed_before": ["adduser"]})
    later = baseline.merged(
        first,
        {
            "packages": {"iperf3": {"version": "3.12", "hold": False}, "fio": None},
            "installed_before": ["adduser", "iperf3"],
            "units": {"iperf3.service": {"enabled": "enabled"}},
        },
    )
    assert later == {
        "packages": {"iperf3": None, "fio": None},
        "installed_before": ["adduser"],
        "units": {"iperf3.service": {"enabled": "enabled"}},
    }
    assert first["packages"] == {"iperf3": None}


def test_records_come_back_by_role_and_go_with_their_copies(tmp_path):
    root = str(tmp_path)
    assert baseline.load_all(root) == {}
    write(tmp_path, "/etc/nccl.conf", "x\n")
    baseline.keep_file(root, "nccl_profile", "/etc/nccl.conf")
    baseline.store(root, "nccl_profile", {"files": {}})
    baseline.store(root, "rdma_stack", {"packages": {}})
    assert baseline.load_all(root) == {"nccl_profile": {"files": {}}, "rdma_stack": {"packages": {}}}
    baseline.remove(root, "nccl_profile")
    assert baseline.load_all(root) == {"rdma_stack": {"packages": {}}}
    assert not (tmp_path / "var/lib/railyard/originals/files").exists()
    baseline.remove(root, "rdma_stack")
    assert not (tmp_path / "var/lib/railyard/originals").exists()
    assert (tmp_path / "var/lib/railyard").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2, "record": {}}', '{"schema": 1}', '{"schema": 1,'])
def test_a_damaged_record_is_no_empty_one(tmp_path, text):
    write(tmp_path, "/var/lib/railyard/originals/rdma_stack.json", text)
    with pytest.raises(OriginalsError, match=r"rdma_stack.*Fix:"):
        baseline.load_all(str(tmp_path))


@pytest.mark.parametrize("role", ["", "../x", "Role", "a-b", "a/b"])
def test_a_role_that_is_no_file_name_is_refused(role):
    with pytest.raises(OriginalsError, match="Fix:"):
        baseline.check_role(role)

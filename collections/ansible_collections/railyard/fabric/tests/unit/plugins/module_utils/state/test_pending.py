# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits on a node: who may say what, what a boot answers, and what a damaged file does."""

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.state import pending
from ansible_collections.railyard.fabric.plugins.module_utils.state.pending import Now, WaitsError
from support.nodes.files import write

OLD = Now("boot-1", "6.1.0-55-amd64")
SAME_KERNEL = Now("boot-2", "6.1.0-55-amd64")
NEW_KERNEL = Now("boot-2", "6.1.0-56-amd64")
LOAD = {"what": "load driver 580", "why": "570 is loaded", "needs": "reboot"}
KERNEL = {
    "what": "boot kernel",
    "why": "the driver is built for it",
    "needs": "reboot",
    "kernel": "6.1.0-56-amd64",
}
RESTART = {"what": "reload mlx5_core", "why": "a job runs", "needs": "module_restart"}
CONSENT = {
    "what": "upgrade to 580",
    "why": "not allowed",
    "needs": "consent:nvidia_driver_allow_restart",
}


@pytest.mark.parametrize("topic", ["nvidia_driver", "kernel", "a", "x" * 63])
def test_topics_that_are_file_names_are_taken(topic):
    assert pending.check_topic(topic) == topic


@pytest.mark.parametrize("topic", ["", "../x", "a/b", ".hidden", "Nvidia", "1a", "x" * 64, "a\n"])
def test_other_topics_are_refused(topic):
    with pytest.raises(WaitsError, match="Fix:"):
        pending.check_topic(topic)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"what": ""}, "no what"),
        ({"why": "  "}, "no why"),
        ({"needs": None}, "no needs"),
        ({"needs": "coffee"}, "needs 'coffee'"),
        ({"needs": "consent:"}, "consent:VARIABLE"),
        ({"needs": "reboot now"}, "reboot now"),
        ({"needs": "module_restart", "kernel": "6.1"}, "only a boot brings"),
    ],
)
def test_an_item_that_says_too_little_is_refused_by_number(change, says):
    with pytest.raises(WaitsError, match=f"item 2 .*{says}"):
        pending.stamped([LOAD, {**LOAD, **change}], OLD)


def test_only_what_a_boot_answers_keeps_its_boot():
    kept = pending.stamped([LOAD, RESTART, CONSENT], OLD)
    assert [item.get("boot_id") for item in kept] == ["boot-1", "boot-1", None]


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (OLD, [LOAD, RESTART, CONSENT, KERNEL]),
        (SAME_KERNEL, [CONSENT, KERNEL]),  # the node came back with its old kernel
        (NEW_KERNEL, [CONSENT]),
    ],
)
def test_a_boot_answers_all_but_confirmation_and_kernels_that_do_not_run(now, left):
    said = {"topic": pending.stamped([LOAD, RESTART, CONSENT, KERNEL], OLD)}
    remains = pending.listed(pending.unanswered(said, now))
    assert remains == [{"topic": "topic", **item} for item in left]


def test_they_come_back_from_the_disk_by_topic_and_go(tmp_path):
    root = str(tmp_path)
    assert pending.load(root) == {}
    rdma, nvidia = pending.stamped([RESTART], OLD), pending.stamped([LOAD, CONSENT], OLD)
    pending.store(root, "rdma_stack", rdma)
    pending.store(root, "nvidia_driver", nvidia)
    assert pending.load(root) == {"nvidia_driver": nvidia, "rdma_stack": rdma}
    pending.store(root, "nvidia_driver", [])
    assert pending.load(root) == {"rdma_stack": rdma}
    folder = tmp_path / "var/lib/railyard/waits"
    assert [path.name for path in folder.iterdir()] == ["rdma_stack.json"]
    assert (folder / "rdma_stack.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 2, "items": []}',
        '{"schema": 1, "items": {}}',
        json.dumps({"schema": 1, "items": [{"what": "x"}]}),
        '{"schema": 1, "items": [',
    ],
)
def test_a_damaged_file_is_no_empty_list_but_can_be_written_anew(tmp_path, text):
    write(tmp_path, "/var/lib/railyard/waits/kernel.json", text)
    with pytest.raises(WaitsError, match=r"kernel\.json .*Fix: remove it"):
        pending.load(str(tmp_path))
    assert pending.load(str(tmp_path), but="kernel") == {"kernel": []}


def test_what_is_no_topic_is_left_alone(tmp_path):
    for name in (".kernel.json.railyard", "README"):
        write(tmp_path, f"/var/lib/railyard/waits/{name}", "half written")
    assert pending.load(str(tmp_path)) == {}


def keep_on(root, items, now, boot_id=None):
    """Keep items reported in one boot on a node where another may run."""
    write(root, "/proc/sys/kernel/random/boot_id", f"{boot_id or now.boot_id}\n")
    write(root, "/proc/sys/kernel/osrelease", f"{now.kernel}\n")
    pending.store(str(root), "driver", pending.stamped(items, now))


@pytest.mark.parametrize("items", [[], [RESTART], [LOAD, CONSENT], [KERNEL]])
def test_what_is_kept_counts_in_the_boot_that_reported_it(tmp_path, items):
    keep_on(tmp_path, items, OLD)
    assert pending.standing(str(tmp_path), "driver") == items


def test_what_a_boot_answers_is_reported_again_after_one_and_a_confirmation_is_not(tmp_path):
    keep_on(tmp_path, [RESTART], OLD, boot_id="boot-2")
    assert pending.standing(str(tmp_path), "driver") is None
    keep_on(tmp_path, [CONSENT], OLD, boot_id="boot-2")
    assert pending.standing(str(tmp_path), "driver") == [CONSENT]


@pytest.mark.parametrize(
    "text", ["{", '{"schema": 1, "items": [{"what": "x", "why": "y", "needs": "coffee"}]}']
)
def test_a_damaged_list_does_not_count(tmp_path, text):
    keep_on(tmp_path, [RESTART], OLD)
    (tmp_path / pending.FOLDER / "driver.json").write_text(text)
    assert pending.standing(str(tmp_path), "driver") is None
    assert pending.standing(str(tmp_path / "nowhere"), "driver") is None

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: check mode writes nothing and says the same, a boot answers, other topics stay."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.state.pending import WaitsError
from ansible_collections.railyard.fabric.plugins.modules import pending
from support.nodes.files import write
from support.nodes.module import FakeModule

ITEM = {"what": "load driver 580", "why": "570 is loaded", "needs": "reboot", "kernel": None}
CONSENT = {"what": "upgrade", "why": "not allowed", "needs": "consent:some_allow", "kernel": None}


def hold(state="present", topic=None, items=None, check_mode=False):
    return pending.hold(FakeModule({"state": state, "topic": topic, "items": items}, check_mode=check_mode))


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setattr(pending, "ROOT", str(tmp_path))
    write(tmp_path, "/proc/sys/kernel/random/boot_id", "boot-1\n")
    write(tmp_path, "/proc/sys/kernel/osrelease", "6.1.0-55-amd64\n")
    return tmp_path


def files(node):
    folder = node / "var/lib/railyard/waits"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_check_real_check_real(node):
    wanted = {"topic": "nvidia_driver", "items": [ITEM]}
    checked = hold(**wanted, check_mode=True)
    assert checked["changed"]
    assert files(node) == []
    done = hold(**wanted)
    assert done == checked
    assert done["diff"]["before"] == ""
    assert done["diff"]["after"] == "nvidia_driver: load driver 580 (reboot): 570 is loaded\n"
    assert files(node) == ["nvidia_driver.json"]
    for check_mode in (True, False):
        again = hold(**wanted, check_mode=check_mode)
        assert not again["changed"]
        assert again["diff"]["before"] == again["diff"]["after"]


def test_every_answer_has_all_topics(node):
    hold(topic="rdma_stack", items=[CONSENT])
    done = hold(topic="nvidia_driver", items=[ITEM])
    assert [item["topic"] for item in done["waits"]] == ["nvidia_driver", "rdma_stack"]
    assert done["ansible_facts"] == {"railyard_waits": done["waits"]}
    assert hold("read")["waits"] == done["waits"]
    left = hold(topic="nvidia_driver", items=[])
    assert left["changed"]
    assert [item["topic"] for item in left["waits"]] == ["rdma_stack"]
    assert files(node) == ["rdma_stack.json"]


def test_a_boot_answers_and_booted_removes_only_that(node):
    hold(topic="nvidia_driver", items=[ITEM, CONSENT])
    hold(topic="kernel", items=[ITEM])
    assert not hold("booted")["changed"]
    (node / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    read = hold("read")
    assert not read["changed"]
    assert [item["needs"] for item in read["waits"]] == ["consent:some_allow"]
    checked = hold("booted", check_mode=True)
    assert checked["changed"]
    assert files(node) == ["kernel.json", "nvidia_driver.json"]
    assert hold("booted")["changed"]
    assert files(node) == ["nvidia_driver.json"]


def test_what_still_waits_after_a_boot_waits_again(node):
    hold(topic="nvidia_driver", items=[ITEM])
    (node / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    said_again = hold(topic="nvidia_driver", items=[ITEM])
    assert said_again["changed"]
    assert len(said_again["waits"]) == 1


def test_a_damaged_topic_fails_a_reading_and_not_its_own_writing(node):
    write(node, "/var/lib/railyard/waits/kernel.json", "{")
    with pytest.raises(WaitsError, match="kernel"):
        hold("read")
    assert hold(topic="kernel", items=[ITEM])["changed"]
    assert len(hold("read")["waits"]) == 1

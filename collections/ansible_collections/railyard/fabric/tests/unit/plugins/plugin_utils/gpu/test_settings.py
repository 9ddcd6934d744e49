# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is set on GPUs: only what is declared, only where it differs, and what only a boot changes waits."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.filter import nvidia_driver
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import settings as gpu_settings

PCI = "0000:17:00.0"


def facts(**settings):
    now = {
        "persistence": True,
        "mig": {"current": False, "pending": False},
        "ecc": {"current": True, "pending": True},
        "power_limit_w": 400.0,
        "power_default_w": 400.0,
        "power_max_w": 400.0,
        "graphics_clock_mhz": 1275,
        "memory_clock_mhz": 1593,
        **settings,
    }
    return {"gpus": [{"pci": PCI, "name": "NVIDIA A100", "settings": now}]}


def argvs(plan):
    return [" ".join(one["argv"]) for one in plan["commands"]]


def test_nothing_declared_touches_nothing():
    assert gpu_settings.plan(facts(), {}) == {"commands": [], "waits": []}


def test_what_is_as_declared_needs_no_command():
    clocks = {"graphics_clock_mhz": 1275, "memory_clock_mhz": 1593}
    wanted = {"mig": False, "ecc": True, "power_limit_w": 400, **clocks}
    assert gpu_settings.plan(facts(), wanted) == {"commands": [], "waits": []}


def test_what_differs_is_set_and_mig_and_ecc_wait():
    clocks = {"graphics_clock_mhz": 1410, "memory_clock_mhz": 1593}
    wanted = {"mig": True, "ecc": False, "power_limit_w": 300, **clocks}
    plan = gpu_settings.plan(facts(), wanted)
    # Memory first, as `nvidia-smi -ac <memory,graphics>` has it.
    assert argvs(plan) == [
        f"nvidia-smi -i {PCI} -mig 1",
        f"nvidia-smi -i {PCI} -e 0",
        f"nvidia-smi -i {PCI} -pl 300",
        f"nvidia-smi -i {PCI} -ac 1593,1410",
    ]
    assert [(one["what"], one["needs"]) for one in plan["waits"]] == [("MIG", "reboot"), ("ECC", "reboot")]


def test_what_is_pending_already_only_waits():
    plan = gpu_settings.plan(facts(ecc={"current": True, "pending": False}), {"ecc": False})
    assert (plan["commands"], len(plan["waits"])) == ([], 1)


@pytest.mark.parametrize(
    ("settings", "wanted", "says"),
    [
        ({}, {"watt": 3}, "has no watt"),
        ({}, {"graphics_clock_mhz": 1410}, "one of two clocks"),
        ({"mig": {"current": None, "pending": None}}, {"mig": True}, "has no MIG"),
        ({}, {"power_limit_w": 500}, "takes 400 W at most"),
        (
            {"graphics_clock_mhz": None},
            {"graphics_clock_mhz": 1410, "memory_clock_mhz": 1593},
            "has no application clocks",
        ),
    ],
)
def test_what_cannot_be_set_is_refused(settings, wanted, says):
    with pytest.raises(AnsibleFilterError, match=says):
        nvidia_driver.FilterModule().filters()["nvidia_gpu_settings"](facts(**settings), wanted)


def test_mig_off_where_there_is_none_is_as_declared():
    plan = gpu_settings.plan(facts(mig={"current": None, "pending": None}), {"mig": False})
    assert plan == {"commands": [], "waits": []}


def test_a_gpu_whose_driver_is_not_loaded_is_left():
    unloaded = {"gpus": [{"pci": PCI, "name": None, "settings": None}]}
    assert gpu_settings.plan(unloaded, {"mig": True})["commands"] == []

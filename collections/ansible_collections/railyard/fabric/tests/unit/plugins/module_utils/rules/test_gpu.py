# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is reported about a node's GPUs: each rule on facts of two H100, with one thing changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu, xid
from ansible_collections.railyard.fabric.plugins.module_utils.rules.gpu_rows import Node

FIRST, SECOND = "0000:17:00.0", "0000:89:00.0"
ECC = "ecc.errors.uncorrected.volatile.total"
THROTTLE = "clocks_throttle_reasons."
ROW = {
    "name": "NVIDIA H100 80GB HBM3", "gpu_recovery_action": "None",
    ECC: 0, "ecc.errors.uncorrected.aggregate.total": 2, "ecc.errors.corrected.volatile.total": 3,
    "retired_pages.pending": None, "remapped_rows.pending": 0, "remapped_rows.failure": 0,
    THROTTLE + "hw_thermal_slowdown": "Not Active", THROTTLE + "hw_power_brake_slowdown": "Not Active",
    "temperature.gpu": 34, "temperature.gpu.tlimit": 53, "temperature.memory": 41,
    "power.draw": 71.5, "power.limit": 700.0, "power.default_limit": 700.0,
    "pcie.link.width.current": 16, "pcie.link.width.max": 16,
    "pcie.link.gen.current": 1, "pcie.link.gen.max": 5, "aer_correctable": 4,
}  # fmt: skip
LINKS = {
    "active": 18,
    "inactive": [],
    "speeds_gbytes_per_s": [26.562],
    "errors": {"replay": 1, "recovery": 0, "crc": 0},
}
HEALTHY: dict[str, Any] = {
    "pci": [FIRST, SECOND],
    "driver": "550.54.15",
    "rows": [{"pci": FIRST, "index": 0, **ROW}, {"pci": SECOND, "index": 1, **ROW}],
    "nvlink": [{"gpu": 0, **LINKS}, {"gpu": 1, **LINKS}],
    "topology": {"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}},
    "near": [
        {"nic": "0000:18:00.0", "by": "switch", "gpus": [FIRST]},
        {"nic": "0000:c1:00.0", "by": "far", "gpus": [FIRST, SECOND]},
    ],
    "xids": {"first": 0, "next": 9, "since_s": 0.0, "seen": []},
    "errors": {},
}
DECLARED = {"count": 2, "model": "H100", "driver": "550", "nvlinks": 18, "power_cap_w": 700}
CARDS = {"rail0": "0000:18:00.0", "rail1": "0000:c1:00.0", "rail2": None}


def ruled(check, change=None, declared=None, usual=None):
    seen = copy.deepcopy(HEALTHY)
    (change or (lambda _seen: None))(seen)
    return gpu.rule(check, Node("gpu1", DECLARED if declared is None else declared, usual or {}, CARDS), seen)


def second(**values):
    """Return a change of the second GPU's row; the names' dots are written as two underscores."""
    return lambda seen: seen["rows"][1].update(
        {key.replace("__", "."): value for key, value in values.items()}
    )


@pytest.mark.parametrize("check", gpu.CHECKS)
def test_a_healthy_node_passes_by_its_bounds_or_is_recorded(check):
    found = ruled(check)
    assert found.outcome == ("recorded" if check == "gpu_nic" else "pass")
    if found.outcome == "pass":
        assert found.proof == "proven"
        assert found.floor
        assert found.ceiling
        assert set(found.floor) <= set(found.observed)
    assert found.basis


#: What nvidia-smi prints (NVML_ERROR_LIB_RM_VERSION_MISMATCH of nvml.h).
MISMATCH = "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"


@pytest.mark.parametrize(
    ("check", "change", "cause", "said"),
    [
        ("gpu_count", lambda seen: seen["pci"].pop(), "gpu_missing", "1 NVIDIA GPUs on the PCI bus, 2"),
        ("gpu_count", lambda seen: seen["pci"].append("0000:aa:00.0"), "gpu_extra", "3 NVIDIA GPUs"),
        ("gpu_count", lambda seen: seen["rows"].pop(), "gpu_lost", f"{SECOND}: on the PCI bus, but"),
        ("gpu_count", lambda seen: seen.update(driver=None, rows=[]), "gpu_driver_missing", "is not loaded"),
        (
            "gpu_count",
            lambda seen: seen.update(rows=[], errors={"rows": {"class": "failed", "message": "GPU is lost"}}),
            "gpu_lost",
            "GPU is lost",
        ),
        (
            # After an update of the driver without a reboot: no GPU is at fault.
            "gpu_count",
            lambda seen: seen.update(rows=[], errors={"rows": {"class": "failed", "message": MISMATCH}}),
            "gpu_driver_differs",
            "reboot the node",
        ),
        ("gpu_kind", second(name="NVIDIA A100-SXM4-80GB"), "gpu_model_differs", "A100-SXM4-80GB, most"),
        ("gpu_kind", lambda seen: seen.update(driver="535.183.01"), "gpu_driver_differs", "'s is 550"),
        ("gpu_xid", second(gpu_recovery_action="Reset"), "gpu_xid", "asks for its recovery: Reset"),
        ("gpu_memory", second(**{ECC: 2}), "gpu_memory_bad", f"{SECOND}: 2 uncorrectable ECC errors"),
        ("gpu_memory", second(retired_pages__pending="Yes"), "gpu_memory_bad", "a page waits to be retired"),
        ("gpu_memory", second(remapped_rows__pending=1), "gpu_memory_bad", "a row waits to be remapped"),
        ("gpu_memory", second(remapped_rows__failure="Yes"), "gpu_memory_bad", "a row could not be remapped"),
        (
            "gpu_slowdown", second(clocks_throttle_reasons__hw_thermal_slowdown="Active"), "gpu_slowed",
            "slowed down by its temperature",
        ),
        (
            "gpu_slowdown", second(clocks_throttle_reasons__hw_power_brake_slowdown="Active"), "gpu_slowed",
            "power brake",
        ),
        ("gpu_slowdown", second(temperature__gpu__tlimit=0), "gpu_slowed", "0 °C below its own limit"),
        ("gpu_power", second(power__limit=500.0), "gpu_power_capped", "500 W, the inventory's 700"),
        ("gpu_pcie", second(pcie__link__width__current=8), "gpu_pcie_narrow", "8 lanes, 16 are possible"),
        (
            "gpu_nvlink", lambda seen: seen["nvlink"][1].update(active=17), "gpu_nvlink_down",
            f"{SECOND}: 17 NVLinks are active, 18 are declared",
        ),
        ("gpu_nvlink", lambda seen: seen.update(nvlink=[]), "gpu_nvlink_down", "0 NVLinks are active"),
        (
            "gpu_nvlink", lambda seen: seen["nvlink"][1].update(speeds_gbytes_per_s=[26.562, 13.281]),
            "gpu_nvlink_slow", "13.281 GB/s, 26.562 GB/s",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_fails(check, change, cause, said):
    found = ruled(check, change)
    assert (found.outcome, found.cause, said in found.detail) == ("fail", cause, True), found
    assert found.proof is None


@pytest.mark.parametrize(
    ("usual", "outcome"), [(("18", "18 on 7, 0 on 1"), "fail"), ((None, "18 on 1, 0 on 1"), "unmeasured")]
)
def test_a_node_all_of_whose_gpus_lost_their_nvlinks_is_found_by_its_peers(usual, outcome):
    declared = {"count": 2}
    assert ruled("gpu_nvlink", lambda seen: seen.update(nvlink=[]), declared).outcome == "recorded"
    found = ruled("gpu_nvlink", lambda seen: seen.update(nvlink=[]), declared, {"nvlinks": usual})
    assert (found.outcome, usual[1] in found.detail) == (outcome, True)
    assert ruled("gpu_nvlink", None, declared, {"nvlinks": ("18", usual[1])}).outcome == "recorded"


TROUBLE = ("[GPU is lost]", "[GPU requires reset]", "[Unknown Error]", "[Some new words]")


@pytest.mark.parametrize("words", TROUBLE)
@pytest.mark.parametrize(
    ("check", "key"),
    [
        ("gpu_kind", "name"),
        ("gpu_xid", "gpu_recovery_action"),
        ("gpu_memory", ECC),
        ("gpu_memory", "remapped_rows.failure"),
        ("gpu_slowdown", THROTTLE + "hw_thermal_slowdown"),
        ("gpu_slowdown", "temperature.gpu.tlimit"),
        ("gpu_power", "power.limit"),
        ("gpu_pcie", "pcie.link.width.current"),
        ("gpu_nvlink", "index"),
    ],
)
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_word_for_trouble_in_place_of_a_value_is_never_a_pass(check, key, words, everywhere):
    def change(seen):
        for row in seen["rows"][0 if everywhere else 1 :]:
            row[key] = words

    assert ruled(check, change).outcome in ("fail", "unmeasured")
    assert ruled(check, change, declared={}).outcome in ("fail", "unmeasured")


@pytest.mark.parametrize("words", ["[GPU is lost]", "[GPU requires reset]", "GPU requires reset"])
def test_a_gpu_that_says_that_it_cannot_be_used_fails(words):
    found = ruled("gpu_count", second(temperature__gpu=words, power__draw=words))
    assert (found.outcome, found.cause) == ("fail", "gpu_lost")
    assert f"{SECOND}: temperature.gpu and 1 more: {words.strip('[]')}" in found.detail
    assert ruled("gpu_count", second(temperature__gpu=words), declared={}).outcome == "fail"


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("gpu_memory", {ECC: "5"}),
        ("gpu_memory", {"retired_pages__pending": "Yes (1)"}),
        ("gpu_slowdown", {"clocks_throttle_reasons__hw_thermal_slowdown": "Active (83 %)"}),
    ],
)
def test_a_value_that_is_not_understood_is_unmeasured(check, changed):
    found = ruled(check, second(**changed))
    assert (found.outcome, found.cause) == ("unmeasured", "gpu_unknown")
    assert repr(str(next(iter(changed.values())))) in found.detail


def test_what_is_not_understood_hides_no_failure():
    def change(seen):
        seen["rows"][0][ECC] = 3
        seen["rows"][1][ECC] = "[Unknown Error]"

    assert ruled("gpu_memory", change).outcome == "fail"


@pytest.mark.parametrize("key", ["pci", "index"])
def test_a_gpu_or_an_index_that_is_there_twice_is_unmeasured(key):
    def change(seen):
        seen["rows"][1][key] = seen["rows"][0][key]

    assert ruled("gpu_memory", change).outcome == "unmeasured"


def hung(seen):
    why = {"class": "silent", "message": "nvidia-smi: no answer within 10 s"}
    seen.update(rows=[], nvlink=[], topology=None, errors=dict.fromkeys(("rows", "nvlink", "topology"), why))


@pytest.mark.parametrize("check", gpu.CHECKS[:-1])
def test_what_nvidia_smi_does_not_answer_is_unmeasured(check):
    found = ruled(check, hung)
    assert (found.outcome, found.cause, "no answer within 10 s" in found.detail) == (
        "unmeasured", "gpu_unknown", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("check", "change"),
    [
        (
            "gpu_memory",
            lambda seen: seen["errors"].update(remapped={"class": "garbled", "message": "no header"}),
        ),
        ("gpu_memory", second(**{ECC: None})),
        ("gpu_memory", second(remapped_rows__failure=None)),
        ("gpu_slowdown", second(clocks_throttle_reasons__hw_thermal_slowdown=None)),
        ("gpu_power", second(power__limit=None)),
        ("gpu_pcie", second(pcie__link__width__current=None)),
        ("gpu_nvlink", lambda seen: seen["errors"].update(nvlink={"class": "garbled", "message": "cut"})),
        ("gpu_nic", lambda seen: seen.update(near=[])),
        ("gpu_xid", lambda seen: seen.update(xids=None)),
    ],
)
def test_what_one_gpu_does_not_tell_is_unmeasured(check, change):
    assert ruled(check, change).outcome == "unmeasured"


@pytest.mark.parametrize(
    ("check", "key"),
    [("gpu_memory", ECC), ("gpu_pcie", "pcie.link.width.current"), ("gpu_power", "power.default_limit")],
)
def test_what_no_gpu_tells_is_recorded_and_no_pass(check, key):
    def change(seen):
        for row in seen["rows"]:
            row[key] = None

    assert ruled(check, change, {"count": 2}).outcome == "recorded"


def logged(*seen, first=0):
    always = {"pci": FIRST[:-2], "count": 2, "at_s": 1.0, "said": "words"}
    rows = [{"kind": kind, "xid": number, "fatal": fatal, **always} for kind, number, fatal in seen]
    return lambda facts: facts["xids"].update(seen=rows, first=first)


@pytest.mark.parametrize("number", [48, 64, 74, 79, 95, 119, 120, 154])
def test_an_xid_of_the_gpu_fails(number):
    found = ruled("gpu_xid", logged(("XID", 31, False), ("XID", number, False)))
    assert (found.outcome, found.cause) == ("fail", "gpu_xid")
    assert found.detail.startswith(
        f"gpu1 0000:17:00: XID {number} ({xid.CRITICAL[number]}), 2 times, last: words"
    )
    assert found.observed == {"critical_xids": 1, "other_xids": "XID 31 2 times"}


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 92, 94, 9999])
def test_an_xid_of_an_application_or_of_a_repair_is_reported(number):
    found = ruled("gpu_xid", logged(("XID", number, False)))
    assert (found.outcome, found.observed["other_xids"]) == ("pass", f"XID {number} 2 times")


def test_what_a_driver_calls_fatal_of_a_switch_or_of_nvlink_5_fails():
    assert ruled("gpu_xid", logged(("SXID", 20034, True))).outcome == "fail"
    assert ruled("gpu_xid", logged(("SXID", 12028, False))).outcome == "pass"
    assert ruled("gpu_xid", logged(("XID", 149, True))).outcome == "fail"
    assert ruled("gpu_xid", logged(("XID", 149, False))).outcome == "pass"


def test_a_log_without_its_beginning_is_recorded_and_still_fails_by_what_is_left():
    found = ruled("gpu_xid", logged(first=812))
    assert (found.outcome, found.observed["since_boot_s"]) == ("recorded", 0.0)
    assert ruled("gpu_xid", logged(("XID", 79, False), first=812)).outcome == "fail"


def test_without_a_declaration_peers_are_compared():
    count = {"count": 2}
    assert ruled("gpu_kind", None, count).outcome == "recorded"
    usual = {"driver": ("535.183.01", "535.183.01 on 3, 550.54.15 on 1")}
    found = ruled("gpu_kind", None, count, usual)
    assert (found.outcome, found.cause) == ("fail", "gpu_driver_differs")
    assert found.detail.endswith("of the nodes that are declared alike: 535.183.01 on 3, 550.54.15 on 1")
    # Where no driver is that of most nodes, none of them is right.
    assert ruled("gpu_kind", None, count, {"driver": (None, "two kinds")}).outcome == "fail"
    assert ruled("gpu_nvlink", None, count).outcome == "recorded"
    assert ruled("gpu_nvlink", lambda seen: seen["nvlink"].pop(), count).cause == "gpu_nvlink_down"
    assert ruled("gpu_power", None, count).outcome == "pass"
    assert ruled("gpu_power", second(power__limit=699.0), count).cause == "gpu_power_capped"


@pytest.mark.parametrize(
    ("key", "declared", "fits"),
    [
        ("model", "NVIDIA H100 80GB HBM3", True),
        ("model", "h100", True),
        ("model", "H200", False),
        ("model", "H10", False),
        ("driver", "550.54.15", True),
        ("driver", "55", False),
        ("driver", "550.90", False),
    ],
)
def test_what_is_declared_need_not_be_the_full_name(key, declared, fits):
    assert (ruled("gpu_kind", None, {**DECLARED, key: declared}).outcome == "pass") is fits


def test_a_card_that_is_far_from_every_gpu_is_reported():
    found = ruled("gpu_nic")
    assert found.observed == {"rail0": f"{FIRST} (switch)", "rail1": f"{FIRST}, {SECOND} (far)"}
    assert "rail1: no GPU is on its NUMA node" in found.basis
    assert "of rail2 the kernel does not tell" in found.basis


def test_of_a_node_without_gpus_only_their_number_is_checked():
    assert gpu.checks({"count": 0}) == ("gpu_count",)
    nothing = {**HEALTHY, "pci": [], "rows": [], "driver": None}
    assert gpu.rule("gpu_count", Node("gpu1", {"count": 0}, {}, {}), nothing).outcome == "pass"
    assert ruled("gpu_count", None, {"count": 0}).cause == "gpu_extra"

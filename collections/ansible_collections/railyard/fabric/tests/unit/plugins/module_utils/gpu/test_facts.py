# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's GPUs and driver are read from trees that are written by hand; nothing here is a capture."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import facts as gpu_facts
from support.nodes.gpu_node import (
    CSV,
    KERNEL,
    OPEN_580,
    PROPRIETARY_535,
    V100_ROW,
    GpuNode,
)

EFI = "sys/firmware/efi/efivars/"
SECURE_BOOT = EFI + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM = EFI + "MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"


@pytest.fixture
def node(tmp_path):
    return GpuNode(tmp_path)


@pytest.fixture
def two(node):
    """An A100 and a V100, beside an audio function of NVIDIA's and the display of another maker."""
    node.function("0000:17:00.0", 0x20B2)
    node.function("0000:89:00.0", 0x1DB1)
    node.function("0000:17:00.1", 0x1AEF, kind="0x040300")
    node.function("0000:03:00.0", 0x2000, kind="0x030000", vendor=0x1A03)
    return node


def test_gpus_are_nvidias_display_controllers(two):
    facts = two.facts()
    assert [(gpu["pci"], gpu["pci_id"], gpu["generation"]) for gpu in facts["gpus"]] == [
        ("0000:17:00.0", "10de:20b2", "Ampere"),
        ("0000:89:00.0", "10de:1db1", "Volta"),
    ]
    assert facts["generations"] == ["Ampere", "Volta"]
    assert facts["gpus"][1]["flavours"] == ["proprietary"]
    assert facts["gpus"][0]["numa_node"] == 1
    assert facts["nvswitch"] is False


def test_a_node_without_gpus_has_nothing(node):
    facts = node.facts()
    assert facts["gpus"] == []
    assert facts["driver"] == {
        "installed": [],
        "loaded": None,
        "loaded_flavour": None,
        "pending": False,
        "pending_why": None,
        "stack": [],
    }
    assert facts["warnings"] == []


@pytest.mark.parametrize(
    ("device", "kind", "switches", "gpus"),
    [
        (0x22A3, "0x068000", ["0000:c1:00.0"], 0),  # a bridge of NVIDIA's
        (0x2901, "0x030200", [], 1),  # those of HGX B200 are known by its GPUs
    ],
)
def test_nvswitches(node, device, kind, switches, gpus):
    node.function("0000:c1:00.0", device, kind=kind)
    facts = node.facts()
    assert (facts["nvswitch"], facts["nvswitches"], len(facts["gpus"])) == (True, switches, gpus)


def test_the_class_of_ib_umad_tells_that_it_is_there(node):
    assert node.facts()["umad"] is False
    (node.root / "sys/class/infiniband_mad").mkdir(parents=True)
    assert node.facts()["umad"] is True


def test_an_unknown_device_has_no_generation_and_is_there(node):
    node.function("0000:01:00.0", 0x3021)
    facts = node.facts()
    assert (facts["gpus"][0]["generation"], facts["gpus"][0]["flavours"]) == (None, [])


@pytest.mark.parametrize(
    ("version", "loaded", "licence", "flavour", "more"),
    [
        ("535.183.01", PROPRIETARY_535, "NVIDIA", "proprietary", {"name": "nvidia-current.ko"}),
        (
            "580.95.05",
            OPEN_580,
            "Dual MIT/GPL",
            "open",
            {"name": "nvidia.ko.zst", "signer": "DKMS module key"},
        ),
    ],
)
def test_loaded_and_installed_agree(two, version, loaded, licence, flavour, more):
    two.load(version, loaded)
    two.install(version, licence, **more)
    driver = two.facts()["driver"]
    assert (driver["loaded"], driver["loaded_flavour"], driver["pending"]) == (version, flavour, False)
    (installed,) = driver["installed"]
    assert (installed["version"], installed["flavour"]) == (version, flavour)
    assert (installed["signer"] or None) == more.get("signer")


@pytest.mark.parametrize(
    ("loaded", "text", "installed", "kernel", "why"),
    [
        (
            "535.183.01",
            PROPRIETARY_535,
            "580.95.05",
            KERNEL,
            "535.183.01 is loaded, 580.95.05 is installed for the running kernel",
        ),
        ("580.95.05", OPEN_580, "580.95.05", KERNEL, "loaded as open module, and installed as proprietary"),
        (
            "535.183.01",
            PROPRIETARY_535,
            "535.183.01",
            "6.1.0-29-amd64",
            f"535.183.01 is loaded, but no NVIDIA module is installed for the running kernel {KERNEL}",
        ),
    ],
    ids=["an older one", "the other modules", "for another kernel"],
)
def test_what_is_not_loaded_as_installed_waits_for_a_reboot(two, loaded, text, installed, kernel, why):
    two.load(loaded, text)
    two.install(installed, "NVIDIA", kernel=kernel)
    driver = two.facts()["driver"]
    assert driver["pending"] is True
    assert why in driver["pending_why"]


def test_a_module_of_unknown_version_lets_no_node_wait_for_a_reboot(two):
    two.load("535.183.01", PROPRIETARY_535)
    two.answers["nvidia-smi"] = CSV
    path = two.install("580.95.05", "NVIDIA")
    two.modinfo.clear()
    facts = two.facts()
    assert (facts["driver"]["pending"], facts["driver"]["pending_why"]) == (False, None)
    assert facts["warnings"] == [f"{path}: modinfo reports no version"]


def test_nouveau_with_an_installed_driver_is_pending_and_without_one_is_not(two):
    (two.root / "sys/module/nouveau").mkdir(parents=True)
    facts = two.facts()
    assert (facts["nouveau"], facts["driver"]["pending"]) == (True, False)
    two.install("580.95.05", "NVIDIA")
    assert two.facts()["driver"]["pending_why"].startswith("Nouveau is loaded")


def test_each_kernel_has_its_module_and_headers_are_seen(two):
    two.install("535.183.01", "NVIDIA", kernel=KERNEL)
    two.write("lib/modules/6.1.0-29-amd64/modules.dep", "kernel/fs/ext4.ko:")
    facts = two.facts()
    assert facts["kernels"] == [
        {"kernel": KERNEL, "headers": True},
        {"kernel": "6.1.0-29-amd64", "headers": False},
    ]
    assert [one["kernel"] for one in facts["driver"]["installed"]] == [KERNEL]


def test_the_kernel_that_boots_next_and_the_headers_that_it_lacks_are_reported(two):
    two.install("535.183.01", "NVIDIA", kernel=KERNEL)
    two.write("boot/vmlinuz-6.1.0-29-amd64", "")
    two.answers["dpkg-query"] = "RAILYARD linux-image-amd64 install installed 6.1.159-1\n"
    facts = two.facts()
    assert (facts["next_kernel"], facts["headers_missing"]) == (
        "6.1.0-29-amd64",
        ["linux-headers-6.1.0-29-amd64"],
    )
    assert (facts["kernel_packages"], facts["headers_to_follow"]) == (
        ["linux-image-amd64"],
        ["linux-headers-amd64"],
    )


def test_nvidia_smi_is_not_queried_while_the_module_is_not_loaded(two):
    two.install("535.183.01", "NVIDIA")
    two.answers["nvidia-smi"] = CSV
    facts = two.facts()
    assert not [argv for argv in two.asked if argv[0] == "nvidia-smi"]
    assert facts["gpus"][0]["settings"] is None


def test_what_is_set_on_a_gpu_is_read_back(two):
    two.load("535.183.01", PROPRIETARY_535)
    two.answers["nvidia-smi"] = CSV
    first, second = two.facts()["gpus"]
    assert first["name"] == "NVIDIA A100-SXM4-80GB"
    assert first["uuid"] == "GPU-0a1b2c3d-0000-1111-2222-333344445555"
    settings = first["settings"]
    assert settings["mig"] == {"current": True, "pending": False}
    assert settings["ecc"] == {"current": True, "pending": True}
    assert (settings["power_limit_w"], settings["power_default_w"]) == (350.0, 400.0)
    assert (settings["graphics_clock_mhz"], settings["graphics_clock_max_mhz"]) == (1275, 1410)
    assert second["settings"]["mig"] == {"current": None, "pending": None}
    assert second["settings"]["ecc"] == {"current": False, "pending": True}
    assert second["settings"]["graphics_clock_mhz"] is None
    assert (first["settings"]["persistence"], second["settings"]["persistence"]) == (True, False)


def test_a_field_that_this_version_lacks_costs_only_the_settings(two):
    two.load("535.183.01", PROPRIETARY_535)
    short = ", ".join(CSV.splitlines()[0].split(", ")[:7]) + "\n"

    def run(argv):
        if argv[0] != "nvidia-smi":
            return two.run(argv)
        if "mig.mode" in argv[1]:
            return 'Field "mig.mode.current" is not a valid field to query.\n'
        return short + ", ".join(V100_ROW.split(", ")[:7]) + "\n"

    facts = gpu_facts.collect(two.reader(), run, str(two.root))
    assert facts["gpus"][1]["settings"]["power_limit_w"] == 300.0
    assert facts["gpus"][1]["settings"]["ecc"] == {"current": None, "pending": None}
    assert facts["warnings"] == []


MISMATCH = "Driver/library version mismatch"


@pytest.mark.parametrize(
    ("answers", "warned"),
    [
        ({"nvidia-smi": f"Failed to initialize NVML: {MISMATCH}\n"}, MISMATCH),
        ({}, "nvidia-smi: not found"),
    ],
)
def test_trouble_of_nvidia_smi_is_a_warning(two, answers, warned):
    two.load("535.183.01", PROPRIETARY_535)
    two.answers.update(answers)
    facts = two.facts()
    assert warned in facts["warnings"][0]
    assert facts["gpus"][0]["settings"] is None


def test_the_kernel_module_tells_name_and_uuid_by_itself(two):
    two.load("535.183.01", PROPRIETARY_535)
    two.write(
        "proc/driver/nvidia/gpus/0000:89:00.0/information",
        "Model: \t\t Tesla V100-SXM2-16GB\nIRQ:   \t\t 120\n"
        "GPU UUID: \t GPU-????????-????-????-????-????????????",
    )
    gpu = two.facts()["gpus"][1]
    assert (gpu["name"], gpu["uuid"]) == ("Tesla V100-SXM2-16GB", None)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({SECURE_BOOT: b"\x06\0\0\0\x01"}, True),
        ({SECURE_BOOT: b"\x06\0\0\0\x00"}, False),
        ({SECURE_BOOT: b"\x06\0\0\0\x01", SHIM: b"\x06\0\0\0\x01"}, False),
        ({SECURE_BOOT: b"\x06\0\0\0\x01", SHIM: b"\x06\0\0\0\x00"}, True),
        ({SECURE_BOOT: b"\x06\0"}, None),
    ],
)
def test_secure_boot_by_efi(node, variables, expected):
    (node.root / EFI).mkdir(parents=True)
    for name, value in variables.items():
        (node.root / name).write_bytes(value)
    assert gpu_facts.secure_boot(node.reader()) is expected


def test_a_node_without_efi_has_no_secure_boot(node):
    assert gpu_facts.secure_boot(node.reader()) is False


def test_a_module_is_used_when_it_has_more_users_than_modules_on_top(node):
    for name, users, holders in (
        ("nvidia", 3, ("nvidia_uvm", "nvidia_modeset")),
        ("nvidia_uvm", 0, ()),
        ("nvidia_modeset", 0, ()),
    ):
        node.write(f"sys/module/{name}/refcnt", str(users))
        (node.root / f"sys/module/{name}/holders").mkdir()
        for holder in holders:
            node.write(f"sys/module/{name}/holders/{holder}", "")
    assert node.facts()["driver"]["stack"] == [
        {"name": "nvidia_modeset", "used": False},
        {"name": "nvidia_uvm", "used": False},
        {"name": "nvidia", "used": True},
    ]


def test_services_that_systemd_knows(node):
    node.answers["systemctl"] = (
        "Id=nvidia-persistenced.service\nLoadState=loaded\nActiveState=active\nUnitFileState=static\n\n"
        "Id=nvidia-dcgm.service\nLoadState=loaded\nActiveState=failed\nUnitFileState=disabled\n\n"
        "Id=nvidia-imex.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n"
    )
    assert node.facts()["services"] == {
        "nvidia-dcgm": {"active": False, "at_boot": False},
        "nvidia-persistenced": {"active": True, "at_boot": True},
    }


# As `systemctl cat` prints it on Ubuntu 22.04 nodes in public reports; the last is Debian 12's, of package
# nvidia-persistenced.
UBUNTU_UNIT = """\
[Unit]
Description=NVIDIA Persistence Daemon
Wants=syslog.target
StopWhenUnneeded=true
Before=systemd-backlight@backlight:nvidia_0.service

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced
"""
CONTINUED_UNIT = (
    "[Service]\nExecStart=/usr/bin/nvidia-persistenced \\\n    --no-persistence-mode \\\n    --verbose\n"
)
DEBIAN_UNIT = "[Service]\nType=forking\nExecStart=/usr/bin/nvidia-persistenced --user nvpd\n"


@pytest.mark.parametrize(
    ("unit", "command"),
    [
        (UBUNTU_UNIT, "/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose"),
        (CONTINUED_UNIT, "/usr/bin/nvidia-persistenced --verbose"),
        (DEBIAN_UNIT, None),
        ("# ExecStart=/usr/bin/nvidia-persistenced --no-persistence-mode\n[Service]\n", None),
        ("", None),
        (None, None),
    ],
)
def test_a_packaged_unit_that_keeps_the_mode_off_is_known_by_its_option(node, unit, command):
    path = "/lib/systemd/system/nvidia-persistenced.service"
    node.answers["systemctl"] = (
        "Id=nvidia-persistenced.service\nLoadState=loaded\nActiveState=active\nUnitFileState=static\n"
        f"FragmentPath={path if unit is not None else ''}\n"
    )
    if unit is not None:
        node.write(path[1:], unit)
    # A drop-in is not looked at: with Railyard's in its place the unit still needs it.
    dropped = "etc/systemd/system/nvidia-persistenced.service.d/60-railyard-persistence.conf"
    node.write(dropped, "[Service]\nExecStart=\nExecStart=/usr/bin/nvidia-persistenced\n")
    assert node.facts()["persistence_exec_start"] == command


def test_a_unit_that_cannot_be_read_needs_nothing(node):
    node.answers["systemctl"] = (
        "Id=nvidia-persistenced.service\nLoadState=loaded\nFragmentPath=/gone.service\n"
    )
    assert node.facts()["persistence_exec_start"] is None


def test_where_systemd_does_not_answer_there_are_no_services(node):
    node.answers["systemctl"] = (
        "System has not been booted with systemd as init system (PID 1). Can't operate."
    )
    assert node.facts()["services"] == {}

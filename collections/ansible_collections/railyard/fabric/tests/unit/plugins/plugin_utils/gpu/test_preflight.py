# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What blocks an installation on a node, which kernels lack the module, and what waits."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.filter import nvidia_driver
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import preflight

KERNEL = "6.1.0-28-amd64"
CHOICE = {
    "refusals": [],
    "findings": [],
    "branch": 580,
    "flavour": "open",
    "driver_packages": ["nvidia-kernel-open-dkms"],
    "same_version_packages": [],
    "other_packages": [],
}
GIB = 1 << 30


def node(**facts):
    return {
        "kernel": KERNEL,
        "kernels": [{"kernel": KERNEL, "headers": True}],
        "gpus": [{"pci": "0000:17:00.0"}],
        "driver": {"installed": [], "loaded": None, "pending": False, "pending_why": None},
        "nouveau": False,
        "secure_boot": False,
        "packages": {},
        "archives": [],
        "run_installer": {"files": [], "log": None},
        "free_bytes": {"/usr": 20 * GIB, "/var": 20 * GIB},
        **facts,
    }


def module(version="580.95.05", flavour="open", kernel=KERNEL, signer=None):
    return {
        "kernel": kernel,
        "version": version,
        "flavour": flavour,
        "signer": signer,
        "path": f"/lib/modules/{kernel}/updates/dkms/nvidia.ko",
    }


def driver(*installed, loaded=None, why=None):
    return {"installed": list(installed), "loaded": loaded, "pending": why is not None, "pending_why": why}


def refused(facts, **also):
    found = preflight.refusals(facts, CHOICE, "vendor", {"/usr": 3 * GIB}, {}, False, **also)
    return [(one["code"], one["text"]) for one in found]


def test_a_clean_node_is_not_refused():
    assert refused(node()) == []


def test_the_choices_own_refusals_come_first():
    choice = {**CHOICE, "refusals": [{"code": "flavour", "text": "x"}]}
    facts = node(run_installer={"files": ["/usr/bin/nvidia-uninstall"], "log": None})
    codes = [one["code"] for one in preflight.refusals(facts, choice, "vendor", {}, {}, False)]
    assert codes == ["flavour", "run_installer"]


def test_a_package_held_at_this_branch_is_as_it_should_be():
    assert refused(node(packages={"nvidia-kernel-open-dkms": {"version": "580.95.05-1", "held": True}})) == []


def test_module_libraries_and_fabric_manager_are_of_one_version():
    packages = {
        "libcuda1": {"version": "580.95.05-1", "held": True},
        "nvidia-fabricmanager-580": {"version": "580.82.07-1", "held": False},
        "nvidia-persistenced": {"version": "570.1.1-1", "held": False},
    }
    choice = {**CHOICE, "same_version_packages": ["nvidia-fabricmanager-580"]}
    good = node(packages=packages, driver=driver(module()))
    assert preflight.version_differences(good, CHOICE) == []
    assert preflight.version_differences(good, choice) == [
        "nvidia-fabricmanager-580 is 580.82.07, libcuda1 is 580.95.05"
    ]
    other = node(packages=packages, driver=driver(module(version="580.82.07")))
    assert preflight.version_differences(other, CHOICE) == ["the module is 580.82.07, libcuda1 is 580.95.05"]


def test_too_little_room_only_where_something_is_to_be_installed():
    facts = node(free_bytes={"/usr": GIB})
    [(code, text)] = refused(facts)
    assert (code, "1.0 GiB free" in text, "needs 3.0 GiB" in text) == ("no_room", True, True)
    facts["packages"] = {"nvidia-kernel-open-dkms": {"version": "580.95.05-1", "held": False}}
    assert refused(facts) == []


def test_nouveau_is_a_finding_and_no_refusal():
    facts = node(nouveau=True)
    assert refused(facts) == []
    assert [one["code"] for one in preflight.findings(facts, CHOICE)] == ["nouveau"]


PREBUILT = {
    **module(signer="Canonical Ltd. Kernel Module Signing"),
    "path": "/lib/modules/x/kernel/nvidia-580/nvidia.ko",
}


@pytest.mark.parametrize(
    "installed",
    [[], [module()], [PREBUILT], [module(kernel="6.1.0-29-amd64", signer="DKMS module signing key")]],
    ids=["nothing", "unsigned", "the distribution's", "another kernel's"],
)
def test_a_module_that_secure_boot_would_not_load_is_refused_until_the_key_is_enrolled(installed):
    facts = node(secure_boot=True, driver=driver(*installed))
    ((code, text),) = refused(facts)
    assert code == "secure_boot"
    assert "mokutil --import" in text
    assert "nvidia_driver_secure_boot_key_enrolled: true" in text
    assert refused(facts, key_enrolled=True) == []
    assert refused({**facts, "secure_boot": False}) == refused({**facts, "secure_boot": None}) == []


def test_a_signed_build_needs_no_word_but_is_reported():
    facts = node(secure_boot=True, driver=driver(module(signer="DKMS module signing key")))
    assert refused(facts) == []
    assert [one["code"] for one in preflight.findings(facts, CHOICE)] == ["secure_boot"]


def test_what_was_built_and_no_one_signed_is_a_fault():
    built = driver(module(signer="key"), module(kernel="6.1.0-29-amd64"), module(version="535.1.1"))
    facts = node(secure_boot=True, driver=built)
    (said,) = preflight.unsigned(facts, CHOICE, True)
    assert "kernel 6.1.0-29-amd64 is not signed, and Secure Boot is on" in said
    assert (
        preflight.unsigned(facts, CHOICE, False)
        == preflight.unsigned({**facts, "secure_boot": None}, CHOICE, True)
        == []
    )


def test_unknown_secure_boot_is_reported():
    found = preflight.findings(node(secure_boot=None), CHOICE)
    assert [one["code"] for one in found] == ["secure_boot_unknown"]


@pytest.mark.parametrize(
    ("installed", "says"),
    [
        ([module()], None),
        ([], "DKMS built no module"),
        ([module(version="535.183.01")], "it has 535.183.01, not branch 580"),
        ([module(flavour="proprietary")], "is not the open one"),
    ],
)
def test_a_kernel_with_headers_must_have_the_module(installed, says):
    missing = preflight.unbuilt_kernels(node(driver=driver(*installed)), CHOICE, True)
    if says is None:
        assert missing == []
    else:
        assert [one["kernel"] for one in missing] == [KERNEL]
        assert says in missing[0]["why"]


def test_the_running_kernel_counts_without_headers_and_others_do_not():
    facts = node(
        kernels=[{"kernel": KERNEL, "headers": False}, {"kernel": "6.1.0-29-amd64", "headers": False}]
    )
    missing = preflight.unbuilt_kernels(facts, CHOICE, True)
    assert [one["kernel"] for one in missing] == [KERNEL]
    assert f"install linux-headers-{KERNEL}" in missing[0]["why"]


def test_the_kernel_that_boots_next_counts_without_headers_too():
    kernels = [{"kernel": KERNEL, "headers": True}, {"kernel": "6.1.0-29-amd64", "headers": False}]
    facts = node(kernels=kernels, next_kernel="6.1.0-29-amd64", driver=driver(module()))
    (missing,) = preflight.unbuilt_kernels(facts, CHOICE, True)
    assert missing["kernel"] == "6.1.0-29-amd64"
    assert missing["why"].endswith("(this one boots next)")
    assert preflight.unbuilt_kernels(facts, CHOICE, False) == []
    assert preflight.unbuilt_kernels({**facts, "next_kernel": KERNEL}, CHOICE, True) == []


def test_in_a_container_the_running_kernel_is_its_hosts():
    facts = node(kernel="6.18.0-host", driver=driver(module()))
    assert preflight.unbuilt_kernels(facts, CHOICE, False) == []
    assert [one["kernel"] for one in preflight.unbuilt_kernels(facts, CHOICE, True)] == ["6.18.0-host"]


def test_what_is_pending_waits_for_a_reboot():
    why = "535.183.01 is loaded, 580.95.05 is installed for the running kernel"
    facts = node(driver=driver(module(), loaded="535.183.01", why=why))
    assert preflight.waits(facts, True) == [{"what": "NVIDIA driver", "why": why, "needs": "reboot"}]


def test_what_is_installed_and_not_loaded_waits_for_confirmation_but_in_a_container():
    facts = node(driver=driver(module()))
    assert [one["needs"] for one in preflight.waits(facts, True)] == ["module_restart"]
    assert preflight.waits(facts, False) == []
    assert preflight.waits(node(driver=driver(module(), loaded="580.95.05")), True) == []


def test_the_filters_say_what_is_no_number():
    filters = nvidia_driver.FilterModule().filters()
    layout = {"name": "x", "default_branch": 580, "packages": []}
    facts = node(gpus=[{"pci": "0", "pci_id": "10de:1db1", "generation": "Volta"}])
    with pytest.raises(AnsibleFilterError, match="nvidia_driver_branch is a number"):
        filters["nvidia_driver_choice"](facts, {"branch": "latest"}, layout)
    both = filters["nvidia_driver_preflight"](node(nouveau=True), CHOICE, "vendor", {}, {})
    assert (both["refusals"], [one["code"] for one in both["findings"]]) == ([], ["nouveau"])
    assert filters["nvidia_driver_outcome"](node(driver=driver(module(), loaded="580.95.05")), CHOICE) == {
        "unbuilt": [],
        "differences": [],
        "waits": [],
    }


def test_what_the_node_has_below_the_minimum_is_a_finding_and_no_refusal():
    old = {"version": "1:4.2.3-2", "held": False}
    facts = node(
        driver=driver(loaded="535.261.03"),
        packages={
            "datacenter-gpu-manager": old,
            "nvidia-container-toolkit": {"version": "1.17.8-1", "held": False},
        },
    )
    assert "below_minimum" not in [one["code"] for one in refused(facts)]
    texts = [one["text"] for one in preflight.findings(facts, CHOICE) if one["code"] == "below_minimum"]
    assert ["NVIDIA driver 535.261.03" in texts[0], "DCGM 4.2.3" in texts[1], len(texts)] == [True, True, 2]
    fine = node(driver=driver(loaded="550.54.15"), packages={})
    assert [one for one in preflight.findings(fine, CHOICE) if one["code"] == "below_minimum"] == []

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others installed is refused, or with confirmation replaced by a plan that names every package."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import replace as replacing
from support.captures import shows

DEBIAN = {
    "branch": 535,
    "driver_packages": ["nvidia-kernel-dkms", "libcuda1", "nvidia-smi"],
    "same_version_packages": [],
    "other_packages": [],
}
UBUNTU = {**DEBIAN, "branch": 580, "driver_packages": ["nvidia-headless-580-server"]}
OPEN_580 = {**DEBIAN, "branch": 580, "driver_packages": ["nvidia-kernel-open-dkms"]}
PPA = {"file": "/f.list", "kind": "ppa", "ours": False, "alone": True, "sites": ["ppa.example"]}
UNINSTALLER = "/usr/bin/nvidia-uninstall"


def package(version, archive=None, offered=None, held=False):
    return {"version": version, "held": held, "archive": archive, "offered": offered}


def node(packages=None, archives=(), files=(), loaded=None):
    return {
        "driver": {"loaded": loaded},
        "packages": packages or {},
        "archives": list(archives),
        "run_installer": {"files": list(files), "log": None},
    }


def refused(facts, choice=None, source="distribution", pins=None, replace=False, uninstall_run=False):
    found = replacing.refusals(facts, choice or DEBIAN, source, pins or {}, replace, uninstall_run)
    return [(one["code"], one["text"]) for one in found]


def planned(facts, choice=None, source="distribution", **consents):
    return replacing.plan(
        facts, choice or DEBIAN, source, consents.get("replace", True), consents.get("run", False)
    )


def test_a_run_installation_is_never_installed_over():
    [(code, text)] = refused(node(files=[UNINSTALLER]))
    assert code == "run_installer"
    assert "nvidia-uninstall` on the node" in text
    assert "nvidia_driver_uninstall_run: true" in text
    # Confirming to replace packages does not confirm to run another's program.
    assert refused(node(files=[UNINSTALLER]), replace=True) != []


def test_a_run_installation_is_uninstalled_by_its_own_program_only():
    assert refused(node(files=[UNINSTALLER, "/usr/bin/nvidia-smi"]), uninstall_run=True) == []
    [(_code, text)] = refused(node(files=["/usr/bin/nvidia-smi"]), uninstall_run=True)
    assert "is not there to remove it" in text
    assert planned(node(files=["/usr/bin/nvidia-smi"]), run=True)["uninstall"] == []


def test_the_uninstaller_does_not_unload_what_is_loaded():
    idle = planned(node(files=[UNINSTALLER]), replace=False, run=True)
    assert (idle["uninstall"], idle["any"]) == ([UNINSTALLER, "--silent"], True)
    busy = planned(node(files=[UNINSTALLER], loaded="550.1"), run=True)
    assert busy["uninstall"] == [UNINSTALLER, "--silent", "--skip-module-unload"]


def test_a_log_alone_is_history():
    facts = node()
    facts["run_installer"]["log"] = "/var/log/nvidia-installer.log"
    assert refused(facts) == []


@pytest.mark.parametrize(
    ("kind", "ours", "source", "is_refused"),
    [
        ("ppa", False, "distribution", True),
        ("ppa", False, "vendor", True),
        ("vendor", False, "distribution", True),
        ("vendor", False, "vendor", False),
        ("vendor", True, "distribution", True),
    ],
)
def test_archives_that_would_mix(kind, ours, source, is_refused):
    archive = {**PPA, "kind": kind, "ours": ours}
    assert bool(refused(node(archives=[archive]), source=source)) == is_refused
    assert refused(node(archives=[archive]), source=source, replace=True) == []
    plan = planned(node(archives=[archive]), source=source)
    assert plan["aside"] == (["/f.list"] if is_refused and not ours else [])
    assert plan["withdraw"] == (is_refused and ours)


def test_a_file_that_names_other_archives_too_is_not_put_aside():
    archive = {**PPA, "alone": False}
    [(code, text)] = refused(node(archives=[archive]), replace=True)
    assert (code, "names other archives as well" in text) == ("mixed_archives", True)
    assert planned(node(archives=[archive]))["aside"] == []


def test_a_driver_of_another_branch_is_moved_on_request_only():
    facts = node({"nvidia-dkms-535": package("535.183.01-0ubuntu1", held=True)})
    [(code, text)] = refused(facts, UBUNTU)
    assert code == "other_branch"
    assert "nvidia-dkms-535 535.183.01-0ubuntu1 (held)" in text
    assert "nvidia_driver_branch: 535 to stay" in text
    assert refused(facts, UBUNTU, replace=True) == []
    plan = planned(facts, UBUNTU)
    assert (plan["remove"], plan["release"]) == (["nvidia-dkms-535"], ["nvidia-dkms-535"])
    assert plan["says"] == ["removed: nvidia-dkms-535 535.183.01-0ubuntu1"]


def test_a_package_whose_name_stays_is_moved_by_its_version_only():
    facts = node({"nvidia-kernel-open-dkms": package("570.86.10-1")})
    [(code, text)] = refused(facts, OPEN_580, replace=True)
    assert (code, "nvidia_driver_pins" in text) == ("pin_needed", True)
    assert refused(facts, OPEN_580, pins={"nvidia-kernel-open-dkms": "580.95.05-1"}, replace=True) == []
    assert planned(facts, OPEN_580)["remove"] == []


def test_what_the_distribution_has_is_moved_to_it_and_the_rest_is_removed():
    packages = {
        "nvidia-smi": package("570.1.1-0u1", "ppa", "535.261.03-1"),
        "libnvidia-ml1": package("570.1.1-0u1", "ppa", "535.261.03-1", held=True),
        "nvidia-dkms-570": package("570.1.1-0u1", "ppa"),
        "libnvidia-compute-570": package("570.1.1-0u1", "ppa", "570.0.9-0ubuntu1"),
        "xserver-xorg-video-nvidia-570": package("570.1.1-0u1", "ppa"),
        "cuda-toolkit-12-8": package("12.8.1-1", "vendor"),
        "nvidia-persistenced": package("535.171.04-1", None, "535.171.04-1"),
    }
    facts = node(packages, [PPA])
    assert refused(facts, replace=True) == []
    plan = planned(facts)
    assert plan["move"] == {"libnvidia-ml1": "535.261.03-1", "nvidia-smi": "535.261.03-1"}
    assert plan["remove"] == ["libnvidia-compute-570", "nvidia-dkms-570", "xserver-xorg-video-nvidia-570"]
    shows(plan, release=["libnvidia-ml1"], aside=["/f.list"], sites=["ppa.example"])
    assert replacing.left(facts, "distribution") != []


def test_what_the_distribution_has_in_another_branch_only_is_not_moved_blindly():
    facts = node({"libcuda1": package("570.1.1-0u1", "ppa", "550.163.01-1")}, [PPA])
    [(code, text)] = refused(facts, replace=True)
    assert (code, "libcuda1" in text) == ("pin_needed", True)


def test_packages_of_our_own_vendor_source_are_reported_when_the_source_changes():
    ours = {**PPA, "kind": "vendor", "ours": True}
    facts = node({"libcuda1": package("535.9.9-1", "vendor", "535.261.03-1")}, [ours])
    assert [code for code, _text in refused(facts)] == ["mixed_archives"]
    assert planned(facts)["move"] == {"libcuda1": "535.261.03-1"}
    assert refused(facts, source="vendor") == []


@pytest.mark.parametrize("name", ["nvidia-modprobe", "nvidia-persistenced", "nvidia-cuda-toolkit"])
def test_what_has_versions_of_its_own_is_no_driver_of_another_branch(name):
    facts = node({name: package("570.133.07-1")})
    assert refused(facts) == []
    assert not planned(facts)["any"]


@pytest.mark.parametrize(
    ("version", "branch"),
    [("535.183.01-1~deb12u1", 535), ("1:580.95.05-0ubuntu1", 580), ("12.4", None), ("", None)],
)
def test_the_branch_of_a_version(version, branch):
    assert replacing.branch_of(version) == branch

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver a node gets, or why none: the answers are those of NVIDIA's support tables, not of our own."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.choice import choose

DEVICES = {
    "V100": (0x1DB1, "Volta"),
    "A100": (0x20B2, "Ampere"),
    "H100": (0x2330, "Hopper"),
    "GH200": (0x2342, "Hopper"),
    "B200": (0x2901, "Blackwell"),
    "B300": (0x3182, "Blackwell"),
    "K80": (0x102D, "Kepler"),
}
VENDOR = {
    "name": "NVIDIA's repository",
    "branches": [],
    "default_branch": 595,
    "packages": [
        {
            "first_branch": 0,
            "last_branch": 589,
            "open": ["dkms-{branch}-open"],
            "proprietary": ["dkms-{branch}"],
        },
        {"first_branch": 590, "open": ["dkms-open"], "proprietary": ["dkms"]},
    ],
    "fabric_manager": ["fabricmanager-{branch}"],
    "subnet_manager": ["nvlsm"],
    "imex": ["imex-{branch}"],
    "gds": ["gds"],
    "dcgm": ["dcgm"],
    "cuda": {"packages": ["cuda-toolkit-{cuda}"]},
}
DEBIAN = {
    "name": "Debian 12",
    "branches": [535],
    "default_branch": 535,
    "flavours": ["proprietary", "open"],
    "packages": [
        {"first_branch": 0, "proprietary": ["nvidia-kernel-dkms"], "open": ["nvidia-open-kernel-dkms"]}
    ],
    "cuda": {"versions": ["11.8"], "packages": ["nvidia-cuda-toolkit"]},
}


def node(*names, kernel="6.1.0-28-amd64", nvswitch=False):
    gpus = [
        {
            "pci": f"0000:{index:02x}:00.0",
            "pci_id": f"10de:{DEVICES[name][0]:04x}",
            "generation": DEVICES[name][1],
            "switches_behind_bridge": name == "B200",
        }
        for index, name in enumerate(names)
    ]
    return {"kernel": kernel, "gpus": gpus, "nvswitch": nvswitch or "B200" in names}


def codes(choice):
    return [one["code"] for one in choice["refusals"]]


def refusal(choice):
    assert len(choice["refusals"]) == 1, choice["refusals"]
    assert choice["driver_packages"] == choice["other_packages"] == choice["same_version_packages"] == []
    return choice["refusals"][0]["text"]


def test_v100_gets_the_last_branch_that_has_it_and_proprietary_modules():
    choice = choose(node("V100", "V100"), {}, VENDOR)
    assert (choice["branch"], choice["flavour"]) == (580, "proprietary")
    assert choice["driver_packages"] == ["dkms-580"]
    assert choice["refusals"] == []
    assert choice["generations"] == ["Volta"]


def test_v100_with_open_modules_is_refused_with_the_right_ones():
    text = refusal(choose(node("V100"), {"flavour": "open"}, VENDOR))
    assert "Volta cannot be driven by the open" in text
    assert "nvidia_driver_flavour: proprietary" in text


def test_v100_after_r580_is_refused_with_580():
    text = refusal(choose(node("V100"), {"branch": "590"}, VENDOR))
    assert "R580 was the last" in text
    assert "nvidia_driver_branch: 580" in text


def test_kepler_ends_earlier():
    assert choose(node("K80"), {}, VENDOR)["branch"] == 470
    assert "nvidia_driver_branch: 470" in refusal(choose(node("K80"), {"branch": 535}, VENDOR))


@pytest.mark.parametrize("gpu", ["B200", "GH200"])
def test_blackwell_and_grace_hopper_with_proprietary_modules_are_refused(gpu):
    text = refusal(choose(node(gpu), {"flavour": "proprietary"}, VENDOR))
    assert "cannot be driven by the proprietary" in text
    assert "nvidia_driver_flavour: open" in text


def test_blackwell_before_r570_is_refused_and_debian_is_told_to_be_too_old():
    assert "nvidia_driver_branch: 570 or newer." in refusal(choose(node("B200"), {"branch": 550}, VENDOR))
    assert "570 or newer, with nvidia_driver_source: vendor" in refusal(choose(node("B200"), {}, DEBIAN))


def test_blackwell_ultra_came_with_r575():
    # Compute capability 10.3 came with CUDA 12.9, that with R575.
    text = refusal(choose(node("B200", "B300"), {"branch": 570}, VENDOR))
    assert "Blackwell is not driven by branch 570: R575 was the first" in text
    assert "nvidia_driver_branch: 575 or newer." in text
    assert choose(node("B300"), {"branch": 575}, VENDOR)["branch"] == 575
    # Declared by its generation, nothing is known of the device.
    assert choose(node("B300"), {"branch": 570, "generations": ["Blackwell"]}, VENDOR)["branch"] == 570


def test_h100_gets_the_default_branch_and_the_open_modules():
    choice = choose(node("H100"), {}, VENDOR)
    assert (choice["branch"], choice["flavour"], choice["driver_packages"]) == (595, "open", ["dkms-open"])


def test_the_source_says_which_modules_come_first():
    assert choose(node("A100"), {}, DEBIAN)["flavour"] == "proprietary"
    assert choose(node("A100"), {"flavour": "open"}, DEBIAN)["driver_packages"] == ["nvidia-open-kernel-dkms"]


def test_before_560_the_proprietary_modules_are_the_default():
    assert choose(node("A100"), {"branch": 550}, VENDOR)["flavour"] == "proprietary"
    assert choose(node("A100"), {"branch": 560}, VENDOR)["flavour"] == "open"


def test_no_modules_serve_volta_and_blackwell_in_one_node():
    text = refusal(choose(node("V100", "B200"), {"branch": 580}, VENDOR))
    assert "Blackwell takes open; Volta takes proprietary" in text
    assert "another node" in text


def test_branches_of_kepler_and_blackwell_do_not_meet():
    assert "no_common_branch" in codes(choose(node("K80", "B200"), {}, VENDOR))


def test_volta_and_ampere_in_one_node_share_580_and_proprietary_modules():
    choice = choose(node("V100", "A100"), {}, VENDOR)
    assert (choice["branch"], choice["flavour"]) == (580, "proprietary")


def test_hopper_and_grace_hopper_take_the_open_modules():
    assert choose(node("H100", "GH200"), {"branch": 550}, VENDOR)["flavour"] == "open"


def test_cuda_13_on_v100_is_refused_and_12_is_not():
    text = refusal(choose(node("V100"), {"cuda": "13.0"}, VENDOR))
    assert "does not compile for Volta: 12.x was the last" in text
    assert choose(node("V100"), {"cuda": "12.9"}, VENDOR)["other_packages"] == ["cuda-toolkit-12-9"]


def test_cuda_13_needs_r580():
    asked = {"cuda": "13.0", "branch": 570}
    assert "nvidia_driver_branch: 580" in refusal(choose(node("H100"), asked, VENDOR))


def test_a_toolkit_that_the_distribution_lacks_is_refused_with_the_one_it_has():
    assert "nvidia_driver_cuda: 11.8" in refusal(choose(node("A100"), {"cuda": "12.4"}, DEBIAN))
    assert choose(node("A100"), {"cuda": "11.8"}, DEBIAN)["other_packages"] == ["nvidia-cuda-toolkit"]


def test_a_branch_that_the_distribution_lacks():
    text = refusal(choose(node("V100"), {"branch": 580}, DEBIAN))
    assert "Debian 12 has no branch 580, only 535" in text
    assert "nvidia_driver_source: vendor" in text


def test_proprietary_modules_end_after_615_and_open_ones_begin_with_515():
    newest, oldest = {"branch": 620, "flavour": "proprietary"}, {"branch": 510, "flavour": "open"}
    assert codes(choose(node("A100"), newest, VENDOR)) == ["no_proprietary_modules"]
    assert codes(choose(node("A100"), oldest, VENDOR)) == ["no_open_modules"]


def test_fabric_manager_on_nvswitch_machines_only_and_of_the_drivers_version():
    choice = choose(node("H100", nvswitch=True), {"branch": 580}, VENDOR)
    assert (choice["fabric_manager"], choice["same_version_packages"]) == (True, ["fabricmanager-580"])
    assert choice["other_packages"] == []
    without = choose(node("H100"), {"branch": 580}, VENDOR)
    assert (without["fabric_manager"], without["same_version_packages"]) == (False, [])


def test_hgx_b200_gets_the_subnet_manager_of_its_switches_too():
    choice = choose(node("B200"), {"branch": 580}, VENDOR)
    assert choice["same_version_packages"] == ["fabricmanager-580"]
    assert choice["other_packages"] == ["nvlsm"]


def test_fabric_manager_asked_for_without_a_switch_is_refused_and_off_with_one_is_said():
    assert "there is no NVSwitch" in refusal(choose(node("H100"), {"fabric_manager": True}, VENDOR))
    choice = choose(node("H100", nvswitch=True), {"fabric_manager": False}, VENDOR)
    assert choice["fabric_manager"] is False
    assert [one["code"] for one in choice["findings"]] == ["fabric_manager_off"]


def test_what_the_distribution_lacks_is_refused():
    assert codes(choose(node("A100", nvswitch=True), {}, DEBIAN)) == ["fabric_manager_not_offered"]
    assert codes(choose(node("A100"), {"imex": True, "dcgm": True}, DEBIAN)) == [
        "imex_not_offered",
        "dcgm_not_offered",
    ]


def test_extras_on_request():
    choice = choose(node("H100"), {"branch": 580, "imex": True, "gds": True, "dcgm": True}, VENDOR)
    assert (choice["same_version_packages"], choice["other_packages"]) == (["imex-580"], ["gds", "dcgm"])
    assert choice["imex"] is True


def test_gds_needs_open_modules():
    assert codes(choose(node("V100"), {"gds": True}, VENDOR)) == ["gds"]


@pytest.mark.parametrize(
    ("gpu", "asked", "kernel", "path"),
    [
        ("H100", {}, "6.1.0-28-amd64", "dma_buf"),
        ("H100", {}, "5.4.0-100-generic", "none"),
        ("H100", {"rdma_provider": "doca"}, "5.4.0-100-generic", "nvidia_peermem"),
        ("H100", {"flavour": "proprietary", "rdma_provider": "doca"}, "6.1.0-28-amd64", "nvidia_peermem"),
        ("V100", {"rdma_provider": "mlnx_ofed"}, "6.1.0-28-amd64", "nvidia_peermem"),
        ("V100", {"rdma_provider": "inbox"}, "6.1.0-28-amd64", "none"),
        ("H100", {"gpudirect": "none"}, "6.1.0-28-amd64", "none"),
    ],
)
def test_the_way_to_gpu_memory(gpu, asked, kernel, path):
    choice = choose(node(gpu, kernel=kernel), asked, VENDOR)
    assert choice["gpudirect"]["path"] == path
    assert choice["gpudirect"]["why"]
    assert choice["refusals"] == []


def test_none_on_this_combination_says_both_reasons():
    why = choose(node("V100"), {"rdma_provider": "inbox"}, VENDOR)["gpudirect"]["why"]
    assert "open kernel modules" in why
    assert "peer-memory interface" in why


def test_a_way_that_cannot_be_is_refused_with_the_one_that_can():
    text = refusal(choose(node("V100"), {"gpudirect": "dma_buf", "rdma_provider": "doca"}, VENDOR))
    assert "nvidia_driver_gpudirect: nvidia_peermem" in text


def test_no_gpu_is_refused_and_a_node_may_be_prepared():
    assert codes(choose(node(), {}, VENDOR)) == ["no_gpu"]
    choice = choose(node(), {"generations": ["Volta"]}, VENDOR)
    assert (choice["branch"], choice["refusals"]) == (580, [])


def test_what_is_declared_wrongly_or_not_known():
    assert "Kepler, Maxwell" in refusal(choose(node(), {"generations": ["Vulta"]}, VENDOR))
    facts = node("V100")
    facts["gpus"][0].update(generation=None, pci_id="10de:3021")
    assert "nvidia_driver_generations" in refusal(choose(facts, {}, VENDOR))


def test_all_that_is_wrong_is_said_at_once():
    choice = choose(node("V100"), {"flavour": "open", "branch": 590}, VENDOR)
    assert codes(choice) == ["branch_too_new", "flavour"]


@pytest.mark.parametrize("asked", [{"flavour": "open"}, {"branch": 590}, {"cuda": "13.0"}, {"gds": True}])
def test_every_refusal_ends_with_its_fix(asked):
    assert ". Fix: " in refusal(choose(node("V100"), asked, VENDOR))


REPOSITORIES = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404"
BY_ARCHITECTURE = {
    **VENDOR,
    "headers": ["linux-headers-{architecture}"],
    "uris": {"amd64": [f"{REPOSITORIES}/x86_64/"], "arm64": [f"{REPOSITORIES}/sbsa/"]},
}


def noble(architecture):
    return {**node("GH200"), "os": {"id": "ubuntu", "version": "24.04"}, "architecture": architecture}


@pytest.mark.parametrize(("architecture", "folder"), [("amd64", "x86_64"), ("arm64", "sbsa")])
def test_repository_and_headers_are_those_of_the_nodes_architecture(architecture, folder):
    choice = choose(noble(architecture), {}, BY_ARCHITECTURE)
    assert choice["refusals"] == []
    assert choice["uris"] == [f"{REPOSITORIES}/{folder}/"]
    assert choice["headers"] == [f"linux-headers-{architecture}"]


def test_a_sites_own_repository_takes_the_place_of_the_vendors():
    choice = choose(noble("arm64"), {"vendor_uris": ["file:/srv/cuda"]}, BY_ARCHITECTURE)
    assert (choice["uris"], choice["refusals"]) == (["file:/srv/cuda"], [])


def test_a_repository_of_another_architecture_is_refused():
    said = refusal(choose(noble("arm64"), {"vendor_uris": [f"{REPOSITORIES}/x86_64/"]}, BY_ARCHITECTURE))
    assert "is for x86_64 (amd64), and the node is arm64" in said
    assert "nvidia_driver_vendor_uris" in said


def test_an_architecture_without_a_repository_is_refused():
    said = refusal(choose(noble("ppc64el"), {}, BY_ARCHITECTURE))
    assert said.startswith("NVIDIA's repository is for amd64 and arm64, and the node is ppc64el. Fix: ")


def test_the_distributions_own_archive_needs_no_address():
    assert choose(node("V100"), {}, DEBIAN)["uris"] == []

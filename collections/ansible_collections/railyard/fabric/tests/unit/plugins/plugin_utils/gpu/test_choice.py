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


NEEDS_OPEN = ["cannot be driven by the proprietary", "flavour: open"]


def node(*names, kernel="6.1.0-28-amd64", nvswitch=False):
    gpus = [
        {
            "pci": f"0000:{index:02x}:00.0",
            "pci_id": f"10de:{DEVICES[name][0]:04x}",
            "generation": DEVICES[name][1],
            "switches_behind_bridge": name in ("B200", "B300"),
        }
        for index, name in enumerate(names)
    ]
    return {"kernel": kernel, "gpus": gpus, "nvswitch": nvswitch or bool({"B200", "B300"} & set(names))}


def codes(choice):
    return [one["code"] for one in choice["refusals"]]


def refusal(choice):
    assert len(choice["refusals"]) == 1, choice["refusals"]
    assert choice["driver_packages"] == choice["other_packages"] == choice["same_version_packages"] == []
    return choice["refusals"][0]["text"]


@pytest.mark.parametrize(
    ("gpus", "asked", "layout", "said"),
    [
        ("V100", {"flavour": "open"}, VENDOR, ["Volta cannot be driven by the open", "flavour: proprietary"]),
        ("V100", {"branch": "590"}, VENDOR, ["R580 was the last", "nvidia_driver_branch: 580"]),
        ("K80", {"branch": 535}, VENDOR, ["nvidia_driver_branch: 470"]),
        ("B200", {"flavour": "proprietary"}, VENDOR, NEEDS_OPEN),
        ("GH200", {"flavour": "proprietary"}, VENDOR, NEEDS_OPEN),
        ("B200", {"branch": 550}, VENDOR, ["nvidia_driver_branch: 570 or newer."]),
        ("B200", {}, DEBIAN, ["570 or newer, with nvidia_driver_source: vendor"]),
        (
            "V100 B200",
            {"branch": 580},
            VENDOR,
            ["Blackwell takes open; Volta takes proprietary", "another node"],
        ),
        ("H100", {"cuda": "13.0", "branch": 570}, VENDOR, ["nvidia_driver_branch: 580"]),
        ("V100", {"cuda": "13.0"}, VENDOR, ["does not compile for Volta: 12.x was the last"]),
        ("A100", {"cuda": "12.4"}, DEBIAN, ["nvidia_driver_cuda: 11.8"]),
        ("V100", {"branch": 580}, DEBIAN, ["has no branch 580, only 535", "nvidia_driver_source: vendor"]),
        ("V100", {"gds": True}, VENDOR, []),
        (
            "V100",
            {"gpudirect": "dma_buf", "rdma_provider": "doca"},
            VENDOR,
            ["nvidia_driver_gpudirect: nvidia_peermem"],
        ),
        ("H100", {"fabric_manager": True}, VENDOR, ["there is no NVSwitch"]),
    ],
)
def test_what_does_not_fit_is_refused_with_its_fix(gpus, asked, layout, said):
    text = refusal(choose(node(*gpus.split()), asked, layout))
    assert ". Fix: " in text
    assert all(part in text for part in said), text


@pytest.mark.parametrize(
    ("gpus", "asked", "layout", "wanted"),
    [
        ("V100 V100", {}, VENDOR, {"branch": 580, "flavour": "proprietary", "driver_packages": ["dkms-580"]}),
        ("V100", {}, VENDOR, {"branch": 580, "generations": ["Volta"]}),
        ("V100 A100", {}, VENDOR, {"branch": 580, "flavour": "proprietary"}),
        ("K80", {}, VENDOR, {"branch": 470}),
        ("H100", {}, VENDOR, {"branch": 595, "flavour": "open", "driver_packages": ["dkms-open"]}),
        ("H100 GH200", {"branch": 550}, VENDOR, {"flavour": "open"}),
        # The source says which modules come first, and before 560 those are the proprietary ones.
        ("A100", {}, DEBIAN, {"flavour": "proprietary"}),
        ("A100", {"flavour": "open"}, DEBIAN, {"driver_packages": ["nvidia-open-kernel-dkms"]}),
        ("A100", {"branch": 550}, VENDOR, {"flavour": "proprietary"}),
        ("A100", {"branch": 560}, VENDOR, {"flavour": "open"}),
        ("V100", {"cuda": "12.9"}, VENDOR, {"other_packages": ["cuda-toolkit-12-9"]}),
        ("A100", {"cuda": "11.8"}, DEBIAN, {"other_packages": ["nvidia-cuda-toolkit"]}),
        ("V100", {}, DEBIAN, {"uris": []}),
        ("", {"generations": ["Volta"]}, VENDOR, {"branch": 580}),  # a node may be prepared
    ],
)
def test_what_is_chosen(gpus, asked, layout, wanted):
    choice = choose(node(*gpus.split()), asked, layout)
    assert choice["refusals"] == []
    assert {key: choice[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("gpus", "asked", "layout", "expected"),
    [
        ("A100", {"branch": 620, "flavour": "proprietary"}, VENDOR, ["no_proprietary_modules"]),
        ("A100", {"branch": 510, "flavour": "open"}, VENDOR, ["no_open_modules"]),
        ("A100", {"imex": True, "dcgm": True}, DEBIAN, ["imex_not_offered", "dcgm_not_offered"]),
        ("V100", {"gds": True}, VENDOR, ["gds"]),
        ("", {}, VENDOR, ["no_gpu"]),
        ("V100", {"flavour": "open", "branch": 590}, VENDOR, ["branch_too_new", "flavour"]),
    ],
)
def test_codes_of_refusals_come_all_at_once(gpus, asked, layout, expected):
    assert expected == codes(choose(node(*gpus.split()), asked, layout))


def test_blackwell_ultra_came_with_r575():
    # Compute capability 10.3 came with CUDA 12.9, that with R575.
    text = refusal(choose(node("B200", "B300"), {"branch": 570}, VENDOR))
    assert "Blackwell is not driven by branch 570: R575 was the first" in text
    assert "nvidia_driver_branch: 575 or newer." in text
    assert choose(node("B300"), {"branch": 575}, VENDOR)["branch"] == 575
    # Declared by its generation, nothing is known of the device.
    assert choose(node("B300"), {"branch": 570, "generations": ["Blackwell"]}, VENDOR)["branch"] == 570


def test_branches_of_kepler_and_blackwell_do_not_meet():
    assert "no_common_branch" in codes(choose(node("K80", "B200"), {}, VENDOR))


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


@pytest.mark.parametrize(
    ("gpu", "asked", "nvswitch", "modules"),
    [
        ("B200", {}, False, ["ib_umad"]),
        ("B300", {}, False, ["ib_umad"]),
        # Its switches are PCI functions of the node, which NVIDIA's own module drives.
        ("H100", {}, True, []),
        ("B200", {"fabric_manager": False}, False, []),
        ("V100", {}, False, []),
    ],
)
def test_switches_behind_a_bridge_are_reached_through_ib_umad(gpu, asked, nvswitch, modules):
    """The precheck of the Fabric Manager fails without it: spectrocloud/CanvOS pull request 700."""
    assert choose(node(gpu, nvswitch=nvswitch), {"branch": 580, **asked}, VENDOR)["switch_modules"] == modules


def test_fabric_manager_that_is_off_beside_a_switch_is_reported_and_one_that_is_not_offered_is_refused():
    choice = choose(node("H100", nvswitch=True), {"fabric_manager": False}, VENDOR)
    assert choice["fabric_manager"] is False
    assert [one["code"] for one in choice["findings"]] == ["fabric_manager_off"]
    assert codes(choose(node("A100", nvswitch=True), {}, DEBIAN)) == ["fabric_manager_not_offered"]


def test_extras_on_request():
    choice = choose(node("H100"), {"branch": 580, "imex": True, "gds": True, "dcgm": True}, VENDOR)
    assert (choice["same_version_packages"], choice["other_packages"]) == (["imex-580"], ["gds", "dcgm"])
    assert choice["imex"] is True


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


def test_what_is_declared_wrongly_or_not_known():
    assert "Kepler, Maxwell" in refusal(choose(node(), {"generations": ["Vulta"]}, VENDOR))
    facts = node("V100")
    facts["gpus"][0].update(generation=None, pci_id="10de:3021")
    assert "nvidia_driver_generations" in refusal(choose(facts, {}, VENDOR))


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

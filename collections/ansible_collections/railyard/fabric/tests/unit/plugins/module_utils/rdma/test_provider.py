# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cards are on the bus, whose driver is there, and which provider fits or is refused."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.apt.vendor_repository import Node as System
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import headers as kernel_headers
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node.apt_get import Package
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import driver, hardware, releases
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.hardware import Card
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.provider import Node, best, choose
from support.nodes.files import write

GRACE = Node("6.8.0-60-generic-64k", (3, 12), True, False, False, System("ubuntu", "24.04", "arm64"))
NODE = Node("6.8.0-60-generic", (3, 12), True, False)
LEGACY = Node("5.4.0-200-generic", (3, 9), True, None)


def card(generation, pci="0000:17:00.0", firmware=None):
    return Card(pci, "15b3:0000", generation, None, firmware)


@pytest.fixture
def node(tmp_path):
    def put(pci, **files):
        folder = tmp_path / "sys/bus/pci/devices" / pci
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")
        return folder

    return tmp_path, put


def reader_of(root):
    return hardware.Reader(str(root / "sys"), str(root / "proc"), str(root / "etc"))


def test_cards_are_read_from_the_bus_without_and_with_a_driver(node):
    root, put = node
    bare = put("0000:07:00.0", vendor="0x15b3", device="0x1003", **{"class": "0x028000"})
    served = put("0000:17:00.0", vendor="0x15b3", device="0x1021", **{"class": "0x020700"})
    put("0000:17:00.2", vendor="0x15b3", device="0xc2d5", **{"class": "0x080100"})  # BlueField's DMA function
    put(
        "0000:00:1f.6", vendor="0x8086", device="0x15b3", **{"class": "0x020000"}
    )  # a number like the vendor's
    write(served, "infiniband/mlx5_0/fw_ver", "28.43.2026\n")
    write(served, "infiniband/mlx5_0/board_id", "MT_0000000838\n")
    (served / "driver").symlink_to(root / "sys/bus/pci/drivers/mlx5_core")
    assert bare.exists()
    assert hardware.read_cards(reader_of(root)) == [
        Card("0000:07:00.0", "15b3:1003", "ConnectX-3", None, None),
        Card("0000:17:00.0", "15b3:1021", "ConnectX-7", "mlx5_core", "28.43.2026", "MT_0000000838"),
    ]


def test_a_node_without_cards_or_bus_has_none(tmp_path):
    assert hardware.read_cards(reader_of(tmp_path)) == []


def test_modules_tell_whose_they_are(node):
    root, _put = node
    folder = root / "lib/modules/6.8.0-60-generic"
    index = (
        "updates/dkms/mlx5_core.ko.zst: updates/dkms/mlx_compat.ko.zst\n"
        "kernel/drivers/net/ethernet/mellanox/mlx4/mlx4_core.ko.zst: kernel/net/core/devlink.ko\n"
    )
    write(root, "lib/modules/6.8.0-60-generic/modules.dep", index)
    write(root, "sys/module/mlx5_core/version", "25.10-0.6.0\n")
    (root / "sys/module/mlx4_core").mkdir()
    asked = []

    def modinfo(argv):
        asked.append(argv)
        return "25.10-1.2.8\n"

    mlx5, mlx4 = driver.read_modules(str(root), reader_of(root), "6.8.0-60-generic", modinfo)
    assert (mlx5.loaded, mlx5.on_disk, mlx5.version_on_disk) == ("25.10-0.6.0", "vendor", "25.10-1.2.8")
    assert asked == [["modinfo", "-F", "version", f"{folder}/updates/dkms/mlx5_core.ko.zst"]]
    assert (mlx4.loaded, mlx4.on_disk) == ("inbox", "inbox")
    assert driver.read_modules(str(root), reader_of(root), "7.0")[0].on_disk is None
    assert not kernel_headers.are_there(str(root), "6.8.0-60-generic")
    (folder / "build").mkdir()
    assert kernel_headers.are_there(str(root), "6.8.0-60-generic")


@pytest.mark.parametrize(
    ("value", "said"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False), (b"", None), (None, None)]
)
def test_secure_boot_is_read_from_the_variable(tmp_path, value, said):
    folder = tmp_path / "sys/firmware/efi/efivars"
    folder.mkdir(parents=True)
    if value is not None:
        (folder / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(value)
    assert driver.secure_boot(reader_of(tmp_path)) is said


def there(*names):
    return {name: Package("1", "install", "installed", False) for name in names}


@pytest.mark.parametrize(
    ("names", "stack"),
    [
        (["doca-ofed", "mlnx-ofed-kernel-dkms"], "doca"),
        (["mlnx-ofed-all", "mlnx-ofed-kernel-dkms"], "mlnx_ofed"),
        (["mlnx-ofed-kernel-dkms"], "unknown"),
        (["mlnx-ofed-kernel-modules"], "unknown"),
        (["doca-ofed-generic-hwe-26.04"], "ubuntu"),
        (["rdma-core", "doca-ofed-userspace-x"], None),
    ],
)
def test_installed_stack_is_known_by_its_metapackage(names, stack):
    found, packages = driver.installed_stack(there(*names))
    assert (found, packages) == (stack, names[:1] if stack else [])


def test_metapackages_of_kernels():
    names = ("linux-image-generic", "linux-image-6.8.0-60-generic", "linux-headers-amd64", "linux-base")
    assert driver.kernel_metapackages(there(*names)) == ["linux-headers-amd64", "linux-image-generic"]


def test_headers_are_to_follow_each_kernel_that_moves():
    follow = driver.headers_to_follow
    assert follow(there("linux-image-generic-hwe-24.04")) == ["linux-headers-generic-hwe-24.04"]
    assert follow(there("linux-image-amd64", "linux-headers-amd64")) == []
    others = ("linux-image-amd64-dbg", "linux-image-6.1.0-56-amd64", "linux-image-extra-virtual")
    assert follow(there(*others)) == []


def test_another_stack_is_refused_until_its_replacement_is_allowed_by_name():
    (said,) = driver.refuse_stack("doca", "mlnx_ofed", {"mlnx-ofed-all": "24.10-1"}, [])
    assert "mlnx-ofed-all 24.10-1 is there and belongs to another stack (mlnx_ofed). Fix:" in said
    (said,) = driver.refuse_stack("doca", "unknown", {"mlnx-ofed-kernel-dkms": "24.10"}, [])
    assert "as mlnxofedinstall does it" in said
    allowed = ["mlnx-ofed-all"]
    assert driver.refuse_stack("doca", "mlnx_ofed", {"mlnx-ofed-all": "24.10-1"}, allowed) == []
    assert driver.refuse_stack("doca", "doca", {"doca-ofed": "3.1.0"}, []) == []
    assert driver.refuse_stack("inbox", "doca", {"doca-ofed": "3.1.0"}, []) == []
    assert driver.to_remove("doca", "mlnx_ofed", allowed) == allowed
    # The kernel part is what the other stack's becomes: it is moved, not removed.
    assert driver.to_remove("doca", "unknown", ["mlnx-ofed-kernel-dkms"]) == []
    assert driver.to_remove("doca", "doca", ["doca-ofed"]) == []


def test_the_modules_of_the_cards_are_the_needed_ones():
    cards = [
        Card("a", "15b3:1003", "ConnectX-3", None, None),
        Card("b", "15b3:1011", "Connect-IB", None, None),
    ]
    assert hardware.needed_modules(cards) == ["mlx4_core", "mlx5_core"]
    assert hardware.needed_modules(cards[:1]) == ["mlx4_core"]
    assert hardware.needed_modules([]) == []


def test_kernels_without_the_vendors_driver_are_found(node):
    root, _put = node
    running = "6.8.0-60-generic"
    built = "updates/dkms/mlx5_core.ko.zst:\n"
    own = "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst:\n"
    for kernel, modules, headers in (
        (running, built, True),
        ("6.8.0-61-generic", own, True),  # the driver was not built for it
        ("6.8.0-50-generic", own, False),  # an old one, which no driver is built for
        ("6.5.0-1-generic", None, False),  # removed, its folder left
    ):
        folder = root / "lib/modules" / kernel
        folder.mkdir(parents=True)
        if modules:
            (folder / "modules.dep").write_text(modules)
        if headers:
            (folder / "build").mkdir()

    def without(kernel, needed=("mlx5_core",)):
        return driver.without_driver(driver.read_kernels(str(root), needed), kernel)

    (missing,) = without(running)
    assert (missing["kernel"], missing["has_headers"]) == ("6.8.0-61-generic", True)
    assert "DKMS built no module" in missing["why"]
    # Of a kernel that runs, whatever it has.
    assert "install linux-headers-6.8.0-50-generic" in without("6.8.0-50-generic")[0]["why"]
    assert [one["kernel"] for one in without("7.0")] == ["6.8.0-61-generic", "7.0"]
    assert without(running, ["mlx4_core", "mlx5_core"])[0]["kernel"] == running
    # Of a kernel that boots next, whatever it has: here its headers were never installed.
    kernels = driver.read_kernels(str(root), ("mlx5_core",))
    both = driver.without_driver(kernels, running, "6.8.0-50-generic")
    assert [one["kernel"] for one in both] == ["6.8.0-50-generic", "6.8.0-61-generic"]
    assert both[0]["why"].startswith("it has no headers")
    assert both[0]["why"].endswith("(this one boots next)")
    missing_headers = kernel_headers.missing(str(root), (running, "6.8.0-50-generic", "7.0", None, running))
    assert missing_headers == ["linux-headers-6.8.0-50-generic", "linux-headers-7.0"]


@pytest.mark.parametrize(
    ("loaded", "on_disk", "version", "said"),
    [
        ("25.10-1.2.8", "vendor", "25.10-1.2.8", None),
        ("inbox", "inbox", None, None),
        ("inbox", None, None, None),
        (None, "inbox", None, None),
        ("inbox", "vendor", "25.10-1.2.8", "mlx5_core inbox is loaded, 25.10-1.2.8 is installed"),
        ("25.07-0.9.7", "vendor", "25.10-1.2.8", "mlx5_core 25.07-0.9.7 is loaded, 25.10-1.2.8 is installed"),
        ("25.07-0.9.7", "inbox", None, "mlx5_core 25.07-0.9.7 is loaded, inbox is installed"),
        (None, "vendor", "25.10-1.2.8", "mlx5_core 25.10-1.2.8 is installed and not loaded"),
    ],
)
def test_what_runs_is_compared_with_what_a_boot_would_load(loaded, on_disk, version, said):
    modules = [driver.KernelModule("mlx5_core", loaded, on_disk, version)]
    found = driver.pending(modules, ["mlx5_core"])
    assert found == said if said is None else said in found
    assert driver.pending(modules, ["mlx4_core"]) is None


def test_firmware_is_compared_by_generation():
    cards = [card("ConnectX-7", firmware="28.39.1002"), card("ConnectX-6", firmware="20.1")]
    (said,) = driver.firmware_differs(cards, {"ConnectX-7": "28.43.2026"})
    assert "ConnectX-7 (0000:17:00.0) runs firmware 28.39.1002, wanted is 28.43.2026" in said
    assert "rdma_stack_firmware_images" in said
    assert driver.firmware_differs(cards, {"ConnectX-7": "28.39.1002"}) == []


@pytest.mark.parametrize(
    "generation",
    ["ConnectX-4 Lx", "ConnectX-5", "ConnectX-6 Dx", "ConnectX-7", "ConnectX-8", "ConnectX-9", "BlueField-3"],
)
def test_current_cards_get_doca(generation):
    assert choose("auto", "", [card(generation)], NODE) == ("doca", [], [])


@pytest.mark.parametrize("generation", ["ConnectX-3", "ConnectX-3 Pro", "Connect-IB"])
def test_the_oldest_cards_get_the_kernels_own_on_a_current_system(generation):
    assert choose("auto", "", [card(generation)], NODE).provider == "inbox"
    assert choose("auto", "", [card(generation)], LEGACY).provider == "mlnx_ofed"
    refused = choose("doca", "", [card(generation)], NODE).refusals
    assert f"no driver for {generation} (0000:17:00.0). Fix: use provider inbox" in refused[0]
    assert "does not build on kernel 6.8.0-60-generic" in refused[0]
    assert (
        "mlnx_ofed 4.9, which this kernel and Python allow"
        in choose("doca", "", [card(generation)], LEGACY).refusals[0]
    )


def test_an_old_python_rules_out_the_legacy_release():
    old = LEGACY._replace(python=(3, 8))
    assert best([card("ConnectX-3")], old) == "inbox"
    assert "Python is 3.8" in choose("mlnx_ofed", "4.9-7.1.0.0", [card("ConnectX-3")], old).refusals[0]
    assert "Python is too old" in choose("doca", "", [card("ConnectX-3")], old).refusals[0]


def test_mixed_cards_and_those_between_get_the_kernels_own():
    mixed = [card("ConnectX-3"), card("ConnectX-6", "0000:81:00.0")]
    assert best(mixed, LEGACY) == "inbox"
    assert best([card("ConnectX-4")], NODE) == "inbox"
    assert best([], NODE) == "inbox"
    assert "no card" in choose("doca", "", [], NODE).refusals[0]


@pytest.mark.parametrize(
    ("version", "generation", "said"),
    [
        ("2.9.5-0.1.8", "ConnectX-4", None),
        ("2.9.0-1", "ConnectX-4 Lx", None),
        ("2.9.5-0.1.8", "ConnectX-7", None),
        ("3.2.0-046000", "ConnectX-4", "ends with DOCA 2.9"),
        ("2.10.0-1", "ConnectX-4", "rdma_stack_version 2.9"),
        ("", "ConnectX-4", "ends with DOCA 2.9"),
        ("2.8.0-1", "ConnectX-4", None),
        # "General Support" of DOCA 2.10.0, 3.0.0 and 3.1.0 has it, with firmware 14.32.
        ("2.10.0-1", "ConnectX-4 Lx", None),
        ("3.1.0-091000", "ConnectX-4 Lx", None),
        (
            "2.9.5-0.1.8",
            "ConnectX-8",
            "DOCA 2.9.5-0.1.8 has no driver for ConnectX-8 (0000:17:00.0). Fix: name a "
            "rdma_stack_version 2.10 or newer",
        ),
        ("3.2.0-046000", "ConnectX-8", None),
        # No list up to 3.1 has them.
        ("2.9.5-0.1.8", "ConnectX-9", "DOCA 2.9.5-0.1.8 has no driver for ConnectX-9"),
        ("3.1.0-091000", "ConnectX-9", "rdma_stack_version 3.3 or newer"),
        ("2.9.5-0.1.8", "BlueField-4", "DOCA 2.9.5-0.1.8 has no driver for BlueField-4"),
        ("3.3.0-1", "ConnectX-9", None),
    ],
)
def test_a_release_of_doca_must_fit(version, generation, said):
    refusals = choose("doca", version, [card(generation)], NODE).refusals
    assert bool(refusals) == bool(said)
    assert (said or "") in " ".join(refusals)


@pytest.mark.parametrize(
    ("version", "generation", "is_found"),
    [
        ("3.2.0-046000", "ConnectX-9", True),
        ("3.3.0-1", "ConnectX-9", False),
        ("3.3.0-1", "BlueField-4", True),
        ("3.2.0-046000", "ConnectX-8", False),
    ],
)
def test_a_card_that_no_known_list_has_is_reported(version, generation, is_found):
    choice = choose("doca", version, [card(generation)], NODE)
    assert choice.refusals == []
    assert [f"serves {generation} (0000:17:00.0)" in text for text in choice.findings] == [True] * is_found


def test_auto_takes_no_release_that_lacks_a_driver_for_a_card():
    newer = [card("ConnectX-7"), card("ConnectX-9", "0000:81:00.0")]
    assert choose("auto", "2.9.5-0.1.8", newer, NODE).provider == "inbox"
    assert choose("auto", "3.3.0-1", newer, NODE).provider == "doca"


def test_each_row_of_the_releases_is_a_generation_of_the_table_of_cards():
    assert set(releases.SERVED) <= set(hardware.GENERATIONS.values())


def test_the_lts_is_what_auto_takes_for_cards_that_end_with_it():
    old = [card("ConnectX-4"), card("ConnectX-7", "0000:81:00.0")]
    assert choose("auto", "2.9.5-0.1.8", old, NODE) == ("doca", [], [])
    assert choose("auto", "3.2.0-046000", old, NODE).provider == "inbox"


@pytest.mark.parametrize(
    ("version", "generation", "node", "said"),
    [
        ("latest", "ConnectX-6", NODE, "is none"),
        ("24.10-3.2.5.0", "ConnectX-3", NODE, "dropped in 5.1"),
        ("4.9-7.1.0.0", "ConnectX-3", NODE, "builds on kernels up to 5.4"),
        ("4.9-7.1.0.0", "ConnectX-6", LEGACY, "the node has ConnectX-6"),
        # "BlueField-2 and ConnectX-7 are the last generation", DOCA's "General Support".
        ("24.10-3.2.5.0", "ConnectX-8", NODE, "MLNX_OFED has no driver for ConnectX-8"),
        ("24.10-3.2.5.0", "BlueField-3", NODE, "MLNX_OFED has no driver for BlueField-3"),
        ("4.9-7.1.0.0", "ConnectX-9", LEGACY, "MLNX_OFED has no driver for ConnectX-9"),
    ],
)
def test_a_release_of_mlnx_ofed_must_fit(version, generation, node, said):
    assert said in " ".join(choose("mlnx_ofed", version, [card(generation)], node).refusals)


def test_mlnx_ofed_fits_where_it_does():
    assert choose("mlnx_ofed", "24.10-3.2.5.0", [card("ConnectX-6")], NODE).refusals == []
    assert choose("mlnx_ofed", "4.9-7.1.0.0", [card("ConnectX-3")], LEGACY).refusals == []


def test_what_is_between_source_and_module_is_found_before_the_act():
    bare = NODE._replace(has_headers=False, secure_boot=True)
    found = choose("doca", "", [card("ConnectX-7")], bare._replace(key_enrolled=True))
    assert "headers of kernel 6.8.0-60-generic are not there" in found.findings[0]
    assert "Secure Boot is on" in found.findings[1]
    assert found.refusals == []
    (refused,) = choose("doca", "", [card("ConnectX-7")], bare).refusals
    assert "Secure Boot is on" in refused
    for step in ("update-secureboot-policy --new-key", "mokutil --import", "console", "mokutil --test-key"):
        assert step in refused
    assert choose("inbox", "", [card("ConnectX-7")], bare) == ("inbox", [], [])


def test_a_number_that_is_unknown_is_reported():
    unknown = Card("0000:17:00.0", "15b3:2222", None, None, None)
    assert "15b3:2222 is not in the table" in choose("auto", "", [unknown], NODE).findings[0]


DOCA = "https://linux.mellanox.com/public/repo/doca/3.2.0/ubuntu24.04"


@pytest.mark.parametrize(
    ("wanted", "folder", "refused"),
    [
        ("doca", "arm64-sbsa", False),
        ("doca", "x86_64", True),
        ("auto", "x86_64", True),
        ("inbox", "x86_64", False),  # whose repository goes
    ],
)
def test_a_vendors_repository_is_of_the_nodes_architecture(wanted, folder, refused):
    choice = choose(wanted, "", [card("ConnectX-7")], GRACE, [f"{DOCA}/{folder}"])
    assert len(choice.refusals) == int(refused)
    assert not refused or "is for x86_64 (amd64), and the node is arm64" in choice.refusals[0]


def test_headers_follow_the_kernels_of_each_architecture():
    images = ["linux-image-arm64", "linux-image-generic-64k", "linux-image-nvidia-64k-hwe-24.04"]
    wanted = ["linux-headers-arm64", "linux-headers-generic-64k", "linux-headers-nvidia-64k-hwe-24.04"]
    there = [*images, "linux-image-6.1.0-40-arm64", "linux-headers-6.1.0-40-arm64"]
    assert kernel_headers.to_follow(there) == wanted

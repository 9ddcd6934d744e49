"""VMs with a boot loader of their own: what is in their image, and that QEMU leaves the kernel to them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import next_boot
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import grub_cfg
from railyard.lab import apt, network, topology
from railyard.lab.nodes import vm_argv, vm_image, vm_loader
from railyard.lab.nodes.accelerator import Accelerator
from railyard.lab.process import LabError

SETTINGS = apt.AptSettings(("deb http://mirror.example/debian bookworm main",), (), ())
TCG = Accelerator("tcg", "a test")


@pytest.fixture
def lab() -> topology.Topology:
    return topology.load(topology.default_file())


def call_of(lab: topology.Topology, image: Path | None) -> list[str]:
    node = lab.nodes[0]
    links = network.LabNetwork(lab).node_links(node)
    return vm_argv.argv(lab.name, node, links, image, TCG, Path("/x,y/.lab/lab/nodes/n"))


def test_the_loaders_disk_is_booted_from_and_the_nodes_own_keep_their_names(lab: topology.Topology) -> None:
    call = call_of(lab, None)
    assert not {"-kernel", "-initrd", "-append"} & set(call)
    disks = re.findall(r"virtio-blk-pci,drive=(\w+)", " ".join(call))
    # In this order the guest finds them: /dev/vda, /dev/vdb, and this one last. What QEMU would make of a
    # drive by itself (if=virtio) comes behind them, wherever it stands.
    assert disks == ["disk", "seed", "loader"]
    drives = [call[i + 1].split(",") for i, word in enumerate(call) if word == "-drive"]
    assert [(drive[0], *drive[1:3]) for drive in drives] == [
        ("if=none", f"id={name}", f"file={file}")
        for name, file in (("disk", "disk.qcow2"), ("seed", "seed.tar"), ("loader", "loader.img"))
    ]
    assert "readonly=on" in drives[-1]
    booted = [word for word in call if "bootindex=" in word]
    assert booted == ["virtio-blk-pci,drive=loader,bootindex=1"]


def test_without_one_every_boot_takes_the_images_kernel(lab: topology.Topology) -> None:
    call = call_of(lab, Path("/images/one"))
    assert call[call.index("-kernel") + 1] == "/images/one/vmlinuz"
    assert call[call.index("-initrd") + 1] == "/images/one/initrd"
    assert call[call.index("-append") + 1] == (
        "root=/dev/vda rw console=ttyS0 quiet mitigations=off systemd.default_timeout_start_sec=600"
        " systemd.hostname=gpuserver1"
    )
    assert re.findall(r"virtio-blk-pci,drive=(\w+)", " ".join(call)) == ["disk", "seed"]
    assert "loader" not in " ".join(call)


def test_a_boot_loader_is_asked_for_and_makes_another_image(lab: topology.Topology) -> None:
    asked = dataclasses.replace(lab.image, boot_loader=True)
    plain, loading = (vm_image.recipe(image, SETTINGS) for image in (lab.image, asked))
    assert set(loading.packages) - set(plain.packages) == {"grub-pc-bin", "grub2-common"}
    assert not [path for path, _, _ in plain.files if "grub" in path]
    assert vm_image.tag(lab.image, SETTINGS) != vm_image.tag(asked, SETTINGS)


@pytest.mark.parametrize(("said", "found"), [(True, True), (False, False), (None, False)])
def test_the_topology_says_it(lab: topology.Topology, said: bool | None, found: bool) -> None:
    raw = yaml.safe_load(topology.default_file().read_text())
    if said is not None:
        raw["image"]["boot_loader"] = said
    assert topology.parse(raw, Path("t.yml")).image.boot_loader is found
    raw["image"]["boot_loader"] = "grub"
    with pytest.raises(LabError, match=r"image\.boot_loader: 'grub' is not true or false"):
        topology.parse(raw, Path("t.yml"))


def test_the_first_menu_boots_the_one_kernel_as_qemu_would() -> None:
    text = {path: text for path, _, text in vm_loader.FILES}["/boot/grub/grub.cfg"]
    menu = grub_cfg.parse_menu(text.replace("RELEASE", "6.1.0-57-amd64"))
    assert next_boot.release_of(next_boot.chosen_image(menu, {})) == "6.1.0-57-amd64"
    assert "\tlinux\t/boot/vmlinuz-RELEASE root=/dev/vda rw console=ttyS0 " in text
    assert "\tinitrd\t/boot/initrd.img-RELEASE\n" in text


def test_the_loaders_disk_is_large_enough_and_only_there_with_a_loader(tmp_path: Path) -> None:
    vm_loader.write(tmp_path, tmp_path)
    assert not (tmp_path / "loader.img").exists()
    for path, data in (
        ("usr/lib/grub/i386-pc/boot.img", b"B" * 512),
        ("boot/grub/i386-pc/core.img", b"C" * 700),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(data)
    vm_loader.write(tmp_path, tmp_path)
    assert (tmp_path / "loader.img").read_bytes() == b"B" * 512 + b"C" * 700 + bytes(2**20 - 1212)

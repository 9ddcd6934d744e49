"""VM nodes without a VM: how QEMU is called and found again, cables, image, boot loader, control socket."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import next_boot
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import grub_cfg
from railyard.base.paths import repo_root
from railyard.lab import apt, bootstrap, naming, network, topology
from railyard.lab.nodes import (
    accelerator,
    qmp,
    vm,
    vm_argv,
    vm_image,
    vm_loader,
)
from railyard.lab.nodes.accelerator import Accelerator

TCG = Accelerator("tcg", "a test")


def call_of(
    lab: topology.Topology, folder: str = "/x,y/.lab/lab/nodes/n", image: Path | None = Path("/one")
) -> list[str]:
    node = lab.nodes[0]
    links = network.LabNetwork(lab).node_links(node)
    return vm_argv.argv(lab.name, node, links, image, TCG, Path(folder))


def option(call: list[str], name: str) -> list[str]:
    return [call[i + 1] for i, word in enumerate(call) if word == name]


def test_a_qemu_is_called_as_the_topology_says_and_a_reboot_boots_again(lab: topology.Topology) -> None:
    node = replace(lab.nodes[0], memory_mib=2048, cpus=3)
    call = call_of(replace(lab, nodes=(node,)))
    assert "-no-reboot" not in call
    assert "-daemonize" in call
    found = {name: option(call, name) for name in ("-accel", "-cpu", "-m")}
    assert found == {"-accel": ["tcg,thread=multi"], "-cpu": ["qemu64"], "-m": ["2048M"]}
    assert option(call, "-smp") == ["cpus=3,maxcpus=3"]
    # A machine that can have only one is emulated without the barriers that its cards need.
    call = call_of(replace(lab, nodes=(replace(node, cpus=1),)))
    assert option(call, "-smp") == ["cpus=1,maxcpus=2"]
    # A comma of the path can split no option.
    assert [word for word in call if "x,y" in word] == ["/x,y/.lab/lab/nodes/n/qemu.pid"]


def test_a_qemu_is_found_by_lab_and_node_and_no_other_process_is(lab: topology.Topology) -> None:
    call = call_of(lab, str(repo_root() / ".lab" / "lab" / "nodes" / "gpuserver1"))
    line = "\0".join(call).encode() + b"\0"
    assert vm_argv.recognise(line, "lab") == vm_argv.Found("gpuserver1", str(repo_root()))
    # Another lab, and one whose name only begins alike.
    assert vm_argv.recognise(line, "other") is None
    assert vm_argv.recognise(line, "la") is None
    # Programs that merely mention it, and somebody else's QEMU.
    assert vm_argv.recognise(b"grep\0" + line, "lab") is None
    assert vm_argv.recognise(b"nsenter\0--net=x\0--\0" + line, "lab") is None
    assert vm_argv.recognise(b"qemu-system-x86_64\0-name\0theirs\0", "lab") is None
    assert vm_argv.recognise(b"", "lab") is None


def test_the_longest_names_fit_the_kernel() -> None:
    assert len(f"{naming.leg(99, 99)}-tap") <= 15


def test_the_image_holds_a_kernel_and_nothing_that_roles_install(
    lab: topology.Topology, settings: apt.AptSettings
) -> None:
    recipe = vm_image.recipe(lab.image, settings)
    assert set(lab.image.packages) < set(recipe.packages)
    assert "linux-image-amd64" in recipe.packages  # the cloud flavour has no rdma_rxe
    for name in recipe.packages:
        assert not re.match("rdma|ibverbs|perftest|iperf|sockperf|numactl|linux-cpupower", name)


def test_cached_packages_are_downloaded_and_not_installed(
    lab: topology.Topology, settings: apt.AptSettings
) -> None:
    image = replace(lab.image, cached_packages=("perftest", "iperf3"))
    recipe = vm_image.recipe(image, settings)
    assert not {"perftest", "iperf3"} & set(recipe.packages)
    script, *_ = [path for path, _, text in recipe.files if "--download-only" in text]
    keep = recipe.setup.index(f'chroot "$1" {script} perftest iperf3')
    # The index is of the lists that are left, and the script goes.
    assert recipe.setup[keep + 1] == f'rm "$1"{script}'
    assert recipe.setup.index('chroot "$1" apt-cache gencaches') > keep
    plain = vm_image.recipe(replace(image, cached_packages=()), settings)
    assert script not in {path for path, _, _ in plain.files}
    assert not any(script in hook for hook in plain.setup)


def test_what_the_initramfs_is_made_of_is_there_before_the_kernel(
    lab: topology.Topology, settings: apt.AptSettings
) -> None:
    recipe = vm_image.recipe(lab.image, settings)
    call = bootstrap.argv(recipe, "directory", Path("/t/root"), Path("/t/files"))
    assert "--format=directory" in call
    early = [word for word in call if word.startswith("--essential-hook=")]
    assert early == ['--essential-hook=cp -a /t/files/early/. "$1"/']
    assert all(path.startswith("/etc/initramfs-tools/") for path, _, _ in recipe.early_files)


def test_unused_images_go_and_used_ones_stay(root: Path) -> None:
    for name in ("bookworm-old", "bookworm-new"):
        vm_image.folder_of(name).mkdir(parents=True)
    node = naming.node_dir("lab", "gpuserver1")
    node.mkdir(parents=True)
    (node / "vm.json").write_text(json.dumps({"image": "bookworm-new"}))
    assert vm_image.remove_unused() == ["bookworm-old"]
    assert [path.name for path in naming.vm_images().iterdir()] == ["bookworm-new"]


def test_a_half_made_vm_is_made_of_nothing_that_anybody_asks_for(root: Path, lab: topology.Topology) -> None:
    # A name that no lab on this machine has: QEMUs that run are looked at.
    kind, node = vm.VmKind("no-lab-of-anybody"), lab.nodes[0]
    folder = naming.node_dir("no-lab-of-anybody", node.name)
    folder.mkdir(parents=True)
    (folder / "disk.qcow2").touch()
    assert kind.made_of(node, "one") not in kind.states()[node.name].made_of
    record = {"image": "one", "memory_mib": 1024, "cpus": 1, "position": 0}
    (folder / "vm.json").write_text(json.dumps(record))
    (folder / "seed.tar").touch()
    assert kind.made_of(node, "one") == kind.states()[node.name].made_of
    bigger = replace(node, memory_mib=2048)
    assert kind.made_of(bigger, "one") != kind.states()[node.name].made_of


def test_a_boot_loader_is_an_option_and_makes_another_image(
    lab: topology.Topology, settings: apt.AptSettings
) -> None:
    asked = replace(lab.image, boot_loader=True)
    plain, loading = (vm_image.recipe(image, settings) for image in (lab.image, asked))
    assert set(loading.packages) - set(plain.packages) == {"grub-pc-bin", "grub2-common"}
    assert not [path for path, _, _ in plain.files if "grub" in path]
    assert vm_image.tag(lab.image, settings) != vm_image.tag(asked, settings)


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


PANIC = "[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n"


@pytest.mark.parametrize(
    ("console", "complaint", "name", "why"),
    [
        (f"[    0.0] Linux version 6.1.0\n{PANIC}", "", "kvm", "a guest starts"),
        ("", "", "tcg", "no life"),
        ("[    0.0] Linux version 6.1.0\n[    0.3] x2apic enabled\n", "", "tcg", "after: [    0.3] x2apic"),
        ("", "qemu-system-x86_64: failed to initialize kvm: Permission denied\n", "tcg", "Permission denied"),
        # It dies after the first lines: what counts is how far the guest came.
        (
            "[    0.0] Linux version 6.1.0\n",
            "KVM: entry failed, hardware error 0x7\n",
            "tcg",
            "hardware error",
        ),
    ],
)
def test_kvm_is_used_only_where_a_guest_came_to_the_end_of_its_start(
    console: str, complaint: str, name: str, why: str
) -> None:
    found = accelerator.decide(console, complaint)
    assert found.name == name
    assert why in found.why


def test_the_answer_is_kept_for_this_boot_kernel_and_qemu_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot_id, tries = root / "boot_id", []
    boot_id.write_text("first\n")
    monkeypatch.setattr(accelerator, "_BOOT_ID", boot_id)
    monkeypatch.setattr(accelerator, "_DEVICE", root)  # something that is there
    monkeypatch.setattr(
        accelerator, "run", lambda *_args, **_options: type("Answer", (), {"stdout": "QEMU 1\n"})
    )

    def fake_trial(kernel: Path) -> tuple[str, str]:
        tries.append(kernel)
        return PANIC, ""

    monkeypatch.setattr(accelerator, "_try_kvm", fake_trial)
    for _ in range(2):
        assert accelerator.choose(Path("/k1")).name == "kvm"
    assert len(tries) == 1
    accelerator.choose(Path("/k2"))
    assert len(tries) == 2
    boot_id.write_text("second\n")
    accelerator.choose(Path("/k2"))
    assert len(tries) == 3
    (root / ".accelerator.json").write_text("{torn")
    accelerator.choose(Path("/k2"))
    assert len(tries) == 4


def test_without_a_device_nothing_is_tried(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "_DEVICE", root / "absent")
    assert accelerator.choose(Path("/k")).name == "tcg"


@pytest.fixture
def qemu(tmp_path: Path) -> Iterator[tuple[Path, list[dict]]]:
    """A control socket behind a path longer than a socket's may be; it refuses `stop`."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    heard: list[dict] = []
    with socket.socket(socket.AF_UNIX) as listener:
        (tmp_path / "s").symlink_to(folder)
        listener.bind(str(tmp_path / "s" / "qmp.sock"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:

                def send(answer: dict) -> None:
                    stream.write(json.dumps(answer).encode() + b"\n")
                    stream.flush()

                send({"QMP": {}})
                for line in stream:
                    heard.append(json.loads(line))
                    send({"event": "RTC_CHANGE"})
                    refused = heard[-1]["execute"] == "stop"
                    send({"error": {"desc": "not now"}} if refused else {"return": {"status": "running"}})

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield folder / "qmp.sock", heard
        thread.join(5)


def test_qemu_is_queried_over_its_socket(qemu: tuple[Path, list[dict]]) -> None:
    path, heard = qemu
    assert qmp.ask(path, "set_link", {"name": "link-ens6", "up": False}) == {"status": "running"}
    assert heard == [
        {"execute": "qmp_capabilities"},
        {"execute": "set_link", "arguments": {"name": "link-ens6", "up": False}},
    ]


def test_a_refusal_is_an_error_that_says_why(qemu: tuple[Path, list[dict]]) -> None:
    with pytest.raises(qmp.QmpError, match="refuses stop: not now"):
        qmp.ask(qemu[0], "stop")


def test_a_qemu_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(qmp.QmpError, match="does not answer"):
        qmp.ask(tmp_path / "qmp.sock", "stop")

"""VM nodes without a VM: how QEMU is called and found again, cables, image, accelerator, control socket."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from railyard.base.paths import repo_root
from railyard.lab import apt, bootstrap, inventory, naming, network, topology
from railyard.lab.nodes import (
    accelerator,
    container_image,
    qmp,
    vm,
    vm_argv,
    vm_cables,
    vm_image,
)
from railyard.lab.nodes.accelerator import Accelerator

SETTINGS = apt.AptSettings(("deb http://mirror.example/debian bookworm main",), (), ())
TCG = Accelerator("tcg", "a test")


@pytest.fixture
def lab() -> topology.Topology:
    return topology.load(topology.default_file())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(naming, "lab_root", lambda: tmp_path)
    return tmp_path


def call_of(
    lab: topology.Topology, position: int = 0, folder: Path = Path("/x/.lab/lab/nodes/n")
) -> list[str]:
    node = lab.nodes[position]
    links = network.LabNetwork(lab).node_links(node)
    return vm_argv.argv(lab.name, node, links, Path("/images/one"), TCG, folder)


def option(call: list[str], name: str) -> list[str]:
    return [call[i + 1] for i, word in enumerate(call) if word == name]


def test_each_cable_is_a_tap_and_a_card_with_the_nodes_mac(lab: topology.Topology) -> None:
    call = call_of(lab)
    links = network.LabNetwork(lab).node_links(lab.nodes[0])
    netdevs, cards = option(call, "-netdev"), option(call, "-device")
    assert [re.search("ifname=([^,]*)", each).group(1) for each in netdevs] == [
        "n0-mgmt-tap",
        "n0-rail0-tap",
        "n0-rail1-tap",
    ]
    cards = [card for card in cards if card.startswith("virtio-net-pci")]
    for link, netdev, card in zip(links, netdevs, cards, strict=True):
        assert f"mac={link.mac}," in card
        assert f"host_mtu={link.mtu_bytes}," in card
        # QEMU's receiving stalls with merged buffers.
        assert "mrg_rxbuf=off" in card.split(",")
        name = re.search("id=([^,]*)", netdev).group(1)
        assert f"netdev={name}," in card
        assert name == vm_argv.device(link)


def test_a_reboot_from_inside_boots_again(lab: topology.Topology) -> None:
    call = call_of(lab)
    assert "-no-reboot" not in call
    assert "-daemonize" in call
    assert option(call, "-accel") == ["tcg,thread=multi"]
    assert option(call, "-cpu") == ["qemu64"]


def test_size_follows_the_topology(lab: topology.Topology) -> None:
    node = dataclasses.replace(lab.nodes[0], memory_mib=2048, cpus=3)
    call = call_of(dataclasses.replace(lab, nodes=(node,)))
    assert option(call, "-m") == ["2048M"]
    assert option(call, "-smp") == ["3"]


def test_no_path_with_a_comma_can_split_an_option(lab: topology.Topology) -> None:
    call = call_of(lab, folder=Path("/a,b/.lab/lab/nodes/n"))
    assert [word for word in call if "a,b" in word] == ["/a,b/.lab/lab/nodes/n/qemu.pid"]


def test_a_qemu_is_found_by_lab_and_node_and_no_other_process_is(lab: topology.Topology) -> None:
    folder = repo_root() / ".lab" / "lab" / "nodes" / "gpuserver1"
    call = call_of(lab, folder=folder)
    line = "\0".join(call).encode() + b"\0"
    assert vm_argv.recognise(line, "lab") == vm_argv.Found("gpuserver1", str(repo_root()))
    # Another lab, and one whose name only begins alike.
    assert vm_argv.recognise(line, "other") is None
    assert vm_argv.recognise(line, "la") is None
    # Programs that merely speak of it, and somebody else's QEMU.
    assert vm_argv.recognise(b"grep\0" + line, "lab") is None
    assert vm_argv.recognise(b"nsenter\0--net=x\0--\0" + line, "lab") is None
    assert vm_argv.recognise(b"qemu-system-x86_64\0-name\0theirs\0", "lab") is None
    assert vm_argv.recognise(b"", "lab") is None


def test_names_follow_the_mac_and_rails_start_with_a_real_nics_mtu(lab: topology.Topology) -> None:
    links = network.LabNetwork(lab).node_links(lab.nodes[1])
    files = vm_argv.link_files(links)
    assert len(files) == 3
    for link in links:
        owner, mode, text = files[f"etc/systemd/network/90-railyard-{link.netdev}.link"]
        assert (owner, mode) == (0, 0o644)
        assert f"\nMACAddress={link.mac}\n" in text
        assert f"\nName={link.netdev}\n" in text
        assert "\nMTUBytes=1500\n" in text
        # A VLAN on a rail has its MAC too, and must keep its own name.
        assert "\nDriver=virtio_net\n" in text
    # The first file that matches wins, and on a real node that is netplan's.
    assert all(Path(path).name > "10-netplan-ens6.link" for path in files)


def test_a_cable_has_an_end_that_sends_in_each_direction(lab: topology.Topology) -> None:
    link = network.LabNetwork(lab).node_links(lab.nodes[0])[1]
    lines = vm_cables.commands(link, set())
    assert lines == [
        f"link add n0-rail0 address {link.outer_mac} mtu 9000 type veth peer name n0-rail0-in mtu 9000",
        "link add n0-rail0-br type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        "tuntap add dev n0-rail0-tap mode tap",
        "link set n0-rail0-tap mtu 9000 master n0-rail0-br up",
        "link set n0-rail0-in mtu 9000 master n0-rail0-br up",
        "link set n0-rail0-br mtu 9000 up",
        "link set n0-rail0 master rail0 up",
    ]
    assert vm_cables.senders(link) == ("n0-rail0-tap", "n0-rail0-in")
    whole = {"n0-rail0", "n0-rail0-in", "n0-rail0-br", "n0-rail0-tap"}
    assert not [line for line in vm_cables.commands(link, whole) if " add " in line]


def test_the_longest_names_fit_the_kernel() -> None:
    assert len(f"{naming.leg(99, 99)}-tap") <= 15


def test_the_image_holds_a_kernel_and_nothing_that_roles_install(lab: topology.Topology) -> None:
    recipe = vm_image.recipe(lab.image, SETTINGS)
    assert set(lab.image.packages) < set(recipe.packages)
    assert "linux-image-amd64" in recipe.packages  # the cloud flavour has no rdma_rxe
    for name in recipe.packages:
        assert not re.match("rdma|ibverbs|perftest|iperf|sockperf|numactl|linux-cpupower", name)


def test_the_images_name_follows_its_recipe(lab: topology.Topology) -> None:
    first = vm_image.tag(lab.image, SETTINGS)
    assert first == vm_image.tag(lab.image, SETTINGS)
    others = [
        vm_image.tag(topology.Image("trixie", lab.image.packages), SETTINGS),
        vm_image.tag(topology.Image("bookworm", (*lab.image.packages, "nano")), SETTINGS),
        vm_image.tag(lab.image, apt.AptSettings((), (), ())),
    ]
    assert len({first, *others}) == 4
    assert (
        vm_image.recipe(lab.image, SETTINGS).digest() != container_image.recipe(lab.image, SETTINGS).digest()
    )


def test_what_the_initramfs_is_made_of_is_there_before_the_kernel(lab: topology.Topology) -> None:
    call = bootstrap.argv(
        vm_image.recipe(lab.image, SETTINGS), "directory", Path("/t/root"), Path("/t/files")
    )
    assert "--format=directory" in call
    early = [word for word in call if word.startswith("--essential-hook=")]
    assert early == ['--essential-hook=cp -a /t/files/early/. "$1"/']
    paths = [path for path, _, _ in vm_image.recipe(lab.image, SETTINGS).early_files]
    assert all(path.startswith("/etc/initramfs-tools/") for path in paths)


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
    bigger = dataclasses.replace(node, memory_mib=2048)
    assert kind.made_of(bigger, "one") != kind.states()[node.name].made_of


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


def test_qemu_is_asked_over_its_socket(qemu: tuple[Path, list[dict]]) -> None:
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


def containers(lab: topology.Topology) -> topology.Topology:
    return dataclasses.replace(lab, nodes=tuple(dataclasses.replace(n, kind="container") for n in lab.nodes))


def test_the_committed_fabric_is_what_the_default_topology_gives(lab: topology.Topology) -> None:
    assert inventory.committed_file().read_text() == inventory.content(lab)


def test_the_quick_lab_differs_by_its_kind_alone(lab: topology.Topology) -> None:
    quick = topology.load(topology.default_file().with_name("topology-container.yml"))
    assert quick == containers(lab)


def test_transport_follows_the_poorest_node(lab: topology.Topology) -> None:
    vms = yaml.safe_load(inventory.content(lab) or "")
    assert (vms["fabric"]["transport"], vms["fabric"]["node_class"]) == ("roce", "virtual")
    assert [rail["hca"] for rail in vms["fabric"]["rails"]] == ["rxe0:1", "rxe1:1"]
    assert vms["rdma_stack_provider"] == "soft_roce"
    mixed = dataclasses.replace(lab, nodes=(containers(lab).nodes[0], lab.nodes[1]))
    for poorer in (containers(lab), mixed):
        found = yaml.safe_load(inventory.content(poorer) or "")
        assert (found["fabric"]["transport"], found["fabric"]["node_class"]) == ("tcp", "container")
        assert not [rail for rail in found["fabric"]["rails"] if "hca" in rail]
        assert "rdma_stack_provider" not in found


def test_declared_rates_and_more_nodes_reach_the_inventory(lab: topology.Topology) -> None:
    third = dataclasses.replace(lab.nodes[0], name="gpuserver3", address=ipaddress.IPv4Address("198.18.0.3"))
    rails = (dataclasses.replace(lab.rails[0], rate_gbps=2.5), lab.rails[1])
    wanted = dataclasses.replace(lab, nodes=(*lab.nodes, third), rails=rails)
    fabric = yaml.safe_load(inventory.content(wanted) or "")["fabric"]
    assert fabric["cabling"] == "switched"
    assert [rail.get("rate_gbps") for rail in fabric["rails"]] == [2.5, None]


def test_only_the_built_in_lab_writes_into_the_inventory(
    root: Path, lab: topology.Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "repo_root", lambda: root / "checkout")
    other = dataclasses.replace(lab, name="other")
    assert inventory.write(other)[-1] == root / "other" / "generated.yml"
    file = inventory.write(lab)[-1]
    assert file == root / "checkout" / "inventories" / "lab" / "group_vars" / "gpu_nodes" / "generated.yml"
    assert file.read_text() == inventory.content(lab)
    inventory.remove("lab")
    assert not file.parent.exists()
    inventory.remove("lab")
    bare = dataclasses.replace(lab, rails=(dataclasses.replace(lab.rails[0], subnet=None),))
    assert inventory.write(bare) == []

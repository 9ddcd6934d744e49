from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from railyard.lab import (
    apt,
    bootstrap,
    cpu_tree,
    host,
    keys,
    naming,
    network,
    seed,
    topology,
)
from railyard.lab.host import Host
from railyard.lab.nodes import container_image, vm_image
from railyard.lab.nodes.container import create_arguments
from railyard.lab.process import LabError

HYBRID = Host(hybrid_cgroups=True, systemd=False, nofile=20000, nproc=8192, memlock_bytes=8388608)
PLAIN = Host(hybrid_cgroups=False, systemd=True, nofile=1048576, nproc=8192, memlock_bytes=-1)


def test_podman_gets_a_mount_namespace_on_hybrid_cgroups_alone() -> None:
    assert PLAIN.podman("ps") == ["podman", "ps"]
    argv = HYBRID.podman("ps", "--all")
    assert argv[:4] == ["unshare", "--mount", "--propagation", "private"]
    # What varies is passed as arguments of the shell, never written into its script.
    assert argv[-4:] == ["podman", "--cgroup-manager=cgroupfs", "ps", "--all"]
    script = argv[argv.index("-c") + 1]
    assert script.endswith('exec "$@"')
    assert "ps" not in script.split()


def test_a_user_becomes_root_by_sudo_with_the_same_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("os.execvp", lambda _file, argv: calls.append(argv))
    monkeypatch.setattr("shutil.which", lambda *_args, **_kwargs: "/usr/bin/sudo")
    monkeypatch.setenv("PATH", "/usr/bin")
    host.become_root(["up", "--name", "lab"])
    assert calls[0][0] == "sudo"
    assert calls[0][-5:] == ["-m", "railyard.lab.cli", "up", "--name", "lab"]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    host.become_root(["up"])
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("kind", "packages"),
    [("vm", ["iproute2", "qemu-system-x86", "qemu-utils"]), ("container", ["iproute2", "podman"])],
)
def test_what_a_labs_kinds_need_comes_with_the_one_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, packages: list[str]
) -> None:
    absent = ("tc", "podman", "qemu-system-x86_64", "qemu-img")
    monkeypatch.setattr("shutil.which", lambda tool, path=None: None if tool in absent else "/bin/x")
    monkeypatch.setattr(host, "_KEYRING", Path("/"))
    with pytest.raises(LabError) as caught:
        host.require_tools([kind])
    assert str(caught.value).endswith(f"apt-get install --no-install-recommends {' '.join(packages)}")


def test_more_containers_than_the_kernel_has_room_for_are_refused_before_any_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(host, "_INSTANCES", tmp_path / "instances")
    host.require_room(1000)  # not known
    (tmp_path / "instances").write_text("128\n", encoding="ascii")
    host.require_room(16)
    with pytest.raises(LabError, match=r"32 containers need some 256 .*allows 128") as caught:
        host.require_room(32)
    assert "sysctl -w fs.inotify.max_user_instances=512" in str(caught.value)


def test_a_container_cannot_write_what_is_the_hosts(lab: topology.Topology) -> None:
    arguments = create_arguments("lab", lab.nodes[0], "image", Path("/state"), HYBRID)
    volumes = [
        argument.removeprefix("--volume=") for argument in arguments if argument.startswith("--volume=")
    ]
    for tree in ("/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/fs", "/sys/kernel/mm"):
        if Path(tree).is_dir():
            assert f"{tree}:{tree}:ro" in volumes
    assert not [volume for volume in volumes if "/proc/sys/net" in volume]
    assert "/state/cpu:/sys/devices/system/cpu" in volumes
    assert "--network=none" in arguments
    assert "--ulimit=nofile=20000:20000" in arguments
    assert arguments[-2:] == ["image", container_image.ENTRY_POINT]


def test_each_node_has_management_and_all_rails_with_macs_of_its_own(lab: topology.Topology) -> None:
    links = [link for node in lab.nodes for link in network.LabNetwork(lab).node_links(node)]
    assert [link.netdev for link in links] == ["enp5s0", "ens6", "ens6d1"] * 2
    assert [link.bridge for link in links] == ["mgmt", "rail0", "rail1"] * 2
    assert [link.mtu_bytes for link in links] == [1500, 9000, 9000] * 2
    macs = [mac for link in links for mac in (link.mac, link.outer_mac)]
    assert len(set(macs)) == 12
    # Locally administered (bit 1) and unicast (bit 0 clear).
    assert {int(mac[:2], 16) & 3 for mac in macs} == {2}
    assert all(len(link.outer) <= 15 for link in links)


def test_names_of_one_lab_are_never_a_prefix_match_of_another() -> None:
    assert not naming.on_host("labx", "gpuserver1").startswith(naming.on_host("lab", ""))
    assert len(naming.controller_link("a" * 12)) == 15


@pytest.mark.parametrize(
    ("rate_gbps", "rate", "burst_bytes"),
    [
        (10.0, "10000000000bit", 5_000_000),  # 10e9 bit/s / 8 * 4 ms
        (0.1, "100000000bit", 131_072),  # 4 ms would be 50,000: less than one 64 KiB segment
        (2.5, "2500000000bit", 1_250_000),
    ],
)
def test_shaping(rate_gbps: float, rate: str, burst_bytes: int) -> None:
    expected = ["tbf", "rate", rate, "burst", str(burst_bytes), "latency", "50ms"]
    assert network.tbf_arguments(rate_gbps) == expected


def test_the_bootstrap_uses_the_hosts_mirror_and_proxy(
    lab: topology.Topology, settings: apt.AptSettings
) -> None:
    recipe = container_image.recipe(lab.image, settings)
    argv = bootstrap.argv(recipe, "tar", Path("/t/node.tar"), Path("/t/a folder"))
    assert argv[0] == "unshare"
    assert "mmdebstrap" in argv
    assert argv[-3:] == ["bookworm", "/t/node.tar", "deb http://mirror.example/debian bookworm main"]
    assert '--aptopt=Acquire::http::Proxy "http://proxy.example:3142";' in argv
    assert "--customize-hook=cp -a --remove-destination '/t/a folder/late'/. \"$1\"/" in argv
    include = next(argument for argument in argv if argument.startswith("--include="))
    assert "netplan.io" in include.removeprefix("--include=").split(",")


@pytest.mark.parametrize("kind", [container_image, vm_image])
def test_the_images_name_follows_what_it_is_made_of(
    kind: Any, lab: topology.Topology, settings: apt.AptSettings
) -> None:
    image = lab.image
    all_made_of = [
        (image, settings),
        (replace(image, suite="trixie"), settings),
        (replace(image, packages=(*image.packages, "nano")), settings),
        (image, replace(settings, options=())),
        (image, replace(settings, sources=())),
        (image, replace(settings, certificates=(("a.crt", b"new"),))),
    ]
    assert len({kind.tag(*made_of) for made_of in all_made_of}) == 6
    assert kind.tag(image, settings) == kind.tag(image, settings)
    assert container_image.recipe(image, settings).digest() != vm_image.recipe(image, settings).digest()


TARGETS = """\
http://deb.example/debian-security/|bookworm-security|main
http://deb.example/debian/|bookworm-updates|main
http://deb.example/debian/|bookworm|main
http://deb.example/debian/|bookworm|contrib
https://elsewhere.example/node_20.x/|nodistro|main
"""


@pytest.mark.parametrize(
    ("targets", "suite", "sources"),
    [
        (
            TARGETS,
            "bookworm",
            ("debian bookworm", "debian-security bookworm-security", "debian bookworm-updates"),
        ),
        # A host of another release lends its mirror.
        (TARGETS, "trixie", ("debian trixie", "debian-security trixie-security", "debian trixie-updates")),
        # One that is no Debian leaves the mirror to mmdebstrap.
        ("http://deb.example/ubuntu/|noble|main\n", "bookworm", ()),
        # Ubuntu's tools are in universe; and a Debian host has no mirror of Ubuntu's to lend.
        ("http://deb.example/ubuntu/|noble|main\n", "noble", ("ubuntu noble main universe",)),
        (TARGETS, "noble", ()),
    ],
)
def test_sources_are_those_of_the_host(targets: str, suite: str, sources: tuple[str, ...]) -> None:
    lines = [each if each.endswith("universe") else f"{each} main" for each in sources]
    assert apt.sources(targets, suite) == tuple(f"deb http://deb.example/{line}" for line in lines)


DUMP = """\
APT::Architecture "amd64";
Acquire::http::Proxy "http://proxy.example:3142";
Acquire::http::Proxy::internal.example "DIRECT";
Acquire::http::Proxy-Auto-Detect "/usr/local/bin/find-proxy";
Acquire::https::CaInfo "/etc/ssl/own.pem";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
DPkg::Post-Invoke:: "rm -f /var/cache";
"""


def test_options_are_those_about_transport_that_make_sense_elsewhere() -> None:
    assert apt.options(DUMP, {}) == (
        'Acquire::http::Proxy "http://proxy.example:3142";',
        'Acquire::http::Proxy::internal.example "DIRECT";',
        'Acquire::Check-Valid-Until "false";',
    )


def test_a_proxy_of_the_environment_serves_where_apt_has_none() -> None:
    environment = {"http_proxy": "http://ignored.example:1", "https_proxy": "http://proxy.example:2"}
    assert apt.options('Acquire::http::Proxy "http://set.example:3";\n', environment) == (
        'Acquire::http::Proxy "http://set.example:3";',
        'Acquire::https::Proxy "http://proxy.example:2";',
    )


def test_the_seed_keeps_secrets_secret(lab: topology.Topology, tmp_path: Path) -> None:
    made = keys.Keys(tmp_path)
    (tmp_path / "hosts").mkdir()
    for name in ("id_ed25519.pub", "hosts/gpuserver1", "hosts/gpuserver1.pub"):
        (tmp_path / name).write_text(f"text of {name}\n")
    content = seed.files(lab, lab.nodes[0], made)
    with tarfile.open(fileobj=io.BytesIO(seed.archive(content))) as tar:
        entries = {entry.name: entry for entry in tar}
        key = tar.extractfile("etc/ssh/ssh_host_ed25519_key")
        assert key is not None
        assert key.read() == b"text of hosts/gpuserver1\n"
    assert entries["etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert entries["etc/netplan/01-management.yaml"].mode == 0o600
    assert entries["home/railyard/.ssh"].mode == 0o700
    assert (entries["home/railyard/.ssh/authorized_keys"].uid, entries["etc/hosts"].uid) == (1000, 0)
    assert not [name for name in entries if "id_ed25519" in name]
    assert seed.archive(content) == seed.archive(dict(reversed(content.items())))


def test_ssh_trusts_no_key_that_the_lab_did_not_make(lab: topology.Topology) -> None:
    argv = keys.Keys(Path("/k")).ssh_argv(lab.nodes[0], "true")
    assert argv[-2:] == ["railyard@198.18.0.1", "true"]
    assert "StrictHostKeyChecking=yes" in argv
    assert "UserKnownHostsFile=/k/known_hosts" in argv
    assert argv[1:3] == ["-F", "none"]


def test_a_nodes_cpu_tree_is_its_own(tmp_path: Path) -> None:
    machine, node = tmp_path / "host", tmp_path / "node"
    for cpu in ("cpu0", "cpu1"):
        (machine / cpu / "topology").mkdir(parents=True)
        (machine / cpu / "topology" / "core_id").write_text("7\n")
    (machine / "cpufreq").mkdir()
    (machine / "cpufreq" / "boost").write_text("1\n")
    (machine / "online").write_text("0-1\n")
    (machine / "cpu0" / "subsystem").symlink_to("../../../../bus/cpu")
    cpu_tree.build(node, machine)
    assert (node / "online").read_text() == "0-1\n"
    assert (node / "cpu1" / "topology" / "core_id").read_text() == "7\n"
    assert (node / "cpu0" / "subsystem").readlink() == Path("../../../../bus/cpu")
    assert not (node / "cpufreq" / "boost").exists()
    governor = node / "cpu1" / "cpufreq" / "scaling_governor"
    assert governor.read_text() == "powersave\n"
    governor.write_text("performance\n")
    assert (node / "cpufreq" / "policy1" / "scaling_governor").read_text() == "performance\n"
    assert (node / "cpu0" / "cpufreq" / "scaling_governor").read_text() == "powersave\n"
    idle = node / "cpu1" / "cpuidle" / "state3"
    assert ((idle / "latency").read_text(), (idle / "disable").read_text()) == ("133\n", "0\n")
    # A boot forgets what was set, in the same folder: a stopped node's mount refers to it.
    inode = node.stat().st_ino
    cpu_tree.build(node, machine)
    assert governor.read_text() == "powersave\n"
    assert node.stat().st_ino == inode

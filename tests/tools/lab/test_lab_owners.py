"""Whose a running lab is, found before there is a virtual environment; a second one is refused."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path

import pytest
from railyard.base.paths import repo_root
from railyard.lab import demo, lifecycle, network, owners, state, status, topology, wiring
from railyard.lab.nodes import NodeState
from railyard.lab.process import LabError
from support.programs import run

SUBNET = ipaddress.IPv4Network("198.18.0.0/24")


class Host:
    """A host's processes and network namespaces, as files."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.netns, self.checkout = folder / "proc", folder / "netns", folder / "other"
        for made in (self.proc, self.netns, self.checkout):
            made.mkdir()
        (self.proc / "self").mkdir()

    def process(self, pid: int, *words: str, output: str = "/dev/null") -> None:
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "cmdline").write_bytes("".join(f"{word}\0" for word in words).encode())
        (folder / "fd" / "1").symlink_to(output)

    def labs(self) -> dict[str, str]:
        return owners.running_labs(self.proc, self.netns)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_lab_of_virtual_machines_is_found_by_qemu_s_command_line(host: Host) -> None:
    pid_file = f"{host.checkout}/.lab/lab/nodes/gpuserver1/qemu.pid"
    host.process(7, "/usr/bin/qemu-system-x86_64", "-name", "railyard-lab-gpuserver1", "-pidfile", pid_file)
    host.process(8, "/usr/bin/qemu-system-x86_64", "-name", "windows", "-pidfile", "/run/windows.pid")
    host.process(9, "vi", f"{host.checkout}/.lab/notes/nodes/gpuserver1/qemu.pid")
    assert host.labs() == {"lab": str(host.checkout)}


def test_a_lab_of_containers_is_found_by_its_namespace_and_the_log_of_its_way_out(host: Host) -> None:
    for name in ("railyard-lab", "railyard-lab-stranger-0-1", "railyard-mine", "docker"):
        (host.netns / name).touch()
    log = f"{host.checkout}/.lab/lab/slirp4netns.log"
    host.process(7, "slirp4netns", "--configure", "/run/netns/railyard-lab", "tap0", output=log)
    host.process(8, "slirp4netns", "/run/netns/docker", "tap0", output="/.lab/x/y")
    assert host.labs() == {"lab": str(host.checkout), "mine": ""}


def test_a_host_that_shows_nothing_has_no_labs(tmp_path: Path) -> None:
    assert owners.running_labs(tmp_path / "proc", tmp_path / "netns") == {}
    assert owners.routes_of_host(tmp_path / "route") == []


def test_a_checkout_that_was_deleted_or_is_this_one_blocks_no_lab(tmp_path: Path) -> None:
    assert not owners.is_foreign("", tmp_path)
    assert not owners.is_foreign(str(tmp_path), tmp_path)
    assert not owners.is_foreign(str(tmp_path / "deleted"), tmp_path)
    assert owners.is_foreign(str(tmp_path), tmp_path / "other")


def test_the_routes_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    table = tmp_path / "route"
    # 198.18.0.0/24 by ry-lab, a default route, 10.0.0.0/8 by eth1; numbers are of a little-endian machine.
    lines = [
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT",
        "ry-lab\t000012C6\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
        "eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0",
        "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0",
        "torn",
    ]
    table.write_text("\n".join(lines))
    if sys.byteorder == "little":
        assert owners.routes_of_host(table) == [
            owners.Route(SUBNET, "ry-lab"),
            owners.Route(ipaddress.IPv4Network("10.0.0.0/8"), "eth1"),
        ]


@pytest.mark.parametrize(
    ("network", "link", "labs", "parts"),
    [
        ("198.18.0.0/24", "ry-lab", {}, None),
        ("198.19.0.0/24", "eth1", {}, None),
        ("198.18.0.0/16", "eth1", {}, ["by eth1", "remove that route", "another subnet in t.yml"]),
        (
            "198.18.0.0/24", "ry-mine", {"mine": "/other"},
            ["belongs to lab mine of checkout /other", "cd /other &&", "down --name mine --force", "t.yml"],
        ),
        ("198.18.0.0/24", "ry-mine", {}, ["belongs to lab mine", "in its checkout: ", "--name mine --force"]),
    ],
)  # fmt: skip
def test_a_network_in_use_is_refused_with_its_owner_and_the_ways_out(
    network: str, link: str, labs: dict[str, str], parts: list[str] | None
) -> None:
    routes = [owners.Route(ipaddress.IPv4Network("10.0.0.0/8"), "eth0")]
    routes.append(owners.Route(ipaddress.IPv4Network(network), link))
    refusal = owners.refuse_network("lab", SUBNET, routes, labs, "t.yml")
    assert (refusal is None) == (parts is None)
    if refusal is not None:
        assert [part for part in parts or () if part not in f"{refusal.message}\n{refusal.fix}"] == []


@pytest.mark.parametrize("kind", demo.TOPOLOGIES)
def test_name_and_network_are_read_from_the_topology_as_a_library_reads_them(kind: str) -> None:
    file = topology.default_file().with_name(demo.TOPOLOGIES[kind])
    wanted = topology.load(file)
    assert demo.name_and_subnet(file.read_text()) == (wanted.name, wanted.management.subnet)


def test_a_demo_is_refused_where_another_checkout_s_lab_is_up(tmp_path: Path) -> None:
    refusal = demo.refusal("vm", repo_root(), [], {"lab": str(tmp_path)})
    assert refusal is not None
    assert refusal.message.endswith(f"started from another checkout, {tmp_path}")
    assert f"cd {tmp_path} && .venv/bin/railyard lab down" in refusal.fix
    assert "from here: make setup && .venv/bin/railyard lab down --force" in refusal.fix
    assert demo.refusal("vm", repo_root(), [], {"lab": str(repo_root()), "other": str(tmp_path)}) is None


def test_up_and_down_refuse_with_the_same_message(tmp_path: Path) -> None:
    found = {"container": {"gpuserver1": NodeState("running", 7, "", str(tmp_path))}}
    with pytest.raises(LabError) as caught:
        lifecycle._refuse_foreign(found, "lab")
    refusal = owners.refuse_name("lab", str(tmp_path))
    assert str(caught.value) == f"{refusal.message}\n  fix: {refusal.fix}"


def test_a_network_in_use_is_refused_when_the_lab_comes_up(
    lab: topology.Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = [{"dst": "default", "dev": "eth0"}, {"dst": "198.18.0.0/24", "dev": "ry-mine"}, {"dev": "eth0"}]
    monkeypatch.setattr(network, "read_json", lambda _argv: routes)
    with pytest.raises(LabError, match="it belongs to lab mine"):
        network.LabNetwork(lab).check_overlap()
    routes.pop(1)
    network.LabNetwork(lab).check_overlap()


@pytest.mark.usefixtures("root")
def test_a_network_in_use_is_refused_before_anything_is_built(
    lab: topology.Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("require_tools", "require_room"):
        monkeypatch.setattr(lifecycle.host, name, lambda _: None)
    monkeypatch.setattr(lifecycle, "_look", lambda _kinds: {"vm": {}})
    monkeypatch.setattr(network, "read_json", lambda _argv: [{"dst": "198.18.0.0/24", "dev": "ry-mine"}])
    with pytest.raises(LabError, match="it belongs to lab mine"):
        lifecycle.up(lab, lambda line: pytest.fail(f"it went on: {line}"))


class Kind:
    """Nodes that another checkout has up."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = str(checkout)

    def states(self) -> dict[str, NodeState]:
        return {"gpuserver1": NodeState("running", 11, "", self.checkout)}


@pytest.mark.usefixtures("root")
def test_status_says_whose_lab_it_is_and_nothing_else_of_it(
    lab: topology.Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "running_labs", dict)
    monkeypatch.setattr(network.Namespace, "exists", lambda _self: True)
    monkeypatch.setattr(network, "slirp_pids", lambda _name: [5])
    made = wiring.Lab.from_topology(lab)
    state.save(state.State("lab", "/t.yml", [state.Fault("link_down", "gpuserver1/rail0", "then")]))
    found = status.collect(wiring.Lab(lab, made.network, {"vm": Kind(tmp_path)}, made.keys))
    assert (found["up"], found["other_checkout"]) == (False, str(tmp_path))
    assert (found["namespace"], found["way_out"]) == (None, False)
    assert found["faults"] == []
    assert {node["condition"] for node in found["nodes"].values()} == {"absent"}
    text = status.text(found)
    assert text.splitlines()[0] == f"lab lab: not up from this checkout ({repo_root()})"
    assert f"started from another checkout, {tmp_path}" in text
    assert "gpuserver1" not in text


@pytest.mark.parametrize(
    "arguments", [["before", "vm"], ["before", "container"], ["booted", "vm"], ["failed", "vm"]]
)
def test_it_runs_without_any_library(arguments: list[str]) -> None:
    # -S: without the packages of this environment; what it finds of this machine is not judged here.
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(repo_root() / "tools")}
    done = run([sys.executable, "-S", "-m", "railyard.lab.demo", *arguments], env=environment, cwd="/")
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed program by the Pythons of nodes, on a node of files: its line, exit status and last look."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import bounded, program
from ansible_collections.railyard.fabric.plugins.module_utils.quick import device_names, loopback
from support.nodes.files import write
from support.nodes.gpu_node import PROPRIETARY_535, GpuNode
from support.nodes.sysfs_tree import addresses

REPO = Path(__file__).parents[9]
OLDEST = sorted(map(str, Path.home().glob(".pyenv/versions/3.9.*/bin/python")))
SYSTEM = [path for path in ("/usr/bin/python3",) if Path(path).exists()]
SMI = """#!/bin/sh
case $1 in
--query-gpu=*) echo "pci.bus_id, name, ecc.errors.uncorrected.volatile.total, pcie.link.width.current"
  echo "00000000:17:00.0, NVIDIA A100-SXM4-80GB, 0, 16" ;;
nvlink) ;;
*) echo "gpu_bus_id, remapped_rows.pending, remapped_rows.failure"
  echo "00000000:17:00.0, 0, 0" ;;
esac
"""
# The client's output is a real one's, the server waits for any client on the loopback.
WRITE_BW = """#!/usr/bin/python3
import socket, sys
from pathlib import Path
words = sys.argv[1:]
port = int(words[words.index("-p") + 1])
if words[-1] == "127.0.0.1":
    socket.create_connection(("127.0.0.1", port)).close()
    print(Path(__file__).with_name("client.txt").read_text())
else:
    with socket.create_server(("", port)) as server:
        server.accept()
"""


class Node(GpuNode):
    """Two rails with RDMA ports, a GPU, and the programs that are run."""

    def __init__(self, root: Path, tmp_path: Path) -> None:
        super().__init__(root)
        self.host()
        self.kept, self.bin = tmp_path / "kept", tmp_path / "bin"
        self.bin.mkdir()
        self.rails = []
        for number, netdev in enumerate(("ens6", "ens7")):
            card = self.pci(f"0000:0{number + 5}:00.0", "mlx5_core")
            address = f"10.0.{number}.1/24"
            self.netdev(netdev, card, addresses(address), speed=40000, address=f"02:00:00:00:00:0{number}")
            self.write(f"sys/class/net/{netdev}/statistics/rx_crc_errors", 3)
            self.port(f"mlx5_{number}", 1, card)
            self.rails.append(
                {"name": f"rail{number}", "netdev": netdev, "hca": f"mlx5_{number}:1", "address": address}
                | {"mtu": 9000, "rate_gbps": 40}
            )
        self.function("0000:17:00.0", 0x20B2)
        self.load("535.183.01", PROPRIETARY_535)
        self.tool("nvidia-smi", SMI)
        self.expect = tmp_path / "quick.json"
        self.expects()

    def tool(self, name: str, text: str) -> None:
        write(self.bin, name, text, 0o755)

    def expects(self, **change: object) -> None:
        wanted = {"schema": 1, "node": "gpuserver1", "transport": "tcp", "node_class": "hardware"}
        wanted["gpus"] = {"count": 1}
        wanted |= {"rails": self.rails, "governor": "performance"}
        self.expect.write_text(json.dumps(wanted | change))

    def look(self, *words: str, python: str = sys.executable) -> tuple[int, str]:
        self.tool("ip", f"#!/bin/sh\ncat <<'END'\n{self.ip_json()}\nEND\n")
        packed = self.bin / "quick.pyz"
        packed.write_bytes(PACKED)
        argv = [python, "-I", str(packed), "--expect", str(self.expect), "--folder", str(self.kept)]
        done = subprocess.run(
            [*argv, "--root", str(self.root), *words],
            capture_output=True, text=True, check=False, env={"PATH": f"{self.bin}:/usr/bin:/bin"},
        )  # fmt: skip
        assert done.stderr == ""
        assert done.stdout.endswith("\n")
        assert done.stdout.count("\n") == 1
        return done.returncode, done.stdout.rstrip("\n")


def patient(name: str) -> str | None:
    """Read a module with ten times its limits: here the look is tested, and not whether it ends in time."""
    return (
        re.sub(
            r"(?m)^(_?(?:LIMIT|EACH|GPU|IP|LISTENS|LOCK_WAIT)_S = [0-9.]+)$",
            r"\1 * 10",
            program.loaded(name) or "",
        )
        or None
    )


PACKED = program.build("quick.main", patient)
GOOD = "railyard quick: gpuserver1: good: 2 rails, governor performance, 1 GPU"


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path / "root", tmp_path)


@pytest.mark.parametrize("python", dict.fromkeys([sys.executable, *SYSTEM, *OLDEST]))
def test_looks_one_after_the_other(node, python):
    assert node.look(python=python) == (0, f"{GOOD}; first look at the error counters")
    good = GOOD.replace("1 GPU", "no error counter grew in 0 min").replace("governor performance, ", "")
    assert node.look(python=python) == (0, f"{good}, governor performance, 1 GPU")
    node.write("sys/class/net/ens7/statistics/rx_crc_errors", 4)
    # Somebody else has a last look of its own, and one that is not kept takes nothing away.
    assert node.look("--as", "slurm", python=python)[0] == 0
    for words in (["--no-keep"], []):
        status, line = node.look(*words, python=python)
        assert (status, line.partition(": WRONG: ")[2]) == (
            1, "link_errors: rail1: netdev.rx_crc_errors grew by 1",
        )  # fmt: skip
    assert node.look(python=python)[0] == 0
    node.write("proc/sys/kernel/random/boot_id", "another")
    assert node.look(python=python) == (0, f"{GOOD}; first look after a reboot at the error counters")


def test_an_xid_is_reported_by_the_look_that_comes_after_it(node):
    fallen = "NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus."
    assert node.look()[0] == 0
    node.log("Linux version 6.1.0-28-amd64", fallen)
    status, line = node.look()
    assert (status, "gpu_xid: 0000:17:00: XID 79" in line) == (1, True)
    assert node.look()[0] == 0
    # After a boot the log's numbers begin anew.
    node.write("proc/sys/kernel/random/boot_id", "another")
    node.log(fallen)
    assert node.look()[0] == 1


def test_each_thing_that_is_wrong_is_reported_once(node):
    node.write("sys/class/net/ens6/mtu", 1500)
    node.write("sys/class/net/ens7/carrier", 0)
    node.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave")
    node.expects(gpus={"count": 8})
    status, line = node.look()
    assert status == 1
    for said in (
        "mtu_differs: rail0 (ens6) has 1500, the plan's is 9000",
        "link_down: rail1 (ens7)",
        "governor: performance on 3 CPUs, powersave on 1 CPUs, performance is expected",
        "gpu_missing: 1 NVIDIA GPUs on the PCI bus, 8 expected",
    ):
        assert line.count(said) == 1, said
    node.expects(rails=[{**node.rails[0], "netdev": "ens9"}])
    assert node.look()[1].count("netdev_missing") == 1


def test_rdma_is_looked_at_where_it_is_declared(node):
    node.expects(transport="roce")
    status, line = node.look()
    assert (status, line.count("no_gid: rail")) == (1, 2)
    for number in (0, 1):
        port = f"sys/class/infiniband/mlx5_{number}/ports/1"
        node.gid(port, 3, f"0000:0000:0000:0000:0000:ffff:0a00:0{number}01", "RoCE v2", f"ens{number + 6}")
    # What sysfs lacks is read from libibverbs, and on a tree of files there is no device to open.
    status, line = node.look()
    assert (status, line.count("not known: rdma_mtu_unknown: rail")) == (3, 2)


def test_files_that_name_devices_by_their_names_before_the_reboot_are_reported(node):
    """Ubuntu's rdma-core called mlx5_0 at 05:00.0 rocep5s0 at the first reboot; no job of NCCL's starts."""
    node.write("etc/nccl.conf", "NCCL_NET=IB\nNCCL_IB_HCA==mlx5_0:1,mlx5_1:1")
    node.write("etc/railyard/ucx.env", "UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1")
    node.expects(transport="roce", rails=[{**rail, "hca": None} for rail in node.rails])
    assert "device names" not in node.look()[1]
    for number in (0, 1):
        device = node.root / f"sys/class/infiniband/mlx5_{number}"
        device.rename(device.with_name(f"rocep{number + 5}s0"))
    status, line = node.look()
    assert status == 1
    said = (
        "device names: /etc/nccl.conf, /etc/railyard/ucx.env: no device is called mlx5_0:1, mlx5_1:1; "
        "the rails' ports are rocep5s0:1, rocep6s0:1 now. "
        "Fix: railyard provision -i INVENTORY -- --tags nccl --limit gpuserver1"
    )
    assert said in line
    # What the role writes then.
    node.write("etc/nccl.conf", "NCCL_NET=IB\nNCCL_IB_HCA==rocep5s0:1,rocep6s0:1")
    node.write("etc/railyard/ucx.env", "UCX_NET_DEVICES=rocep5s0:1,ens6")
    assert "device names" not in node.look()[1]


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("NCCL_IB_HCA==mlx5_0,mlx5_9:1", ["mlx5_9:1"]),
        ("NCCL_IB_HCA==mlx5_0:2", ["mlx5_0:2"]),
        ("NCCL_IB_HCA=mlx5", []),  # a prefix of what is there
        ("NCCL_IB_HCA=bnxt", ["bnxt"]),
        ("NCCL_IB_HCA=^=mlx5_9", []),  # leaves out what is not there
        ("NCCL_IB_HCA==mlx5_0, mlx5_1", []),  # not read as it is meant: lint-nccl's
        ("# NCCL_IB_HCA==mlx5_9:1", []),
        ("UCX_NET_DEVICES=all", []),
        ("UCX_NET_DEVICES=ens6,mlx5_1:1,mlx4_0:1", ["mlx4_0:1"]),
    ],
)
def test_what_counts_as_a_device_that_is_not_there(text, gone):
    assert device_names.missing(text, ["mlx5_0:1", "mlx5_1:1"]) == gone


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda node: node.expect.write_text("{"), "expectation: {expect}: not JSON"),
        (lambda node: node.expect.unlink(), "expectation: {expect}: No such file or directory"),
        (lambda node: node.kept.write_text(""), "error counters: {kept}"),
        (lambda node: (node.kept.mkdir(), (node.kept / "local.json").write_text("{")), "not a record of a"),
        (lambda node: node.tool("nvidia-smi", "#!/bin/sh\nexit 9\n"), "gpu_unknown: nvidia-smi ended with 9"),
        (lambda node: node.links.clear(), "addresses: `ip -d -j addr` gave no JSON"),
        (lambda node: node.expects(governor="performance", node_class="virtual", rails=[], gpus=None)
         or [path.unlink() for path in node.root.glob("sys/devices/system/cpu/*/cpufreq/scaling_governor")],
         "governor: this virtual node has no cpufreq"),
    ],
)  # fmt: skip
def test_what_could_not_be_looked_at_is_reported_and_is_no_good(node, spoil, said):
    spoil(node)
    status, line = node.look()
    assert status == 3
    assert said.format(expect=node.expect, kept=node.kept) in line


def test_a_container_needs_no_governor(node):
    for path in node.root.glob("sys/devices/system/cpu/*/cpufreq/scaling_governor"):
        path.unlink()
    node.expects(node_class="container")
    assert node.look() == (
        0,
        GOOD.replace(", governor performance", "") + "; first look at the error counters",
    )


def test_the_loopback_is_reported_and_has_to_be_there(node):
    status, line = node.look("--loopback")
    assert status == 3 or Path("/usr/bin/ib_write_bw").exists()
    client = Path(__file__).parent.with_name("parsers") / "fixtures/perftest/write_bw_gbps_client.txt"
    (node.bin / "client.txt").write_text(client.read_text())
    node.tool("ib_write_bw", WRITE_BW)
    status, line = node.look("--loopback")
    # The first row of that client is of 99.00 Gbit/s.
    assert (status, line.count("Gbit/s")) == (0, 2)
    assert "loopback mlx5_0:1 99.0 Gbit/s, loopback mlx5_1:1 99.0 Gbit/s" in line
    # A number without any work behind it, or of a program that ended badly, is none.
    for words, ending in (("0.00", ""), ("99.00", "; sys.exit(1)")):
        (node.bin / "client.txt").write_text(client.read_text().replace("99.00", words))
        node.tool("ib_write_bw", WRITE_BW.replace("read_text())", f"read_text()){ending}"))
        status, line = node.look("--loopback")
        assert (status, line.count("loopback mlx5_"), line.count("Gbit/s")) == (1, 2, 0)
    (node.bin / "client.txt").write_text("Couldn't create QP\n")
    status, line = node.look("--loopback")
    assert (status, line.count("loopback mlx5_")) == (1, 2)


def test_a_server_that_is_slow_to_listen_says_nothing_of_the_card(monkeypatch):
    monkeypatch.setattr(loopback, "_LISTENS_S", 0.1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with subprocess.Popen(["sleep", "600"]) as slow:
            try:
                with pytest.raises(bounded.ToolError, match="did not listen"):
                    loopback._await(slow, port)
            finally:
                slow.kill()
        loopback._await(slow, port)  # of one that has ended the client says what is wrong


def test_slurm_gets_what_is_wrong_and_a_good_look_ends_the_drain(node):
    text = (REPO / "tests/support/nodes/fake_scontrol.py").read_text()
    node.tool("scontrol", f"#!{sys.executable}\n" + text.partition("\n")[2])
    state = node.bin / "scontrol.json"

    def slurm():
        return {key: json.loads(state.read_text())[key] for key in ("drained", "reason")}

    assert node.look("--drain")[0] == 0
    assert not state.exists()
    node.write("sys/class/net/ens6/mtu", 1500)
    status, line = node.look("--drain")
    assert (status, line.endswith("; drained in Slurm")) == (1, True)
    reason = "Railyard: quick check: mtu_differs: rail0 (ens6) has 1500, the plan's is 9000"
    assert slurm() == {"drained": True, "reason": reason}
    assert node.look("--drain")[1].endswith("; drained in Slurm already")
    node.write("sys/class/net/ens6/mtu", 9000)
    assert (node.look("--drain")[0], slurm()["drained"]) == (0, True)
    assert node.look("--drain", "--resume")[1].endswith("; resumed in Slurm")
    assert not slurm()["drained"]
    # A drain of somebody else stays.
    state.write_text(json.dumps({"drained": True, "reason": "Railyard: reboot", "jobs": 0, "calls": []}))
    assert (node.look("--resume")[0], slurm()["drained"]) == (0, True)


def test_the_line_stays_a_line_and_json_has_it_all(node):
    node.rails[0]["name"] = "rail0\nrailyard quick: gpuserver1: good\x1b[2J"
    node.expects(
        rails=[
            {**node.rails[0], "name": f"{node.rails[0]['name']}{number}", "mtu": 1234} for number in range(40)
        ]
    )
    status, line = node.look()
    assert (status, line.isascii(), line.isprintable()) == (1, True, True)
    assert len(line) < 900
    assert " more" in line[-10:]
    said = json.loads(node.look("--json")[1])
    assert (said["node"], said["status"]) == ("gpuserver1", 1)
    assert len(said["wrong"]) >= 40

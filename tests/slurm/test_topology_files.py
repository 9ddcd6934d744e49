"""Slurm's topology files, loaded by real slurmctlds: Debian 12's 22.05 (tree) and Debian 13's 24.11 (blocks).

Each slurmctld runs alone in a network namespace of its own, from packages that are unpacked into a folder:
nothing is installed, and no lab is needed. 25.05, which reads topology.yaml, is in neither Debian.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import slurm_topology as slurm
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.slurm_topology import Group, Groups
from e2e.support import needs_root

# Debian 13 has the link to its program loader in base-files.
PACKAGES = "slurmctld,slurm-client,slurm-wlm-basic-plugins,base-files"
#: Suite -> how its daemons prove themselves to each other without a further one.
AUTH = {
    "bookworm": "AuthType=auth/none\nCredType=cred/none",
    "trixie": "AuthType=auth/slurm\nCredType=cred/slurm",
}
CONF = """\
ClusterName=test
SlurmctldHost={host}(10.0.0.1)
{auth}
MailProg=/bin/true
SlurmUser=root
StateSaveLocation=/var/state
SlurmctldPidFile=/var/slurmctld.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/{plugin}
NodeName={nodes} NodeAddr=10.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# A network with an address: slurmctld resolves none where there is only the loopback.
RUN = """\
ip link set lo up
ip link add d0 type veth peer name d1
ip link set d0 up
ip link set d1 up
ip addr add 10.0.0.1/24 dev d0
timeout -k 2 60 chroot "$1" /usr/sbin/slurmctld -D -v > "$1/var/log.txt" 2>&1 &
for _second in $(seq 30); do
  sleep 1
  chroot "$1" /usr/bin/scontrol show topology 2> /dev/null && break
  kill -0 $! 2> /dev/null || break
done
kill $! && wait
true
"""
NODES = tuple(f"gpu{number:02}" for number in range(1, 49))
FABRIC = Groups((Group("su1", NODES[:16]), Group("su2", NODES[16:32]), Group("su3", NODES[32:47])), ())
DOMAINS = {node: f"rack{place // 8}" for place, node in enumerate(NODES[:32])}
#: What slurmctld says of a file that does not fit its nodes.
ODD = re.compile(
    r"lack access|lookup failure|Multiple leaf|no switch can reach|topology.*(?:error|warning)", re.I
)


@pytest.fixture(scope="module", params=list(AUTH))
def suite(request, tmp_path_factory) -> tuple[str, Path]:
    """Return a suite and the folder with its Slurm."""
    needs_root()
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not here")
    root = tmp_path_factory.mktemp(request.param) / "root"
    options = ["--mode=root", "--variant=extract", f"--include={PACKAGES}", "--skip=check/empty"]
    subprocess.run(
        ["mmdebstrap", *options, request.param, str(root)], check=True, capture_output=True, timeout=600
    )
    # The alternatives that its installation would have set; slurmctld looks at its own name.
    program = root / "usr" / "sbin" / "slurmctld"
    if not program.exists():
        program.symlink_to("slurmctld-wlm")
    for folder in ("etc/slurm", "dev"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("passwd", "group"):
        entry = "root:x:0:0::/root:/bin/sh\n" if name == "passwd" else "root:x:0:\n"
        (root / "etc" / name).write_text(entry)
    for minor, name in ((3, "null"), (9, "urandom")):
        if not (root / "dev" / name).exists():
            os.mknod(root / "dev" / name, 0o666 | 0o020000, os.makedev(1, minor))
    key = root / "etc" / "slurm" / "slurm.key"
    key.write_bytes(secrets.token_bytes(64))
    key.chmod(0o600)
    return request.param, root


def load(suite: tuple[str, Path], text: str, plugin: str, nodes: str) -> tuple[list[str], str]:
    """Return what `scontrol show topology` prints of a file, and slurmctld's log."""
    name, root = suite
    (root / "etc" / "slurm" / "topology.conf").write_text(text)
    values = {"host": socket.gethostname(), "auth": AUTH[name], "plugin": plugin, "nodes": nodes}
    (root / "etc" / "slurm" / "slurm.conf").write_text(CONF.format(**values))
    shutil.rmtree(root / "var" / "state", ignore_errors=True)
    (root / "var" / "state").mkdir(mode=0o700)
    argv = ["unshare", "--net", "bash", "-c", RUN, "run", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout.splitlines(), (root / "var" / "log.txt").read_text()


def test_the_tree_is_loaded_without_a_warning(suite):
    shown, log = load(suite, slurm.write_tree(FABRIC), "tree", "gpu[01-47]")
    assert "topology/tree" in log, log
    assert not ODD.search(log), log
    assert [re.sub(r" Level=.*?(?= Nodes=)", "", line).strip() for line in shown] == [
        "SwitchName=su1 Nodes=gpu[01-16]",
        "SwitchName=su2 Nodes=gpu[17-32]",
        "SwitchName=su3 Nodes=gpu[33-47]",
        "SwitchName=core Nodes=gpu[01-47] Switches=su[1-3]",
    ]


def test_nodes_without_a_link_are_loaded_without_a_warning(suite):
    fabric = FABRIC._replace(unlinked=("gpu48", "login1"))
    shown, log = load(suite, slurm.write_tree(fabric), "tree", "gpu[01-48],login1")
    assert not ODD.search(log), log
    assert "Nodes=gpu48,login1" in "\n".join(shown)


def test_slurm_warns_about_nodes_that_are_missing(suite):
    """What the two tests above look for does come, in this version's words."""
    _shown, log = load(suite, slurm.write_tree(FABRIC), "tree", "gpu[01-48]")
    assert ODD.search(log), log


@pytest.mark.parametrize("domains", [{}, DOMAINS], ids=["units", "nvlink"])
def test_blocks_are_loaded_without_a_warning(suite, domains):
    if suite[0] == "bookworm":
        # Slurm 22.05 does not know them: 23.11 is the first that does.
        assert not list(suite[1].rglob("topology_block.so"))
        return
    blocks = slurm.group_by_nvlink(FABRIC, domains)
    shown, log = load(suite, slurm.write_block(blocks), "block", "gpu[01-47]")
    assert "topology/block" in log, log
    assert not ODD.search(log), log
    own = dict(re.findall(r"^BlockName=(\S+) .*?Nodes=(\S+)", "\n".join(shown), re.M))
    assert own == {one.name: slurm.fold_hosts(one.nodes) for one in blocks.groups}
    base = min(len(one.nodes) for one in blocks.groups)
    assert {int(size) for size in re.findall(r"^BlockName=.* BlockSize=(\d+)", "\n".join(shown), re.M)} == {
        base
    }

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabricated node whose QoS tools are the recorder and whose kernel files are a folder, for tests."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.qos import apply
from ansible_collections.railyard.fabric.plugins.module_utils.qos.tools import Answer

from support.nodes.sysfs_tree import Tree

RECORDER = Path(__file__).with_name("qos_recorder.py")
_PROGRAM = compile(RECORDER.read_text(), str(RECORDER), "exec")
DEFAULTS: dict[str, Any] = {
    "dscp": 26,
    "priority": 3,
    "pfc": True,
    "cnp_dscp": 48,
    "cnp_priority": 6,
    "buffers_bytes": None,
    "buffer_of_priority": None,
    "not_asked": [],
    "mlx4_flow_control": "global_pause",
    "modprobe_file": "/etc/modprobe.d/60-railyard-mlx4.conf",
}


def setting_calls(lines: list[str]) -> list[str]:
    """Return those of the recorder's calls that set something."""
    reading = {"mlnx_qos": 3, "ethtool": 3}
    return [
        line
        for line in lines
        if " show " not in line
        and not line.startswith("ethtool -a ")
        and len(line.split()) > reading.get(line.split()[0], 0)
    ]


class QosNode:
    """Two ports of a driver, with the tools named."""

    def __init__(self, root: Path, tools: tuple[str, ...], driver: str = "mlx5_core") -> None:
        self.root = root
        self.tree = Tree(root)
        self.bin = root / "bin"
        self.bin.mkdir()
        for name in tools:
            program = self.bin / name
            program.write_text(f"#!{sys.executable}\n{RECORDER.read_text()}")
            program.chmod(0o755)
        self.state: dict[str, Any] = {"sys_root": str(root / "sys"), "ports": {"ens1": {}, "ens2": {}}}
        self.rails = []
        for number, netdev in enumerate(("ens1", "ens2")):
            card = self.tree.pci(f"0000:1{number}:00.0", driver)
            self.tree.netdev(netdev, card)
            device = f"mlx5_{number}"
            port = self.tree.port(device, 1, card)
            self.tree.gid(port, 0, "fe80::1", "RoCE v2", netdev)
            (card / "infiniband" / device).mkdir(parents=True)
            self.rails.append({"name": f"rail{number}", "netdev": netdev, "hca": None})
        self.keep()

    def vendor(self) -> QosNode:
        """Give it the files of the vendor's driver, as they are before anybody sets them."""
        for number, netdev in enumerate(("ens1", "ens2")):
            for side in ("roce_np", "roce_rp"):
                for priority in range(8):
                    self.tree.write(f"sys/class/net/{netdev}/ecn/{side}/enable/{priority}", 0)
            self.tree.write(f"sys/class/net/{netdev}/ecn/roce_np/cnp_dscp", 0)
            self.tree.write(f"sys/class/net/{netdev}/ecn/roce_np/cnp_802p_prio", 0)
            self.tree.write(f"sys/class/infiniband/mlx5_{number}/tc/1/traffic_class", "")
            self.tree.write(f"sys/kernel/config/rdma_cm/mlx5_{number}/ports/1/default_roce_tos", 0)
        return self

    def keep(self) -> None:
        (self.bin / "state.json").write_text(json.dumps(self.state))

    def port(self, netdev: str) -> dict[str, Any]:
        port: dict[str, Any] = json.loads((self.bin / "state.json").read_text())["ports"][netdev]
        return port

    def calls(self) -> list[str]:
        """Return the calls that set something since the last look."""
        log = self.bin / "calls.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return setting_calls(lines)

    def text(self, path: str) -> str:
        return (self.root / "sys" / path).read_text().strip()

    def run(self, argv: Any) -> Answer:
        if not (self.bin / argv[0]).exists():
            return Answer(127, "", f"the node has no {argv[0]}")
        out, error, status = io.StringIO(), io.StringIO(), 0
        # In this process, since starting one costs more than all the rest: the program that `bin` holds.
        names: dict[str, Any] = {"__name__": "recorder", "__file__": str(self.bin / argv[0])}
        exec(_PROGRAM, names)
        before, sys.argv = sys.argv, [str(self.bin / argv[0]), *argv[1:]]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                names["main"]()
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            sys.argv = before
        return Answer(status, out.getvalue(), error.getvalue())

    def hold(self, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        params = {
            **DEFAULTS,
            "rails": self.rails,
            "folder": str(self.root / "var/lib/railyard/roce_qos"),
            "root": str(self.root),
            **options,
        }
        return apply.hold(params, self.run, lambda name: shutil.which(name, path=str(self.bin)), check_mode)

    def replay(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run the program that was kept, as udev would have it run when `name` comes."""
        done = subprocess.run(
            [sys.executable, str(self.root / "var/lib/railyard/roce_qos/replay.py"), name],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": str(self.bin) + os.pathsep + os.environ["PATH"]},
        )
        # The recorder answers for the kernel as well, when it is called.
        self.run(["ethtool", "-a", "ens1"])
        return done

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the programs that stand in for a node's tools: what the data says that each prints and returns."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from support.machines import model
from support.machines.tree import Tree
from support.nodes import qos_node

_NVIDIA_SMI = Path(__file__).with_name("nvidia_smi.py")
_NOT_ANSWERED = 3
# Of the versions that Railyard's floors ask for (docs/units.md): part of the stand-in, not of a machine.
_VERSIONS = {
    "iperf3": "iperf 3.16 (cJSON 1.7.15)\n",
    "sockperf": "sockperf, version 3.10-0.git5ebd327da983\n",
    "ping": "ping from iputils 20240117\n",
    "ib_write_bw": "Version: 6.20\n",
}


def write(tree: Tree, folder: Path) -> None:
    """Write all programs of a node into a folder."""
    folder.mkdir(exist_ok=True)
    _write(folder / "ip", _script([model.Answer(stdout=tree.ip_json())], "ip"))
    state = {"sys_root": str(tree.root / "sys"), "ports": {name: {} for name in tree.node.netdevs}}
    (folder / "state.json").write_text(json.dumps(state))
    for name, text in _VERSIONS.items():
        _write(folder / name, _script([model.Answer(stdout=text)], name))
    if tree.node.nvidia:
        _nvidia_smi(tree, tree.node.nvidia, folder)
    for name, answers in tree.node.tools.items():
        if answers == "qos_recorder":
            _write(folder / name, f"#!{sys.executable} -IS\n{qos_node.RECORDER.read_text()}")
        elif isinstance(answers, list) and answers:
            described = folder / f".{name}"
            if name == "nvidia-smi" and tree.node.nvidia:
                (folder / name).rename(described)
            _write(folder / name, _script(answers, name, described if described.exists() else None))
        else:
            (folder / name).unlink(missing_ok=True)


def _script(answers: list[model.Answer], name: str, otherwise: Path | None = None) -> str:
    """Return a program of the shell: the first pattern that matches its arguments answers.

    Args:
        answers: what it answers.
        name: its name.
        otherwise: the program that answers what no pattern matches.
    """
    lines = ["#!/bin/sh", 'case "$*" in']
    for one in answers:
        pattern = "".join(char if char == "*" else shlex.quote(char) for char in one.arguments) or "''"
        lines.append(f"{pattern})")
        for text, stream in ((one.stdout, ""), (one.stderr, " >&2")):
            if text:
                lines.append(f"printf '%s' {shlex.quote(text)}{stream}")
        lines.append(f"exit {one.exit};;")
    if otherwise is not None:
        return "\n".join([*lines, "esac", f'exec {shlex.quote(str(otherwise))} "$@"']) + "\n"
    said = shlex.quote(f"{name}: the stand-in has no answer to: ")
    lines += ["esac", f"printf '%s%s\\n' {said} \"$*\" >&2", f"exit {_NOT_ANSWERED}"]
    return "\n".join(lines) + "\n"


def _nvidia_smi(tree: Tree, nvidia: model.Nvidia, folder: Path) -> None:
    gpus = [
        {
            "index": str(index),
            "pci.bus_id": f"{address[:4].rjust(8, '0')}{address[4:]}".upper(),
            "gpu_bus_id": f"{address[:4].rjust(8, '0')}{address[4:]}".upper(),
            "uuid": f"GPU-{tree.number:08x}-0000-0000-0000-{index:012x}",
            "driver_version": nvidia.version,
            **nvidia.fields,
            **own,
        }
        for index, (address, own) in enumerate(nvidia.gpus.items())
    ]
    off = {list(nvidia.gpus).index(address): links for address, links in nvidia.inactive_nvlinks.items()}
    told = {
        "gpus": gpus,
        "nvlinks": nvidia.nvlinks,
        "speed": nvidia.nvlink_speed_gbytes_per_s,
        "inactive": off,
        "topology": nvidia.topology,
    }
    (folder / "nvidia-smi.json").write_text(json.dumps(told))
    _write(folder / "nvidia-smi", f"#!{sys.executable} -IS\n{_NVIDIA_SMI.read_text()}")


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)

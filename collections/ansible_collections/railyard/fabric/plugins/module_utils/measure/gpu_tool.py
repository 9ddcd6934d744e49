# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nccl-tests and nvbandwidth have in common: the site built them, and they use all of a node's GPUs.

Which GPUs there are is not their word: the kernel's PCI bus and nvidia-smi have to agree before they run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished, failed, parsed
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import (
    NodeTool,
    NodeToolSession,
)
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import capture
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.gpu import nvml_words
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import Gpus

# Sixteen GPUs, with room: a matrix of 256 cells, or a table of 40 sizes.
_MOST_CHARACTERS = 1 << 20
_SAID = 300


class GpuTool(NodeTool):
    """One of them; it looks for the GPUs once for all of its tests."""

    #: The policy's key with its folder.
    folder = ""

    def __init__(self) -> None:
        self._found: Gpus | None = None

    def program_of(self, check: str, policy: Mapping[str, Any]) -> str:
        """Return the path of the program of a check."""
        return os.path.join(str(policy[self.folder]), self.name)

    def built(self, play: NodeToolSession, check: str) -> str:
        """Return the path of the program of a check, which the site has built.

        Raises:
            MeasurementError: `tool_missing`.
        """
        path = self.program_of(check, play.policy)
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            raise play.own.error(
                "tool_missing",
                f"{path} of {play.own.host} is no program",
                f"build {self.name} with CUDA there, for everybody to read and run, or correct "
                f"fabric_policy.{self.folder}",
            )
        return path

    def gpus(self, play: NodeToolSession, least: int) -> list[dict[str, Any]]:
        """Return the GPUs: `index` (nvidia-smi's), `name`, `pci`, `pcie_generation` and `pcie_lanes` at most.

        Raises:
            MeasurementError: `gpu_unfit`: there are too few, or bus and driver do not agree.
        """
        if self._found is None:
            self._found = gpus.read(Reader(), gpus.by_the_clock(), parts=("rows", "topology"))
        found, host = self._found, play.own.host
        rows, bus = found["rows"], len(found["pci"])
        why = found["errors"].get("rows")
        if not bus or found["driver"] is None:
            said = "NVIDIA's driver is not loaded" if bus else "no GPU is on the PCI bus"
            raise _unfit(host, said, "run the role nvidia_driver, or declare `expected_gpus: {count: 0}`")
        if why or {row["pci"] for row in rows} != set(found["pci"]):
            said = why["message"] if why else f"the PCI bus has {bus} GPUs, nvidia-smi lists {len(rows)}"
            raise _unfit(host, said, "see the GPU checks (docs/gpu.md), dmesg and nvidia-smi there")
        faulty = [row["pci"] for row in rows if any(map(nvml_words.is_faulty, row.values()))]
        if faulty:
            said = f"GPU {faulty[0]} is lost or requires a reset, nvidia-smi says"
            raise _unfit(host, said, "reset it (`nvidia-smi --gpu-reset -i INDEX`), or reboot the node")
        if len(rows) < least:
            alone = "declare it (`expected_gpus: {count: 1}`), and this is not asked of it"
            raise _unfit(host, "one GPU has no other to exchange with", alone)
        return [
            {
                "index": _whole(row.get("index")),
                "name": str(row.get("name"))[:120],
                "pci": row["pci"],
                "pcie_generation": _whole(row.get("pcie.link.gen.max")),
                "pcie_lanes": _whole(row.get("pcie.link.width.max")),
            }
            for row in rows
        ]

    def joined(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
        """Return how two GPUs are joined, in the words of `nvidia-smi topo -m`; None where it is not told."""
        rows = (self._found["topology"] if self._found is not None else None) or {}
        word = (rows.get(f"GPU{one['index']}") or {}).get(f"GPU{other['index']}")
        return str(word)[:20] if word else None

    def ran(
        self, play: NodeToolSession, argv: list[str], parser: capture.Parser
    ) -> tuple[Finished, dict[str, Any]]:
        """Run a program to its end; return that, and the one whole output that it printed.

        Raises:
            MeasurementError: `gpu_wrong` where data arrived changed, else why it says nothing.
        """
        done = play.run_with(argv, self.limit_s(play.policy))
        said = f"it ended with {done.exit_status}: {done.text.strip()[-_SAID:]}"
        if len(done.text) > _MOST_CHARACTERS:
            raise failed(play, argv[0], f"it printed more than {_MOST_CHARACTERS} characters")
        seen: list[dict[str, Any]] = []

        def read(text: str) -> dict[str, Any]:
            seen.append(capture.read(parser, text))
            return seen[0]

        try:
            output = parsed(play, self.name, done.text, read)
        except MeasurementError as obstacle:
            problem = (seen[0]["error"] if seen else None) or {}
            if problem.get("class") == "wrong_values":
                raise play.own.error(
                    "gpu_wrong", f"{argv[0]} on {play.own.host}: {problem['message']}",
                    "run it again by hand, with fewer GPUs each time (CUDA_VISIBLE_DEVICES); dcgmi diag -r 3",
                ) from obstacle  # fmt: skip
            if done.exit_status == 0:
                raise
            # Why it died is what it said last.
            raise failed(play, argv[0], said) from obstacle
        if done.exit_status != 0:
            raise failed(play, argv[0], said)
        return done, output


def other_number(play: NodeToolSession, tool: str, seen: object, listed: int) -> MeasurementError:
    """Say that a tool did not use the GPUs that are there."""
    return _unfit(
        play.own.host, f"{tool} used {seen} GPUs, nvidia-smi lists {listed}",
        "see MIG (`nvidia-smi -L`) and CUDA_VISIBLE_DEVICES in /etc/environment there",
    )  # fmt: skip


def _unfit(host: str, said: str, fix: str) -> MeasurementError:
    return MeasurementError("gpu_unfit", f"{host}: {said}", host, fix)


def _whole(value: object) -> int | None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return int(number) if number is not None and number == int(number) else None

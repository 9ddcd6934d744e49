# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of nccl-tests and nvbandwidth: the site builds them, and they use all GPUs of a node.

The list of GPUs does not come from them: the PCI bus and nvidia-smi have to agree before they run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..channel.errors import MeasurementError
from ..facts import gpus
from ..facts.sysfs import Reader
from ..parsers import capture
from ..parsers.gpu import nvml_words
from ..records.facts import Gpus
from .base import Finished, parse_output, tool_failed
from .node_tool import NodeTool, NodeToolSession

# More than 16 GPUs need: a matrix of 256 cells, or a table of 40 sizes.
_MOST_CHARACTERS = 1 << 20
_MOST_QUOTED = 300


class GpuTool(NodeTool):
    """A GPU tool; it looks for the GPUs once for all of its tests."""

    #: The policy key with its folder.
    folder = ""

    def __init__(self) -> None:
        self._found: Gpus | None = None

    def program_of(self, check: str, policy: Mapping[str, Any]) -> str:
        """Return the path of the program of a check."""
        return os.path.join(str(policy[self.folder]), self.name)

    def find_program(self, session: NodeToolSession, check: str) -> str:
        """Return the path of a check's program, which the site has built.

        Raises:
            MeasurementError: `tool_missing`.
        """
        path = self.program_of(check, session.policy)
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            raise session.own.error(
                "tool_missing",
                f"{path} on {session.own.host} is not an executable file",
                f"build {self.name} with CUDA there, readable and executable for all users, or correct "
                f"fabric_policy.{self.folder}",
            )
        return path

    def gpus(self, session: NodeToolSession, least: int) -> list[dict[str, Any]]:
        """Return the GPUs: `index` (nvidia-smi's), `name`, `pci`, maximum `pcie_generation` and `pcie_lanes`.

        Raises:
            MeasurementError: `gpu_unfit`: too few GPUs, or bus and driver do not agree.
        """
        if self._found is None:
            self._found = gpus.read(Reader(), gpus.by_the_clock(), parts=("rows", "topology"))
        found, host = self._found, session.own.host
        rows, bus = found["rows"], len(found["pci"])
        why = found["errors"].get("rows")
        if not bus or found["driver"] is None:
            problem = "NVIDIA's driver is not loaded" if bus else "no GPU is on the PCI bus"
            raise _unfit(host, problem, "run the role nvidia_driver, or declare `expected_gpus: {count: 0}`")
        if why or {row["pci"] for row in rows} != set(found["pci"]):
            problem = why["message"] if why else f"the PCI bus has {bus} GPUs, nvidia-smi lists {len(rows)}"
            raise _unfit(host, problem, "see the GPU checks (docs/gpu.md), dmesg and nvidia-smi there")
        faulty = [row["pci"] for row in rows if any(map(nvml_words.is_faulty, row.values()))]
        if faulty:
            problem = f"nvidia-smi reports that GPU {faulty[0]} is lost or requires a reset"
            raise _unfit(host, problem, "reset it (`nvidia-smi --gpu-reset -i INDEX`), or reboot the node")
        if len(rows) < least:
            fix = "declare `expected_gpus: {count: 1}`, which leaves this test out"
            raise _unfit(host, "there is only one GPU, and the test exchanges data between GPUs", fix)
        return [
            {
                "index": _to_int(row.get("index")),
                "name": str(row.get("name"))[:120],
                "pci": row["pci"],
                "pcie_generation": _to_int(row.get("pcie.link.gen.max")),
                "pcie_lanes": _to_int(row.get("pcie.link.width.max")),
            }
            for row in rows
        ]

    def find_link(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
        """Return the link of two GPUs as in `nvidia-smi topo -m`; None where it is not listed."""
        rows = (self._found["topology"] if self._found is not None else None) or {}
        word = (rows.get(f"GPU{one['index']}") or {}).get(f"GPU{other['index']}")
        return str(word)[:20] if word else None

    def run_program(
        self, session: NodeToolSession, argv: list[str], parser: capture.Parser
    ) -> tuple[Finished, dict[str, Any]]:
        """Run a program to its end; return that and its parsed output.

        Raises:
            MeasurementError: `gpu_wrong` where data arrived changed, else why there is no result.
        """
        done = session.run_with(argv, self.limit_s(session.policy))
        ended = f"it ended with {done.exit_status}: {done.text.strip()[-_MOST_QUOTED:]}"
        if len(done.text) > _MOST_CHARACTERS:
            raise tool_failed(session, argv[0], f"it printed more than {_MOST_CHARACTERS} characters")
        seen: list[dict[str, Any]] = []

        def read(text: str) -> dict[str, Any]:
            seen.append(capture.read(parser, text))
            return seen[0]

        try:
            output = parse_output(session, self.name, done.text, read)
        except MeasurementError as failure:
            problem = (seen[0]["error"] if seen else None) or {}
            if problem.get("class") == "wrong_values":
                raise session.own.error(
                    "gpu_wrong", f"{argv[0]} on {session.own.host}: {problem['message']}",
                    "run it again by hand, with fewer GPUs each time (CUDA_VISIBLE_DEVICES); dcgmi diag -r 3",
                ) from failure  # fmt: skip
            if done.exit_status == 0:
                raise
            # The reason of its failure is in its last lines.
            raise tool_failed(session, argv[0], ended) from failure
        if done.exit_status != 0:
            raise tool_failed(session, argv[0], ended)
        return done, output


def other_number(session: NodeToolSession, tool: str, seen: object, listed: int) -> MeasurementError:
    """Return the error of a tool that did not use all GPUs."""
    return _unfit(
        session.own.host, f"{tool} used {seen} GPUs, nvidia-smi lists {listed}",
        "see MIG (`nvidia-smi -L`) and CUDA_VISIBLE_DEVICES in /etc/environment there",
    )  # fmt: skip


def _unfit(host: str, problem: str, fix: str) -> MeasurementError:
    return MeasurementError("gpu_unfit", f"{host}: {problem}", host, fix)


def _to_int(value: object) -> int | None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return int(number) if number is not None and number == int(number) else None

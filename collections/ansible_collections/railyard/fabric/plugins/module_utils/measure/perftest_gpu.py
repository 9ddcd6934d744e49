# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure RDMA bandwidth between GPU memories (GPUDirect) with a perftest that the site built with CUDA.

Each end uses the GPU nearest to the rail's NIC, by its bus address, which does not depend on CUDA's order
(`--use_cuda_bus_id`, since tag 4.4-0.36). The NIC accesses its memory through the module nvidia_peermem, or
through DMA-BUF (`--use_cuda_dmabuf`, since 4.5-0.18). `--help` shows what a build supports. Write latency is
not measured: perftest does not support it with GPU memory (26.04), or no latency at all (up to 4.5-0.17).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import bounded
from ..channel.errors import MeasurementError
from ..facts import gpus, hca
from ..facts.sysfs import Reader
from .base import Finished, ToolSession
from .perftest_bw import Bandwidth

_BUS_ID, _DMABUF = "--use_cuda_bus_id", "--use_cuda_dmabuf"
# NVIDIA's since driver 470, and Mellanox's before.
_PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
# perftest's message where the NIC cannot access the memory.
_NOT_REACHED = "Couldn't allocate MR"
_HELP_S = 20.0
# Without persistence mode CUDA starts each GPU of the node.
_CUDA_S = 30.0
_BUILD = (
    "build perftest with CUDA there (./autogen.sh && ./configure "
    "CUDA_H_PATH=/usr/local/cuda/include/cuda.h && make), install it into that folder, or leave the key out"
)


class GpuBandwidth(Bandwidth):
    """Write bandwidth from the memory of one GPU into another's.

    Args:
        reader: where the kernel's files are.
    """

    def __init__(self, reader: Reader | None = None) -> None:
        super().__init__("ib_write_bw")
        self._reader = reader or Reader()

    def program(self, policy: Mapping[str, Any]) -> str:
        """Return the path of the program that the site built."""
        return os.path.join(str(policy["gpudirect_perftest_folder"]), self.name)

    def missing(self, host: str) -> MeasurementError:
        """Return the error of a folder without the program."""
        return _unfit(
            host, f"{host} has no program {self.name} in fabric_policy.gpudirect_perftest_folder", _BUILD
        )

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test and a margin, including the start of CUDA."""
        return super().limit_s(policy) + _CUDA_S

    def command(self, session: ToolSession, options: list[str], server: bool) -> list[str]:
        """Return the command line of one end, with the GPU as found now.

        Raises:
            MeasurementError: as in `Perftest`, and `gpudirect_unfit`: no GPU, or a build that cannot use it.
        """
        host = session.own.host
        card = hca.read_device(self._reader, session.rdma_port().device)["pci"]
        gpu = gpus.nearest(self._reader, card) if card else None
        if gpu is None:
            why = "its NIC is not on the PCI bus" if card is None else "it has no NVIDIA GPU"
            raise _unfit(host, f"{host} has no GPU near a NIC: {why}", "leave such nodes out (--limit)")
        self._gpu = gpu
        return super().command(session, [*options, *self._build_cuda_options(session)], server)

    def read(self, session: ToolSession, done: Finished, expected: Mapping[str, Any]) -> dict[str, Any]:
        """Parse the output, which has to name the GPU whose memory it used.

        Raises:
            MeasurementError: as in `Perftest`, and `gpudirect_unfit` where the NIC cannot access the GPU's
                memory.
        """
        try:
            output = super().read(session, done, expected)
        except MeasurementError as failure:
            if _NOT_REACHED not in done.text:
                raise
            raise _unfit(
                session.own.host,
                f"the NIC of {session.own.rail} could not register memory of GPU {self._gpu}",
                "load nvidia_peermem, or install NVIDIA's open kernel modules (DMA-BUF); see dmesg",
            ) from failure
        if not output.get("gpu"):
            raise self.mismatch(session, "gpu", None, self._gpu)
        return output

    def port_fields(self, session: ToolSession, output: Mapping[str, Any], argv: list[str]) -> dict[str, Any]:
        """Return the row's keys about port, program and GPU."""
        return {**super().port_fields(session, output, argv), "gpu": self._gpu, "gpu_name": output["gpu"]}

    def _build_cuda_options(self, session: ToolSession) -> list[str]:
        """Return the options with which this build uses the GPU's memory on this node."""
        program, host = self.program(session.policy), session.own.host
        try:
            options = bounded.ask([program, "--help"], _HELP_S).text
        except bounded.ToolError as error:
            raise _unfit(host, f"{program} of {host} does not print its help: {error}", _BUILD) from error
        if _BUS_ID not in options:
            raise _unfit(host, f"{program} of {host} was built without CUDA, as distributions' are", _BUILD)
        words = [f"{_BUS_ID}={self._gpu}"]
        if any(os.path.isdir(self._reader.sys("module", one)) for one in _PEER_MODULES):
            return words
        if _DMABUF not in options:
            raise _unfit(
                host,
                f"no nvidia_peermem is loaded on {host}, and {program} was built without DMA-BUF",
                "modprobe nvidia_peermem, or build perftest 23.04 or newer with CUDA 11.7 or newer",
            )
        return [*words, _DMABUF]


def _unfit(host: str, message: str, fix: str) -> MeasurementError:
    return MeasurementError("gpudirect_unfit", message, host, fix)

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA bandwidth between GPUs' memories (GPUDirect), by a perftest that the site built with CUDA.

Each end takes the GPU that is nearest to the rail's card, by its bus address, which no order of CUDA's
changes (`--use_cuda_bus_id`, since tag 4.4-0.36). A card reaches that memory by the module nvidia_peermem, or
else by DMA-BUF (`--use_cuda_dmabuf`, since 4.5-0.18). What a build can do it tells by `--help`. Latency of
writes is not measured: perftest refuses it of GPU memory (26.04), or any latency (to 4.5-0.17).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import bounded
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus, hca
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished, ToolSession
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import Bandwidth

_BUS_ID, _DMABUF = "--use_cuda_bus_id", "--use_cuda_dmabuf"
# NVIDIA's own since driver 470, and what Mellanox had before.
_PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
# perftest's words where the card cannot reach the memory.
_NOT_REACHED = "Couldn't allocate MR"
_HELP_S = 20.0
# CUDA starts each GPU of the node where nothing keeps them awake (persistence mode).
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
        """Return the site's own program."""
        return os.path.join(str(policy["gpudirect_perftest_folder"]), self.name)

    def missing(self, host: str) -> MeasurementError:
        """Say that the site's folder has no such program."""
        return _unfit(
            host, f"{host} has no program {self.name} in fabric_policy.gpudirect_perftest_folder", _BUILD
        )

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test and a margin, in which CUDA starts as well."""
        return super().limit_s(policy) + _CUDA_S

    def command(self, play: ToolSession, options: list[str], server: bool) -> list[str]:
        """Return the command line of one end; the GPU is looked for now.

        Raises:
            MeasurementError: as of host memory, and `gpudirect_unfit`: no GPU, or a build that cannot use it.
        """
        host = play.own.host
        card = hca.read_device(self._reader, play.rdma_port().device)["pci"]
        gpu = gpus.nearest(self._reader, card) if card else None
        if gpu is None:
            seen = "its card has no place on the PCI bus" if card is None else "it has no NVIDIA GPU"
            raise _unfit(host, f"{host} has no GPU near a card: {seen}", "leave such nodes out (--limit)")
        self._gpu = gpu
        return super().command(play, [*options, *self._cuda_words(play)], server)

    def read(self, play: ToolSession, done: Finished, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the output as of host memory; it has to name the GPU whose memory it used.

        Raises:
            MeasurementError: as there, and `gpudirect_unfit` where the card does not reach the GPU's memory.
        """
        try:
            output = super().read(play, done, asked)
        except MeasurementError as obstacle:
            if _NOT_REACHED not in done.text:
                raise
            raise _unfit(
                play.own.host,
                f"the card of {play.own.rail} could not register memory of GPU {self._gpu}",
                "load nvidia_peermem, or have open kernel modules of NVIDIA's driver (DMA-BUF); see dmesg",
            ) from obstacle
        if not output.get("gpu"):
            raise self.differs(play, "gpu", None, self._gpu)
        return output

    def port_fields(self, play: ToolSession, output: Mapping[str, Any], argv: list[str]) -> dict[str, Any]:
        """Return what a row says of port and program, and which GPU's memory it was."""
        return {**super().port_fields(play, output, argv), "gpu": self._gpu, "gpu_name": output["gpu"]}

    def _cuda_words(self, play: ToolSession) -> list[str]:
        """Return the options by which this build uses the GPU's memory on this node."""
        program, host = self.program(play.policy), play.own.host
        try:
            told = bounded.ask([program, "--help"], _HELP_S).text
        except bounded.ToolError as error:
            raise _unfit(host, f"{program} of {host} does not say what it can do: {error}", _BUILD) from error
        if _BUS_ID not in told:
            raise _unfit(host, f"{program} of {host} was built without CUDA, as distributions' are", _BUILD)
        words = [f"{_BUS_ID}={self._gpu}"]
        if any(os.path.isdir(self._reader.sys("module", one)) for one in _PEER_MODULES):
            return words
        if _DMABUF not in told:
            raise _unfit(
                host,
                f"no nvidia_peermem is loaded on {host}, and {program} was built without DMA-BUF",
                "modprobe nvidia_peermem, or build perftest 23.04 or newer with CUDA 11.7 or newer",
            )
        return [*words, _DMABUF]


def _unfit(host: str, message: str, fix: str) -> MeasurementError:
    return MeasurementError("gpudirect_unfit", message, host, fix)

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi nvlink -s: speed per link and GPU."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_float, to_int

_GPU = re.compile(r"^GPU ([0-9]{1,3}): (.{1,120}?)(?: \(UUID: ([^)]{1,80})\))?\s*$")
# A truncated name with another one behind it.
_GLUED = re.compile(r"GPU [0-9]{1,3}: |\(UUID: ")
_LINK = re.compile(r"^\s+Link ([0-9]{1,3}): (?:([0-9.]+) GB/s|<?(inactive|Inactive|N/A)>?)\s*$")
_TROUBLE = re.compile(
    r"(?:NVML: )?(?:NVIDIA-SMI has failed|Unable to determine|No devices were found|couldn't communicate|"
    r"NVLink is not supported|Unable to retrieve NVLink)",
    re.I,
)
_NO_NVLINK = re.compile(r"NVLink is not supported|: Not Supported\s*$", re.I)


def is_without_nvlink(message: str) -> bool:
    """Return whether nvidia-smi reports that a GPU has no NVLink, which is no error."""
    return bool(_NO_NVLINK.search(message))


def parse(text: str) -> dict[str, Any]:
    """Parse the output of `nvidia-smi nvlink -s` (`--status`).

    Args:
        text: What nvidia-smi printed.

    Returns:
        The common object; one output per GPU: `gpu name uuid links`, a link being
        `{link, speed_gbytes_per_s, active}`, the speed None where it is inactive.

    Raises:
        NotThisTool: There is neither a GPU with links nor a message of nvidia-smi.
    """
    lines = common.split_lines(text)
    gpus: list[dict[str, Any]] = []
    problem: dict[str, str] | None = None
    odd = False
    for line in lines:
        reported = _TROUBLE.search(line[:400])
        if reported:
            # It may follow the GPU's name. A feature that one GPU lacks must not hide the error of another.
            if problem is None or is_without_nvlink(problem["message"]):
                problem = error("tool_error", line)
            line = line[: reported.start()]
        gpu, link = _GPU.match(line), _LINK.match(line)
        if gpu:
            name, uuid = gpu.group(2), gpu.group(3)
            odd = odd or bool(_GLUED.search(name)) or " " in (uuid or "")
            gpus.append({"gpu": to_int(gpu.group(1)), "name": name, "uuid": uuid, "links": []})
        elif link and gpus:
            speed = to_float(link.group(2))
            row = {"link": to_int(link.group(1)), "speed_gbytes_per_s": speed, "active": speed is not None}
            gpus[-1]["links"].append(row)
        elif line.strip():
            # A prompt is no line of this tool; a truncated line of a GPU or a link is.
            odd = odd or line[0].isspace() or line.startswith("GPU") or "GPU".startswith(line.rstrip())
    if problem is None and not any(gpu["links"] for gpu in gpus):
        raise common.refusal("no GPU with links of nvidia-smi nvlink -s", lines)
    counts = {len(gpu["links"]) for gpu in gpus}
    # A name that is cut loses its UUID.
    odd = odd or len({gpu["uuid"] is None for gpu in gpus}) > 1
    if problem is None and (odd or 0 in counts):
        problem = error("truncated", "a GPU has no links, or a line is cut")
    warnings = ["the GPUs have different numbers of links"] if len(counts) > 1 else []
    return common.result("nvidia-smi-nvlink", gpus, problem, warnings)

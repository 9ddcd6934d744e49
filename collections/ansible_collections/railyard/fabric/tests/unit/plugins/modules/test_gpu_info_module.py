# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_info: where it looks for tools; what it reads is tested with module_utils/gpu/facts.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts import tools
from ansible_collections.railyard.fabric.plugins.modules import gpu_info


class DummyModule:
    """Has one tool, where the driver of some virtual machines' images is mounted."""

    def get_bin_path(self, name: str, opt_dirs: list[str]) -> str | None:
        place = "/usr/local/nvidia/bin"
        return f"{place}/{name}" if name == "nvidia-smi" and place in opt_dirs else None

    def run_command(self, argv: list[str], **_rest: Any) -> tuple[int, str, str]:
        return 0, " ".join(argv), "and errors"


def test_nvidia_smi_that_is_on_no_path():
    run = tools.runner(DummyModule(), gpu_info._FOLDERS)
    assert run(["nvidia-smi", "-L"]) == "/usr/local/nvidia/bin/nvidia-smi -L\nand errors"
    assert run(["modinfo", "nvidia"]) is None

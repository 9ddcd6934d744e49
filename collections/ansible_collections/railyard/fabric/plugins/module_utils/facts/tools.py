# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a node's tools by argv and return their output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: argv -> what the tool printed on both streams; None where there is no such tool.
Run = Callable[[Sequence[str]], "str | None"]


def runner(module: Any, beside: Sequence[str] = ()) -> Run:
    """Return a function that runs a tool.

    Args:
        module: the AnsibleModule; not typed, since this file is used where Ansible is not installed.
        beside: additional folders in which to look for a tool.
    """

    def run(argv: Sequence[str]) -> str | None:
        path = module.get_bin_path(argv[0], opt_dirs=list(beside))
        if path is None:
            return None
        _rc, out, err = module.run_command([path, *argv[1:]], errors="surrogate_then_replace")
        return f"{out}\n{err}"

    return run

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in of AnsibleModule: its arguments, and commands that a function of the test answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Answer = tuple[int, str, str]


class FakeModule:
    """What modules use of AnsibleModule.

    Args:
        params: The module's arguments.
        run: Answers a command with its status, output and errors; None: no command may be run.
        check_mode: Whether nothing may be changed.

    Attributes:
        installed: Whether the programs that are looked for are there.
        cwd: The folder in which the last command was run, where the module named one.
    """

    installed = True
    cwd: str | None = None

    def __init__(
        self,
        params: dict[str, Any],
        run: Callable[[list[str]], Answer] | None = None,
        check_mode: bool = False,
    ) -> None:
        self.params = params
        self.run = run
        self.check_mode = check_mode

    def get_bin_path(self, name: str, *_required: Any, **_places: Any) -> str | None:
        return f"/usr/bin/{name}" if self.installed else None

    def run_command(self, argv: list[str], **options: Any) -> Answer:
        assert self.run is not None, argv
        self.cwd = options.get("cwd")
        return self.run(argv)

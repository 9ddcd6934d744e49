# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of systemd units, read with what else a module does: a request less for the role that asks."""

from __future__ import annotations

import typing as t

_KEYS = {"UnitFileState": "unit_file_state", "ActiveState": "active_state"}


class UnitsError(Exception):
    """A systemctl that failed; the message says what it printed, and what to do."""


def systemctl(module: t.Any, *words: str) -> str:
    """Run systemctl and return what it prints.

    Raises:
        UnitsError: It failed.
    """
    argv = [module.get_bin_path("systemctl", required=True), *words]
    code, out, error = module.run_command(argv, environ_update={"LC_ALL": "C", "LANGUAGE": "C"})
    if code != 0:
        raise UnitsError(
            f"{' '.join(argv)} failed: {error.strip() or out.strip() or code}. Fix: run it on the node"
        )
    return str(out)


def show(module: t.Any, names: t.Sequence[str]) -> dict[str, dict[str, str]]:
    """Return `unit_file_state` and `active_state` of each unit; empty and `inactive` where there is none.

    Raises:
        UnitsError: systemctl failed, or did not answer for each unit.
    """
    if not names:
        return {}
    text = systemctl(module, "show", f"--property={','.join(_KEYS)}", "--", *names)
    # A block for each unit, in their order.
    blocks = text.strip("\n").split("\n\n")
    states = []
    for block in blocks:
        shown = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        states.append({name: shown[key] for key, name in _KEYS.items() if key in shown})
    if len(states) != len(names) or any(len(state) != len(_KEYS) for state in states):
        raise UnitsError(
            f"systemctl show {' '.join(names)} printed {text!r}, not {' and '.join(_KEYS)} of each. "
            "Fix: run it on the node"
        )
    return dict(zip(names, states))  # noqa: B905 - Python 3.9; their number was compared

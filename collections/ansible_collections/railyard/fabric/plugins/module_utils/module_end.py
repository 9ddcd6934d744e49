# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module ends: with its result, or with a sentence where something expected went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def end(module: Any, hold: Callable[[Any], dict[str, Any]], *expected: type[Exception]) -> None:
    """Do what a module's parameters ask, and end it.

    Args:
        module: the AnsibleModule; this file is used where Ansible is not installed, and cannot name it.
        hold: does it, and returns the module's result.
        expected: errors whose text tells the user what to do. One of the system's is always expected; any
            other is a defect, and shown with its traceback.
    """
    known: tuple[type[Exception], ...] = (*expected, OSError)
    try:
        result = hold(module)
    except known as error:
        module.fail_json(msg=str(error))
    else:
        module.exit_json(**result)


def diff(header: str, before: str, after: str) -> dict[str, str]:
    """Return a difference as Ansible shows it, under one header for both texts."""
    return {"before_header": header, "after_header": header, "before": before, "after": after}

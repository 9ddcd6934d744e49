# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find passwords that stand readable in an inventory, by the names of variables; values are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_NAME = re.compile(r"(^|_)(password|passwd|pass|passphrase|passcode|secret|token|api_?key)$", re.IGNORECASE)
_JINJA = re.compile(r"\{\{|\{%")

FIX = (
    "encrypt it (ansible-vault encrypt_string), keep it in an encrypted file, or let Ansible ask (-k, -K); "
    "then change the password, since whoever has the inventory has it"
)


def passwords(variables: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the dotted path of every variable that is named like a password and holds readable text.

    Expressions (which fetch the value from elsewhere) and encrypted values are left alone.
    """
    for key, value in variables.items():
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping):
            yield from passwords(value, here)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, Mapping):
                    yield from passwords(item, f"{here}[{index}]")
        elif _NAME.search(str(key)) and _is_readable(value):
            yield here


def _is_readable(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() != "" and _JINJA.search(value) is None
    return isinstance(value, int) and not isinstance(value, bool)

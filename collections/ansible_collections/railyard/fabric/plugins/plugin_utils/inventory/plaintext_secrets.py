# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find passwords in plain text in an inventory, by names of variables and a few forms of values.

Values are never shown.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

_NAME = re.compile(
    r"passwor[dt]|pass_word|passwd|passphrase|passcode|kennwort|secret"
    r"|(^|[_-])(pass|pwd|pw|psk|token|api[_-]?key|munge_key)$",
    re.IGNORECASE,
)
# Only for text: a number of tokens is no secret, and a mapping of credentials names the user as well.
_NAME_OF_TEXT = re.compile(r"(^|[_-])(tokens|credentials?|api[_-]?keys)$", re.IGNORECASE)
# Variables about a password (its file, its length) are no secrets.
_ABOUT = re.compile(
    r"[_-](file|files|path|dir|command|length|days|mechanism|prompt|name|url|policy)$", re.IGNORECASE
)
_JINJA = re.compile(r"\{\{|\{%")
# Expressions that contain the password itself, or a default one.
_JINJA_WITH_TEXT = re.compile(
    r"^\s*\{\{\s*(\"[^\"]+\"|'[^']+')\s*\}\}\s*$|\bdefault\(\s*(\"[^\"]+\"|'[^']+')|\bd\(\s*(\"[^\"]+\"|'[^']+')"
)
# In any variable: user and password of a URL, a password on a command line, a private key.
_VALUE = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:[^/\s@{$]+@"
    r"|\bsshpass\s+-p\s*[\"']?[^\s\"'{$]"
    r"|\b(SSHPASS|[A-Z][A-Z0-9_]*(PASSWORD|PASSWD|SECRET|TOKEN))=[\"']?[^\s\"'{$]"
    r"|\bipmitool\b.*\s-P\s*[\"']?[^\s\"'{$]"
    r"|\bcurl\b.*\s(-u|--user)[\s=]*[\"']?[^\s:]+:[^\s\"'{$]"
    r"|^(Authorization:\s*)?(Basic|Bearer)\s+[A-Za-z0-9+/._~-]{8,}=*$"
    # Prefixes of the tokens of some services.
    r"|\b(gh[opsu]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{30}|glpat-[A-Za-z0-9_-]{20}|hf_[A-Za-z0-9]{30})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)

FIX = (
    "encrypt it (ansible-vault encrypt_string), keep it in an encrypted file, or let Ansible ask (-k, -K); "
    "then change the password, since anyone with the inventory has it"
)


def passwords(variables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the dotted path of each variable that is named like a password or contains one in plain text.

    Values inside such a variable (`bmc_passwords: {gpu1: ...}`) count as well. Expressions (which fetch the
    value from elsewhere) and encrypted values are skipped. Aliases are followed once: few lines of them can
    expand to more values than could ever be walked.
    """
    yield from _inside(variables, "", False, set())


def _names_one(name: str) -> bool:
    return bool(_NAME.search(name) and not _ABOUT.search(name))


def _inside(value: Any, here: str, named: bool, seen: set[tuple[int, bool]]) -> Iterator[str]:
    if isinstance(value, (Mapping, list)):
        if (id(value), named) in seen:
            return
        seen.add((id(value), named))
    if isinstance(value, Mapping):
        # {name: BMC_PASSWORD, value: ...}, as environments are often written.
        called = value.get("name", value.get("key"))
        is_pair = isinstance(called, str) and _names_one(called)
        for key, item in value.items():
            name = str(key)
            of_text = isinstance(item, str) and _NAME_OF_TEXT.search(name) is not None
            means_one = named or _names_one(name) or of_text or (is_pair and name == "value")
            yield from _inside(item, f"{here}.{name}" if here else name, means_one, seen)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _inside(item, f"{here}[{index}]", named, seen)
    elif (named and _is_readable(value)) or (isinstance(value, str) and _VALUE.search(value)):
        yield here


def _is_readable(value: Any) -> bool:
    if isinstance(value, str):
        if _JINJA.search(value):
            return _JINJA_WITH_TEXT.search(value) is not None
        return value.strip() != ""
    # YAML reads some passwords as numbers or dates.
    return isinstance(value, (int, float, datetime.date)) and not isinstance(value, bool)

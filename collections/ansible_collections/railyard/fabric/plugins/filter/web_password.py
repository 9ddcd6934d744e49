# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A password's bcrypt hash, as the web configuration of Prometheus' programs wants it."""

from __future__ import annotations

import base64
import ctypes
import ctypes.util
import hashlib
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

# 2^10 rounds: some 60 ms here for each node of a play.
_SETTINGS = "$2b$10$"
_SALT_CHARACTERS = 22
_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BCRYPT = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_MOST_BYTES = 72  # bcrypt reads no more


def bcrypt(password: str, seed: str) -> str:
    """Return a password's hash; see bcrypt.yml.

    Raises:
        AnsibleFilterError: the password is too long, or this machine's libcrypt has no bcrypt.
    """
    secret = password.encode()
    if not secret or len(secret) > _MOST_BYTES or b"\0" in secret:
        raise AnsibleFilterError(f"a password of {len(secret)} bytes: bcrypt takes 1 to {_MOST_BYTES}")
    digest = base64.b64encode(hashlib.sha256(f"railyard {seed}".encode()).digest())
    # The last character of a salt holds 2 bits.
    salt = digest[: _SALT_CHARACTERS - 1].translate(bytes.maketrans(_STANDARD, _BCRYPT)) + b"."
    try:
        library = ctypes.CDLL(ctypes.util.find_library("crypt") or "libcrypt.so.1")
        library.crypt.restype = ctypes.c_char_p
        found = library.crypt(secret, _SETTINGS.encode() + salt) or b""
    except (OSError, AttributeError):
        found = b""
    if not found.startswith(_SETTINGS.encode()):
        raise AnsibleFilterError(
            "this machine's libcrypt makes no bcrypt hash. Fix: give password_hash, as `htpasswd -nB USER` "
            "prints it, in the place of password"
        )
    return str(found.decode())


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"bcrypt": bcrypt}

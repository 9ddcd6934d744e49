# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts that nvidia-smi prints instead of a value: which mean that there is none, and which are errors.

They are the strings of NVML's return codes (nvmlReturn_t in nvml.h), in brackets in CSV and bare in `-q`; the
table of plain nvidia-smi prints ERR! for any of them. "GPU requires reset" is NVML_ERROR_RESET_REQUIRED of
today's libraries, "GPU requires restart" of old ones.
"""

from __future__ import annotations

import re

#: The texts for a value that this GPU or driver does not have.
_ABSENT = frozenset(
    {
        "n/a",
        "not supported",
        "deprecated",
        "requested functionality has been deprecated",
        "the requested functionality has been deprecated",
    }
)
#: The GPU itself cannot be used: NVML_ERROR_GPU_IS_LOST, _RESET_REQUIRED, _INSUFFICIENT_POWER, _IRQ_ISSUE and
#: _CORRUPTED_INFOROM.
_FAULTY = frozenset(
    {
        "gpu is lost",
        "gpu requires reset",
        "gpu requires restart",
        "insufficient external power",
        "interrupt request issue",
        "corrupted inforom",
    }
)
#: NVML_ERROR_LIB_RM_VERSION_MISMATCH: the loaded module is not of the version of the installed libraries.
_MISMATCH = "driver/library version mismatch"
#: The value could not be read, which says nothing about the GPU.
_UNREAD = frozenset(
    {
        "err!",
        "unknown error",
        "uninitialized",
        "invalid argument",
        "insufficient permissions",
        "not found",
        "function not found",
        "driver not loaded",
        "timeout",
        "no data",
        "not ready",
        "invalid state",
        "in use by another client",
        "gpu access blocked by the operating system",
        _MISMATCH,
    }
)
_BRACKETS = re.compile(r"\[(.{1,200})\]\Z")


def _bare(text: str) -> str:
    found = _BRACKETS.match(text.strip())
    return (found.group(1) if found else text).strip().rstrip(".").lower()


def is_absent(text: str) -> bool:
    """Return whether nvidia-smi reports that there is no such value."""
    return _bare(text) in _ABSENT


def is_trouble(value: object) -> bool:
    """Return whether a value is an error: a known text, or any other in brackets."""
    if not isinstance(value, str) or is_absent(value):
        return False
    return bool(_BRACKETS.match(value.strip())) or _bare(value) in _FAULTY | _UNREAD


def is_faulty(value: object) -> bool:
    """Return whether a value means that the GPU cannot be used."""
    return isinstance(value, str) and _bare(value) in _FAULTY


def is_version_mismatch(message: str) -> bool:
    """Return whether a message reports that loaded driver and installed libraries differ in version."""
    return _MISMATCH in message.lower()

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether the dynamic loader finds the library of a NCCL network plugin, without loading it.

NCCL opens the library by its name and reports a failure only with NCCL_DEBUG=INFO.
"""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

#: What NCCL opens where no plugin is configured.
DEFAULT = "libnccl-net.so"
# A line of `ldconfig -p`: a library's name, its type, its path.
_CACHED = re.compile(r"^\s+(\S+) \([^)]*\) => (/\S.*)$", re.MULTILINE)
# Fields of an ELF file: size and byte order, type (3: a shared library), machine.
_HEADER, _CLASS, _TYPE, _MACHINE = 20, slice(4, 6), slice(16, 18), slice(18, 20)
_SHARED = 3


class Found(NamedTuple):
    """The path of a library, or a message with the problem and its fix; the other one is None."""

    path: str | None
    problem: str | None


def file_name(plugin: str) -> str:
    """Return what NCCL opens for a value of NCCL_NET_PLUGIN: a path or library as given, else a suffix."""
    if "/" in plugin or (plugin.startswith("lib") and plugin.endswith(".so")):
        return plugin
    return f"libnccl-net-{plugin}.so"


def find(plugin: str, cache: str) -> Found:
    """Look for a plugin's library.

    Args:
        plugin: The value of NCCL_NET_PLUGIN, or DEFAULT.
        cache: The output of `ldconfig -p`, the loader's cache.
    """
    name = file_name(plugin)
    cached = dict(reversed(_CACHED.findall(cache)))  # the loader uses the first entry of a name
    path = name if "/" in name else cached.get(name)
    if path is None:
        others = sorted(one for one in cached if re.fullmatch(r"libnccl-net[\w.-]*\.so", one))
        known = f"; it knows {', '.join(others)}" if others else ""
        return Found(
            None,
            f"the loader's cache (ldconfig -p) has no {name}{known}. Install the plugin and run ldconfig, or "
            "set nccl_profile_net_plugin_library to the library's path, or to '' where the jobs' containers "
            "bring it",
        )
    why = _why_not(path)
    return Found(None, f"{path} {why}; install the plugin for this machine") if why else Found(path, None)


def _why_not(path: str) -> str | None:
    try:
        with open(path, "rb") as library, open(sys.executable, "rb") as own:
            header, like = library.read(_HEADER), own.read(_HEADER)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if header[:4] != b"\x7fELF":
        return "is no shared library"
    if (header[_CLASS], header[_MACHINE]) != (like[_CLASS], like[_MACHINE]):
        return "is a library for another machine"
    return None if int.from_bytes(header[_TYPE], sys.byteorder) == _SHARED else "is no shared library"

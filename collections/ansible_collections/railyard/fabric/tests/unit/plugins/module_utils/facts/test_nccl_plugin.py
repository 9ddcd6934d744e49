# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the loader finds a network plugin of NCCL: made-up caches and files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import nccl_plugin

OWN = Path(sys.executable).read_bytes()[:20]
SHARED = OWN[:16] + (3).to_bytes(2, sys.byteorder) + OWN[18:20]
OTHER_MACHINE = SHARED[:18] + bytes(one ^ 0xFF for one in SHARED[18:20])


def cache(folder: Path, *names: str) -> str:
    rows = "".join(f"\t{name} (libc6,x86-64) => {folder / name}\n" for name in names)
    return f"{len(names)} libs found in cache `/etc/ld.so.cache'\n{rows}"


# NCCL 2.30.7's plugin_open.cc: the name itself, which dlopen looks for, then libnccl-net-NAME.so.
@pytest.mark.parametrize(
    ("plugin", "name"),
    [
        (nccl_plugin.DEFAULT, "libnccl-net.so"),
        ("ofi", "libnccl-net-ofi.so"),
        ("libnccl-net-ofi.so", "libnccl-net-ofi.so"),
    ],
)
def test_a_plugin_that_the_loader_finds(tmp_path, plugin, name):
    (tmp_path / name).write_bytes(SHARED + b"the rest")
    assert nccl_plugin.find(plugin, cache(tmp_path, name)) == (str(tmp_path / name), None)


def test_a_plugin_at_a_path_needs_no_cache(tmp_path):
    library = tmp_path / "libnccl-net.so"
    library.write_bytes(SHARED)
    assert nccl_plugin.find(str(library), "") == (str(library), None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"version https://git-lfs", "is no shared library"),
        (b"\x7fELF", "for another machine"),
        (OTHER_MACHINE, "for another machine"),
        (SHARED[:16] + (2).to_bytes(2, sys.byteorder) + SHARED[18:], "is no shared library"),
    ],
)
def test_what_is_in_the_cache_and_cannot_be_loaded(tmp_path, content, says):
    if content is not None:
        (tmp_path / "libnccl-net.so").write_bytes(content)
    path, problem = nccl_plugin.find("libnccl-net.so", cache(tmp_path, "libnccl-net.so"))
    assert path is None
    assert says in problem
    assert str(tmp_path / "libnccl-net.so") in problem


def test_a_plugin_under_another_name_is_named(tmp_path):
    """aws-ofi-nccl 1.15 and 1.16 leave libnccl-net.so as a link, which ldconfig does not take over."""
    path, problem = nccl_plugin.find("libnccl-net.so", cache(tmp_path, "libnccl-net-ofi.so", "libnccl.so.2"))
    assert path is None
    assert "has no libnccl-net.so; it knows libnccl-net-ofi.so. Install the plugin" in problem
    assert "nccl_profile_net_plugin_library" in problem

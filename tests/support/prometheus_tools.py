# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Debian's Prometheus programs that `tools/setup --check` unpacks; they are installed nowhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from railyard.base import paths

#: The packages' own tree: usr/bin/promtool, usr/share/prometheus/alertmanager/default.tmpl and so on.
TREE = paths.repo_root() / ".cache/prometheus/tree"


def find(program: str) -> Path:
    """Return where promtool, prometheus, amtool, prometheus-alertmanager or prometheus-node-exporter is.

    Skips the test where it is neither unpacked nor on the PATH: without apt nothing is fetched.
    """
    unpacked = TREE / "usr/bin" / program
    found = str(unpacked) if unpacked.exists() else shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not here: `tools/setup --check` fetches it where apt-get is there")
    return Path(found)


def alertmanager(*options: str) -> list[str]:
    """Return the command line of Alertmanager.

    It wants its templates in /usr/share and ends without them. Unpacked, it finds them there in a mount
    namespace of its own, which does not need root.
    """
    program = find("prometheus-alertmanager")
    if not program.is_relative_to(TREE):
        return [str(program), *options]
    script = (
        "mount -t tmpfs none /usr/share && mkdir /usr/share/prometheus && "
        'mount --bind "$0/usr/share/prometheus" /usr/share/prometheus && exec "$@"'
    )
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, str(TREE), str(program), *options]

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The services that go with NVIDIA's driver: which are there, which run, which start at boot."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from .. import node_files
from ..facts.tools import Run

# In the order in which they are stopped: DCGM asks the others.
SERVICES = ("nvidia-dcgm", "nvidia-imex", "nvidia-fabricmanager", "nvidia-persistenced")
# What starts without being enabled: udev or another unit asks for it.
_AT_BOOT = ("enabled", "enabled-runtime", "static", "alias", "indirect", "generated")


# What the distribution's unit of the daemon may switch off: Ubuntu's starts `nvidia-persistenced --user
# nvidia-persistenced --no-persistence-mode --verbose` (canonical/nvidia-graphics-drivers,
# debian/templates/nvidia-compute-utils-flavour.nvidia-persistenced.service.in; `systemctl status` of Ubuntu
# nodes in many public reports). Debian's unit has no such option.
_PERSISTENCE, _NO_PERSISTENCE = "nvidia-persistenced", "--no-persistence-mode"
_EXEC_START = re.compile(r"^ExecStart=[ \t]*(\S.*?)[ \t]*$", re.M)
_CONTINUED = re.compile(r"[ \t]*\\\n[ \t]*")


def ask(run: Run) -> dict[str, dict[str, str]]:
    """Return what systemd shows of those that it knows, by name. One question for all of them."""
    units = [f"{name}.service" for name in SERVICES]
    argv = ["systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState,FragmentPath", *units]
    found = {}
    for block in (run(argv) or "").split("\n\n"):
        shown = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if shown.get("LoadState") == "loaded":
            found[shown["Id"][: -len(".service")]] = shown
    # In the order above, whatever systemd's was.
    return {name: found[name] for name in SERVICES if name in found}


def read(asked: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, bool]]:
    """Return name to `active` and `at_boot` of what `ask` returned."""
    return {
        name: {
            "active": shown.get("ActiveState") in ("active", "activating", "reloading"),
            "at_boot": shown.get("UnitFileState") in _AT_BOOT,
        }
        for name, shown in asked.items()
    }


def persistence_exec_start(asked: Mapping[str, Mapping[str, str]], root: str) -> str | None:
    """Return the persistence daemon's command without the option that keeps the mode off.

    Of the unit as it was packaged, whatever drop-ins change: else our own drop-in would be wanted only as
    long as it is not there.

    Args:
        asked: What `ask` returned.
        root: Where the node's files are.

    Returns:
        None where the unit has no such option, or cannot be read.
    """
    path = asked.get(_PERSISTENCE, {}).get("FragmentPath", "")
    unit = node_files.read_text(os.path.join(root, path.lstrip("/"))) or ""
    commands = _EXEC_START.findall(_CONTINUED.sub(" ", unit))
    words = commands[-1].split() if commands else []
    if _NO_PERSISTENCE not in words:
        return None
    return " ".join(word for word in words if word != _NO_PERSISTENCE)

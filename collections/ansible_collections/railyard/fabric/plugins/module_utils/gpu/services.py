# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The services that go with NVIDIA's driver: which are there, which run, which start at boot."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.facts.tools import Run

# In the order in which they are stopped: DCGM asks the others.
SERVICES = ("nvidia-dcgm", "nvidia-imex", "nvidia-fabricmanager", "nvidia-persistenced")
# What starts without being enabled: udev or another unit asks for it.
_AT_BOOT = ("enabled", "enabled-runtime", "static", "alias", "indirect", "generated")


def read(run: Run) -> dict[str, dict[str, bool]]:
    """Return those that systemd knows: name to `active` and `at_boot`. One question for all of them."""
    units = [f"{name}.service" for name in SERVICES]
    said = run(["systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState", *units]) or ""
    found = {}
    for block in said.split("\n\n"):
        told = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if told.get("LoadState") == "loaded":
            found[told["Id"][: -len(".service")]] = {
                "active": told.get("ActiveState") in ("active", "activating", "reloading"),
                "at_boot": told.get("UnitFileState") in _AT_BOOT,
            }
    # In the order above, whatever systemd's was.
    return {name: found[name] for name in SERVICES if name in found}

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the default folder of runs: one rule for the command and for plain ansible-playbook."""

from __future__ import annotations

import os
from pathlib import Path

#: ROOT/collections/ansible_collections/railyard/fabric/plugins/plugin_utils/run/places.py
_ROOT = Path(__file__).resolve().parents[7]


def find_checkout() -> Path | None:
    """Return the checkout that this collection is part of; None for an installed wheel or collection."""
    # Only a checkout has a Makefile beside site.yml; the tree in a wheel has the latter alone.
    return _ROOT if all((_ROOT / name).is_file() for name in ("Makefile", "site.yml")) else None


def reports_dir() -> Path:
    """Return the folder of all clusters' runs.

    It is `RAILYARD_REPORTS_DIR`; else `reports/` of the checkout that this collection is part of; else, for
    an installed wheel or collection, `reports/` of the current folder.
    """
    named = os.environ.get("RAILYARD_REPORTS_DIR")
    if named:
        return Path(named).expanduser().resolve()
    return (find_checkout() or Path.cwd()) / "reports"

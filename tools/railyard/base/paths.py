"""Where Railyard's own files are; importing this module makes the in-tree collection importable.

The collection is not installed as a package: Ansible finds it through `collections_path`, and the command
line finds it here, in this one place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]

if str(_ROOT / "collections") not in sys.path:
    sys.path.insert(0, str(_ROOT / "collections"))


def repo_root() -> Path:
    """Return the checkout that this package runs from (it is installed editable, so there always is one)."""
    return _ROOT


def reports_dir() -> Path:
    """Return the folder of the run folders: `RAILYARD_REPORTS_DIR`, else `reports/` in the checkout."""
    named = os.environ.get("RAILYARD_REPORTS_DIR")
    return Path(named).expanduser().resolve() if named else _ROOT / "reports"

"""Where Railyard's own files are."""

from __future__ import annotations

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]


def repo_root() -> Path:
    """Return the checkout that this package runs from (it is installed editable, so there always is one)."""
    return _ROOT


def reports_dir() -> Path:
    """Return the folder of the run folders: `RAILYARD_REPORTS_DIR`, else `reports/` in the checkout."""
    named = os.environ.get("RAILYARD_REPORTS_DIR")
    return Path(named).expanduser().resolve() if named else _ROOT / "reports"

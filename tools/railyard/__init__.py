"""Railyard's command line, lab and report: what talks to a person.

The collection is not installed as a package: Ansible finds it through `collections_path`, and the command
line finds it here, in this one place.
"""

import sys
from pathlib import Path

_COLLECTIONS = str(Path(__file__).resolve().parents[2] / "collections")
if _COLLECTIONS not in sys.path:
    sys.path.insert(0, _COLLECTIONS)

"""Railyard's command line, lab and report: what talks to a person.

The playbooks, the roles and the collection are not Python packages: Ansible finds them by path, and so does
the command line, here, in this one place.
"""

import sys
from pathlib import Path

_IN_WHEEL = Path(__file__).resolve().parent / "_tree"
#: The folder with site.yml, playbooks, roles and collections: the checkout, or its copy in the wheel.
TREE = _IN_WHEEL if _IN_WHEEL.is_dir() else Path(__file__).resolve().parents[2]

_COLLECTIONS = str(TREE / "collections")
if _COLLECTIONS not in sys.path:
    sys.path.insert(0, _COLLECTIONS)

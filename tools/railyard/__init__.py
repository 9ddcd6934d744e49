"""Railyard's command line, lab and report: what talks to a person.

The playbooks, the roles and the collection are not Python packages: Ansible finds them by path, and so does
the command line, here, in this one place.
"""

import sys
from pathlib import Path

#: Whether this runs from a checkout (installed editable, or not at all) or from an installed wheel.
IS_CHECKOUT = not (Path(__file__).resolve().parent / "_tree").is_dir()
#: The folder with site.yml, playbooks, roles and collections: the checkout, or its copy in the wheel.
TREE = Path(__file__).resolve().parents[2] if IS_CHECKOUT else Path(__file__).resolve().parent / "_tree"

_COLLECTIONS = str(TREE / "collections")
if _COLLECTIONS not in sys.path:
    sys.path.insert(0, _COLLECTIONS)

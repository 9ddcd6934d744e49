"""Where Railyard's own files are, and where it writes what it keeps."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.run import places

import railyard


def repo_root() -> Path:
    """Return the folder with site.yml, playbooks and roles: a checkout, or the copy in an installed wheel."""
    return railyard.TREE


def reports_dir() -> Path:
    """Return the folder of the run folders; the rule is the collection's."""
    return places.reports_dir()

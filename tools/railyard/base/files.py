"""Files that are replaced in one step, and JSON files that may be torn: the collection's own hands for it."""

from __future__ import annotations

from railyard.base import paths  # noqa: F401 - makes the collection importable

from ansible_collections.railyard.fabric.plugins.module_utils.atomic_files import (  # isort: skip
    read_json,
    write_bytes,
    write_file,
)

__all__ = ["read_json", "write_bytes", "write_file"]

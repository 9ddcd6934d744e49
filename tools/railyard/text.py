"""Text that came from a node or an inventory, made harmless to look at: the collection's own words for it."""

from __future__ import annotations

from railyard import paths  # noqa: F401 - makes the collection importable

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import (  # isort: skip
    clean,
    clean_all,
)

__all__ = ["clean", "clean_all"]

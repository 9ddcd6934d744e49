"""Text that came from a node or an inventory, made harmless to look at: the collection's own words for it."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean, clean_all

from railyard.base import paths  # noqa: F401 - makes the collection importable

__all__ = ["clean", "clean_all"]

"""Bare nodes for tests of `railyard discover`."""

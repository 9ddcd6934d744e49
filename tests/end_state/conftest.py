"""The fixtures are in a module of their own, so that molecule's scenarios can take them as well."""

from end_state.fixtures import pytest_collection_finish, pytest_generate_tests, pytest_terminal_summary

__all__ = ["pytest_collection_finish", "pytest_generate_tests", "pytest_terminal_summary"]

"""The built-in lab's topology, a folder of labs of its own, and what images and VMs are made with."""

from __future__ import annotations

from pathlib import Path

import pytest
from railyard.lab import apt, naming, topology


@pytest.fixture
def lab() -> topology.Topology:
    """The topology of the built-in lab."""
    return topology.load(topology.default_file())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds the state of all labs."""
    monkeypatch.setattr(naming, "lab_root", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def settings() -> apt.AptSettings:
    """A mirror and a proxy."""
    return apt.AptSettings(
        ("deb http://mirror.example/debian bookworm main",),
        ('Acquire::http::Proxy "http://proxy.example:3142";',),
        (),
    )

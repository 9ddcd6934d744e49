"""One machine for all tests that build a module or boot: an emulated one is dear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drivers.machine import PATIENCE_S, Machine, lab_of
from e2e.support import needs_root
from railyard.lab.nodes.vm import VmKind


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    needs_root()
    cluster = lab_of(tmp_path_factory.mktemp("dkms"))
    with cluster.up(timeout=PATIENCE_S):
        made = Machine(cluster, VmKind(cluster.lab_name))
        made.first = made.sh("uname", "-r")
        yield made


@pytest.fixture(scope="module")
def failures_before(request: pytest.FixtureRequest) -> int:
    return request.session.testsfailed


@pytest.fixture
def in_their_order(request: pytest.FixtureRequest, failures_before: int) -> None:
    """Spare the machine what builds on a test that failed."""
    if request.session.testsfailed > failures_before:
        pytest.skip("a test that this one builds on has failed")

"""What the tests of all scenarios ask of a host."""

import pytest


@pytest.fixture
def name(host):
    """Its name in the inventory."""
    return host.backend.get_pytest_id().rpartition("/")[2]


@pytest.fixture
def is_configured(name):
    """Whether converge configured the role on it."""
    return name == "gpuserver1"

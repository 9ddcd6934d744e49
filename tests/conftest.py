"""What all tests of this folder need."""

from __future__ import annotations

import gc
import signal
import sys

# A shell without job control starts what goes to its background with Ctrl-C ignored, and that is inherited:
# the programs under test would never see the Ctrl-C that a test sends them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A worker of pytest-xdist gets the configured paths twice. Packages without an __init__.py then have two
# places, and Ansible's loader of plugins wants exactly one.
sys.path[:] = dict.fromkeys(sys.path)


def pytest_collection_finish() -> None:
    """Leave all that is collected out of garbage collection: going through it took a fifth of the time."""
    gc.collect()
    gc.freeze()

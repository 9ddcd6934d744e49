"""Build the image of a lab's nodes while pip still installs what else `railyard` needs.

`tools/setup` starts this as soon as PyYAML is there, which is all that it takes of the virtual environment.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from railyard.lab import apt, host, naming, topology
from railyard.lab.process import LabError
from railyard.lab.wiring import kinds_of

_started = time.monotonic()


def report(message: str) -> None:
    """Print a line of progress; to stderr, since what goes to stdout (`status --json`) is for programs."""
    print(f"lab {time.monotonic() - _started:6.1f} s  {message}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Run `python -m railyard.lab.prepare TOPOLOGY [SUITE]`; `lab up` explains whatever fails here."""
    file, *suite = arguments
    try:
        wanted = topology.load(Path(file), suite=suite[0] if suite else None)
        host.require_tools(wanted.kinds)
        settings = apt.read(wanted.image.suite)
        for kind in wanted.kinds:
            kinds_of(wanted.name)[kind].ensure_image(wanted.image, settings, report)
    except LabError:
        return 1
    finally:
        if naming.lab_root().exists():
            host.give_to_caller(naming.lab_root())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

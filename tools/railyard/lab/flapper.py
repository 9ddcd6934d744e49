"""A cable that loses its light again and again: the fault `flapping_rail` starts it on a node's cable."""

from __future__ import annotations

import subprocess
import sys
import time

_DOWN_S, _UP_S = 0.3, 4.0


def main(leg: str) -> None:
    """Take a leg down and up for ever; the other end of a container's cable loses its carrier with it."""
    print("ready", flush=True)  # the parent waits for this line, and reads no other
    while True:
        for state, lasts_s in (("down", _DOWN_S), ("up", _UP_S)):
            subprocess.run(["ip", "link", "set", leg, state], check=False)
            time.sleep(lasts_s)


if __name__ == "__main__":
    main(sys.argv[1])

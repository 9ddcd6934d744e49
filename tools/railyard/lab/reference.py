"""Reference figures of the lab: how fast the reference machine is, and how long a demo takes there.

This is the only place for these figures; each has its source. The reference machine has two cores, no KVM and
nothing else to do. Only the standard library is used, by any Python from 3.9 on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeSpeed:
    """What the two probes of a node take on the reference machine, in seconds (`speed.py`).

    Attributes:
        work_s: a fixed piece of Python's work in the node.
        login_s: a new SSH connection that runs one command by sudo.
        source: where the figures come from.
    """

    work_s: float
    login_s: float
    source: str

    def slowness(self, work_s: float, login_s: float) -> float:
        """Return how many times slower a node is by the slower of its two probes."""
        return max(work_s / self.work_s, login_s / self.login_s)


@dataclass(frozen=True)
class Phase:
    """One phase of a demo on the reference machine.

    Attributes:
        name: what it does, as the estimate prints it.
        total_s: how long it takes there.
        fixed_s: the part of it that no faster machine shortens: downloads, and tests of a fixed length.
        source: where the figures come from.
    """

    name: str
    total_s: float
    fixed_s: float
    source: str

    def on_machine_s(self, slowness: float) -> float:
        """Return how long it takes on a machine that is so many times slower than the reference."""
        return self.fixed_s + (self.total_s - self.fixed_s) * slowness


#: Blocks per second that two processes of `machine.cpu_slowness` compress together.
#: Source: the greatest of several runs with Python 3.11 while nothing else ran.
BLOCKS_PER_S = 2000.0

_EMULATED = "benchmarks/demo: emulated demo of commit 80a17f47 on the reference machine: 320 s"
_OLDER = "emulated demo of commit 9a31e386 on the reference machine, 26 November 2026"
_CONTAINERS = "demo on containers of commit 9a31e386 on the reference machine, 26 November 2026: 129 s"
#: `fixed_s` follows a second machine, also quiet and with two cores. The emulated demo of commit 9a31e386
#: took 1,181 s there (boot 71 s, provisioning 400 s, measuring 420 s) and 512 s on the reference machine
#: (23, 220 and 171 s). The newer commit was not run there.

NODES = {
    "vm": NodeSpeed(0.31, 0.9, _EMULATED),
    "container": NodeSpeed(0.03, 0.4, "estimate"),
}
#: From this factor on a machine counts as slow: a likely cause of a lab's failure.
SLOW = 2.0

PACKAGES, ENVIRONMENT, IMAGE, BOOT = "packages", "environment", "image", "boot"
PROVISION, MEASURE = "provision", "measure"
#: The phases of a demo in their order, by the kind of its nodes.
DEMO = {
    "vm": {
        PACKAGES: Phase("Debian packages", 20, 10, _OLDER),
        ENVIRONMENT: Phase("virtual environment", 18, 8, _CONTAINERS),
        IMAGE: Phase("image of the nodes", 37, 10, _EMULATED),
        BOOT: Phase("boot", 26, 0, _EMULATED),
        PROVISION: Phase("provisioning", 115, 68, _EMULATED),
        MEASURE: Phase("measuring", 141, 45, _EMULATED),
    },
    "container": {
        PACKAGES: Phase("Debian packages", 9, 5, _CONTAINERS),
        ENVIRONMENT: Phase("virtual environment", 18, 8, _CONTAINERS),
        IMAGE: Phase("image of the nodes", 26, 5, _CONTAINERS),
        BOOT: Phase("boot", 3, 0, _CONTAINERS),
        PROVISION: Phase("provisioning", 22, 5, _CONTAINERS),
        MEASURE: Phase("measuring", 50, 40, _CONTAINERS),
    },
    "infiniband": {
        PACKAGES: Phase("Debian packages", 9, 5, _CONTAINERS),
        ENVIRONMENT: Phase("virtual environment", 18, 8, _CONTAINERS),
        IMAGE: Phase("image of the node", 26, 5, _CONTAINERS),
        BOOT: Phase("boot", 3, 0, _CONTAINERS),
        PROVISION: Phase("simulated subnet", 20, 10, "estimate"),
        MEASURE: Phase("reading it twice", 20, 0, "estimate"),
    },
}

"""After everything: no node, namespace, link, process or file of the labs that the tests use.

Taps and the bridges between live in a lab's namespace and go with it; QEMU would keep a namespace alive that
has lost its name, so it is looked for by itself.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

LABS = (
    "cmax", "discover", "discovered", "dkms", "drivers", "e2e", "eight", "faults", "firstday", "lab",
    "molecule", "molecule2", "observe", "observed", "onerail", "rolling", "slurm", "together",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]


def lines(*argv: str) -> list[str]:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not here, so neither is a lab")
    return subprocess.run(argv, text=True, capture_output=True, check=True).stdout.splitlines()


def of_a_lab(text: str, prefix: str) -> bool:
    # A user's lab whose name only begins alike (labx) may well be up.
    return any(re.search(f"{re.escape(prefix)}{lab}(?![a-z0-9])", text) for lab in LABS)


def test_no_container_is_left() -> None:
    names = lines("podman", "ps", "--all", "--format", "{{.Names}}")
    assert [name for name in names if of_a_lab(name, "railyard-")] == []


def test_no_namespace_is_left() -> None:
    assert [line for line in lines("ip", "netns", "list") if of_a_lab(line, "railyard-")] == []


def test_no_link_is_left() -> None:
    assert [line for line in lines("ip", "-brief", "link") if of_a_lab(line, "ry-")] == []


def test_no_process_is_left() -> None:
    assert [line for line in lines("ps", "-eo", "args") if of_a_lab(line, "/run/netns/railyard-")] == []


def test_no_simulated_subnet_is_left() -> None:
    # ibsim and opensm, unpacked in this checkout: tests/infiniband runs them.
    assert [line for line in lines("ps", "-eo", "args") if line.startswith(f"{ROOT}/.cache/ibsim/")] == []


def test_no_virtual_machine_is_left() -> None:
    qemus = [line for line in lines("ps", "-eo", "args") if line.startswith("qemu-system-")]
    assert [line for line in qemus if of_a_lab(line, "-name railyard-")] == []


def test_no_tap_of_a_lab_is_left_in_this_hosts_own_namespace() -> None:
    names = [line.split()[0].partition("@")[0] for line in lines("ip", "-brief", "link")]
    assert [name for name in names if name.endswith("-tap")] == []


def test_no_file_of_a_lab_is_left() -> None:
    generated = ROOT / "inventories" / "lab" / "group_vars" / "gpu_nodes" / "generated.yml"
    assert [path for path in (generated, *(ROOT / ".lab" / lab for lab in LABS)) if path.exists()] == []

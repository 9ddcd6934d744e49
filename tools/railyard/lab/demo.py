"""Print for `make demo` whether it can begin, how long it takes here, and why it failed.

`tools/demo` calls this, the first time before the virtual environment exists: only the standard library is
used, by any Python from 3.9 on.
"""

from __future__ import annotations

import ipaddress
import json
import re
import sys
from contextlib import suppress
from pathlib import Path

from railyard.base.paths import repo_root
from railyard.lab import host, machine, owners, reference

TOPOLOGIES = {
    "vm": "topology.yml",
    "container": "topology-container.yml",
    "infiniband": "topology-infiniband.yml",
}
#: The nodes of each demo.
NODES = {"vm": "vm", "container": "container", "infiniband": "container"}
#: From here on the estimate names the quick lab as well.
_LONG_S = 600.0
_BAD_INPUT = 2
_QUICK = "make demo LAB=container"


def refusal(kind: str, root: Path, routes: list[owners.Route], labs: dict[str, str]) -> owners.Refusal | None:
    """Return why the demo's lab cannot come up beside what runs on this host, or None."""
    file = root / "tools" / "railyard" / "lab" / TOPOLOGIES[kind]
    name, subnet = name_and_subnet(file.read_text(encoding="utf-8"))
    checkout = labs.get(name, "")
    if owners.is_foreign(checkout, root):
        return owners.refuse_name(name, checkout)
    return owners.refuse_network(name, subnet, routes, labs, str(file.relative_to(root)))


def name_and_subnet(text: str) -> tuple[str, ipaddress.IPv4Network]:
    """Return the lab's name and management subnet of one of our topology files, without a YAML library."""
    name = re.search(r"^name: (\S+)", text, re.MULTILINE)
    subnet = re.search(r"^management:\n(?:  .*\n)*?  subnet: (\S+)", text, re.MULTILINE)
    if name is None or subnet is None:
        raise ValueError("the topology file has no name or no management subnet")
    return name[1], ipaddress.IPv4Network(subnet[1])


def phases_to_come(kind: str, root: Path) -> list[str]:
    """Return the phases of a demo that have not been done before on this machine."""
    left = dict.fromkeys(reference.DEMO[kind])
    if not host.missing_packages([NODES[kind]]):
        del left[reference.PACKAGES]
    if (root / ".venv" / ".railyard-stamp").exists():
        del left[reference.ENVIRONMENT]
    if _has_image(kind, root):
        del left[reference.IMAGE]
    else:  # `tools/setup` makes the environment beside it, in less time
        left.pop(reference.ENVIRONMENT, None)
    return list(left)


def _has_image(kind: str, root: Path) -> bool:
    if kind == "vm":
        return any((root / ".lab" / ".images").glob("*/base.qcow2"))
    # podman's own list of images; only root can read it, and others get the longer estimate.
    with suppress(OSError):
        text = Path("/var/lib/containers/storage/overlay-images/images.json").read_text(encoding="utf-8")
        return "railyard" in text
    return False


def duration_s(kind: str, phases: list[str], slowness: float) -> float:
    """Return how long these phases take on a machine that is so many times slower than the reference."""
    return sum(reference.DEMO[kind][phase].on_machine_s(slowness) for phase in phases)


def minutes(seconds: float) -> str:
    """Return a duration as an estimate, in whole minutes."""
    rounded = max(1, round(seconds / 60))
    return "about 1 minute" if rounded == 1 else f"about {rounded} minutes"


def estimate(kind: str, phases: list[str], slowness: float, load: machine.Load, quick: list[str]) -> str:
    """Return the text before a demo begins.

    Args:
        kind: of the lab's nodes.
        phases: what remains to be done.
        slowness: of this machine at the moment.
        load: what else it does.
        quick: the phases that the quick lab would have.
    """
    table = reference.DEMO[kind]
    parts = ", ".join(
        f"{table[phase].name} {_short(table[phase].on_machine_s(slowness))}" for phase in phases
    )
    whole_s = duration_s(kind, phases, slowness)
    lines = [
        f"This demo takes {minutes(whole_s)} on this machine at the moment: {parts}.",
        f"  The processor needs {slowness:.1f} times as long as the reference machine's ({load}).",
    ]
    if kind == "vm":
        lines.append("  This estimate is without KVM.")
    lines += _busy_lines(load)
    if kind == "vm" and whole_s > _LONG_S:
        quick_s = duration_s("container", quick, slowness)
        lines.append(f"  The quick demo, containers with TCP only, takes {minutes(quick_s)}: {_QUICK}")
    return "\n".join(lines)


def rest_after_boot(kind: str, slowness: float) -> str:
    """Return the text after the nodes are up and their speed is measured."""
    rest_s = duration_s(kind, [reference.PROVISION, reference.MEASURE], slowness)
    line = (
        f"The rest takes {minutes(rest_s)}: the nodes need {slowness:.1f} times as long as on the reference"
        " machine."
    )
    if kind == "vm" and rest_s > _LONG_S:
        line += f"\n  The quick demo, containers with TCP only, is shorter: {_QUICK}"
    return line


def why_it_failed(kind: str, slowness: float | None, load: machine.Load) -> str:
    """Return that the machine is busy or slow and what to do next, or "" where it is neither."""
    slow = slowness is not None and slowness >= reference.SLOW
    if not load.is_busy and not slow:
        return ""
    if load.is_busy:
        lines = [f"This machine is busy, which is a likely cause: {load}.", *_consumer_lines(load)]
        next_step = "end what loads this machine, then `make demo` again"
    else:
        lines = [f"This machine is slow, which is a likely cause: {load}."]
        next_step = "`make demo` again when nothing else runs here"
    if slowness is not None:
        lines.append(
            f"  The nodes needed {slowness:.1f} times as long as on the reference machine when they came up."
        )
    lines.append(f"  What to do next: {next_step}.")
    if kind == "vm":
        lines.append(f"  Or take the quick demo, containers with TCP only: {_QUICK}")
    return "\n".join(lines)


def _busy_lines(load: machine.Load) -> list[str]:
    if not load.is_busy:
        return []
    return ["  This machine is busy with other work, which makes the demo slower.", *_consumer_lines(load)]


def _consumer_lines(load: machine.Load) -> list[str]:
    return [
        f"    process {one.pid} uses {100 * one.share:.0f} % of a core: {one.command}"
        for one in load.consumers
    ]


def _short(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{round(seconds / 60)} min"


def node_slowness(root: Path, name: str, kind: str) -> float | None:
    """Return how many times slower the lab's nodes were than the reference machine's when they came up.

    None where nothing is known of it; the longest limits stand for nodes that did not answer.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads((root / ".lab" / name / "state.json").read_text(encoding="utf-8"))["speed"]
        if data["why"]:
            return float(data["time_factor"])
        return reference.NODES[NODES[kind]].slowness(float(data["work_s"]), float(data["login_s"]))
    return None


def main(arguments: list[str]) -> int:
    """Run `python -m railyard.lab.demo before|booted|failed KIND`; a refusal ends with 2."""
    when, kind = arguments
    root = repo_root()
    name, _subnet = name_and_subnet(
        (root / "tools/railyard/lab" / TOPOLOGIES[kind]).read_text(encoding="utf-8")
    )
    if when == "before":
        refused = refusal(kind, root, owners.routes_of_host(), owners.running_labs())
        if refused is not None:
            print(f"demo: {refused.message}\n  fix: {refused.fix}", file=sys.stderr)
            return _BAD_INPUT
        load, slowness = machine.look_at_load(name), machine.cpu_slowness()
        quick = phases_to_come("container", root)
        print(estimate(kind, phases_to_come(kind, root), slowness, load, quick))
    elif when == "booted":
        print(rest_after_boot(kind, node_slowness(root, name, kind) or 1.0))
    else:
        text = why_it_failed(kind, node_slowness(root, name, kind), machine.look_at_load(name))
        if text:
            print(f"\n{text}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

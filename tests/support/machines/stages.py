# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each part of Railyard says of a pair: problems as text, nothing where all is as it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.qos.settings import QosError
from end_state import expect, expect_nccl, expect_rdma

from support.machines import reading
from support.machines.pair import NodeOn, Pair
from support.machines.roles import Role
from support.machines.run import GalleryRun
from support.nodes import qos_node

_OUTCOMES = {"fail": "fail", "unmeasured": "unmeasured"}


@dataclass(frozen=True)
class Problem:
    """What one part of Railyard says against a machine.

    Attributes:
        outcome: `fail`, `unmeasured` or `refused`.
        cause: the cause's id, where the part has one.
        check: the check, where the part has one.
        node: whose.
        text: what it is.
    """

    outcome: str
    cause: str | None
    check: str | None
    node: str | None
    text: str


def preflight(pair: Pair) -> list[Problem]:
    """Return what preflight says of the inventory."""
    return [Problem("refused", None, None, None, one.text()) for one in pair.problems]


def bind(pair: Pair) -> list[Problem]:
    """Return where a rail's netdev or RDMA port is not the machine's."""
    found = []
    for node in pair.nodes.values():
        for rail, one in node.bound().items():
            found += [
                Problem("fail", bad.cause, None, node.name, bad.detail)
                for bad in one.findings
                if bad.cause not in pair.machine.expected.findings
            ]
            hca, wanted = (one.hca or {}).get("hca"), pair.machine.expected.hcas.get(rail)
            if hca != wanted:
                text = f"{node.name} {rail} is bound to {hca}, the machine has {wanted}"
                found.append(Problem("fail", "hca_missing", None, node.name, text))
    return found


def judge(pair: Pair) -> list[Problem]:
    """Return the verdicts of a run that are no pass."""
    run = GalleryRun(pair)
    verdicts = run.judge()
    found = [
        Problem(one["outcome"], one["cause_class"], one["check"], one["node"],
                f"{one['node']} {one['rail']}: {one['cause']}")
        for one in verdicts if one["outcome"] in _OUTCOMES
    ]  # fmt: skip
    status = run.status(verdicts)
    if bool(status) != bool(found):
        found.append(Problem("fail", None, None, None, f"exit status {status} with {len(found)} problems"))
    return found


def quick(pair: Pair) -> list[Problem]:
    """Return what the quick check says of both nodes."""
    found = []
    for node in pair.nodes.values():
        seen = node.quick()
        for outcome, words in (("fail", seen.wrong), ("unmeasured", seen.unknown)):
            found += [Problem(outcome, one.partition(":")[0], None, node.name, one) for one in words]
    return found


def gpu_info(pair: Pair) -> list[Problem]:
    """Return where gpu_info does not tell the machine's GPUs."""
    found, wanted = [], pair.machine.expected.gpus
    for node in pair.nodes.values():
        seen = node.gpu_info()
        warnings = [one for one in seen["warnings"] if "dpkg" not in one]
        found += [Problem("unmeasured", None, None, node.name, one) for one in warnings]
        if len(seen["gpus"]) != wanted:
            said = f"{node.name}: {len(seen['gpus'])} NVIDIA GPUs, the machine has {wanted}"
            found.append(Problem("fail", None, None, node.name, said))
    return found


def roce_qos(pair: Pair) -> list[Problem]:
    """Hold the QoS of both nodes twice; return refusals, and where the second time changes something."""
    found = []
    for node in pair.nodes.values():
        before = _below(node)
        try:
            node.hold_qos(pair.variables())
            if node.hold_qos(pair.variables())["changed"]:
                found.append(Problem("fail", None, None, node.name, "the second run changes something"))
        except QosError as error:
            found.append(Problem("refused", None, None, node.name, str(error)))
            if changed := [path for path, text in _below(node).items() if before.get(path) != text]:
                found.append(Problem("fail", None, None, node.name, f"half-changed: {', '.join(changed)}"))
    return found


def _below(node: NodeOn) -> dict[str, object]:
    """Return the files of the node that QoS writes, and the calls that set something."""
    root, calls = node.tree.root, node.tree.root / "bin/calls.log"
    paths = [*root.glob("sys/class/net/*/ecn/**/*"), *root.glob("sys/class/net/*/qos/*")]
    paths += [*root.glob("sys/kernel/**/*"), *root.glob("sys/class/infiniband/*/tc/**/*")]
    found: dict[str, object] = {
        str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()
    }
    found["calls"] = qos_node.setting_calls(calls.read_text().splitlines()) if calls.exists() else []
    return found


def kernel_settings(pair: Pair) -> list[Problem]:
    """Return what kernel_settings cannot read of the CPUs."""
    found = []
    for node in pair.nodes.values():
        state = node.kernel_settings()
        if len(state["governors"]) != (node.tree.node.cpus if node.tree.node.governor else 0):
            found.append(Problem("fail", None, None, node.name, f"governors: {state['governors']}"))
    return found


def nccl(pair: Pair) -> list[Problem]:
    """Return where /etc/nccl.conf is not what the machine needs."""
    found = []
    for node in pair.nodes.values():
        seen = settings(nccl_conf(pair, node))
        found += [
            Problem("fail", None, None, node.name, f"{name}={seen.get(name)}, the machine needs {value}")
            for name, value in pair.machine.expected.nccl.items()
            if seen.get(name) != value
        ]
    return found


def nccl_conf(pair: Pair, node: NodeOn) -> str:
    """Return /etc/nccl.conf as role nccl_profile writes it."""
    return Role("nccl_profile", node, pair.variables()).template("etc/nccl.conf.j2")


def settings(text: str) -> dict[str, str]:
    """Read nccl.conf as NCCL does: the first `=` splits, a line that begins with `#` is a comment."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def end_state(pair: Pair) -> list[Problem]:
    """Return what the end-state tests say of both nodes."""
    found: list[str] = []
    for node in pair.nodes.values():
        seen = reading.make_reading(node.tree, nccl_conf(pair, node))
        plan: dict[str, Any] = {"cabling": pair.plan["cabling"], **node.plan}
        options = {name: value for name, value in pair.variables().items() if not name.startswith("fabric")}
        for rail in plan["rails"]:
            checks: list[Callable[..., list[str]]] = [expect.link, expect.mtu, expect.addresses]
            if rail["address"] is None and rail["netdev"] is None:
                checks = []
            if plan["transport"] != "tcp":
                checks += [expect_rdma.port, *([expect_rdma.gid] if plan["transport"] == "roce" else [])]
            found += [f"{node.name} {rail['name']}: {one}" for check in checks for one in check(rail, seen)]
        found += [f"{node.name}: {one}" for one in expect_nccl.nccl(plan, options, seen)]
    return [Problem("fail", None, None, None, one) for one in found]


OF: dict[str, Callable[[Pair], list[Problem]]] = {
    "preflight": preflight,
    "bind": bind,
    "judge": judge,
    "quick": quick,
    "gpu_info": gpu_info,
    "roce_qos": roce_qos,
    "kernel_settings": kernel_settings,
    "nccl": nccl,
    "end_state": end_state,
}

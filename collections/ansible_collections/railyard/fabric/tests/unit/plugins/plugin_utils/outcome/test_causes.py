# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cause table is complete: each class that a verdict may carry has likely cause, command, next step."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard, get_args

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import ErrorClass
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import attempts, slow_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import bmc
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes

# What is on a node or controller that Railyard provisioned, or in the packages that the roles install.
PROGRAMS = {
    *(
        "ansible",
        "arping",
        "bridge",
        "cat",
        "cpupower",
        "dcb",
        "dcgmi",
        "lsblk",
        "df",
        "dmesg",
        "dpkg",
        "ethtool",
        "ib_write_bw",
        "ibstat",
        "ibv_devinfo",
        "ip",
    ),
    *(
        "ipmitool",
        "journalctl",
        "lldpctl",
        "lspci",
        "mstconfig",
        "netplan",
        "networkctl",
        "nft",
        "numactl",
        "nvidia-smi",
    ),
    *("ping", "railyard", "rdma", "saquery", "smartctl", "ss", "ssh", "sysctl", "tar", "tc", "tcpdump"),
    *("top", "uname"),
    *("hostname", "systemctl", "tail"),
    *("ibnetdiscover", "iblinkinfo", "ibqueryerrors", "ibswitches", "sminfo", "smpquery"),
}


def _is_text(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def named_causes() -> Iterator[str]:
    """Yield every class that the judge's code gives to a verdict, or that binding finds."""
    calls = {"failed", "unknown", "unmeasured", "explain", "cause", "Finding", "_beyond", "NotAdded"}
    folders = (Path(module.__file__).parent for module in (causes, gpu))
    for path in (*(file for folder in folders for file in folder.rglob("*.py")), Path(bind.__file__)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                called = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                if called in calls:
                    # A choice between two classes names both; what it is made by is no class.
                    first = node.args[0]
                    chosen = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                    yield from (one.value for one in chosen if _is_text(one))
            # What is found is handed on as a class with what was seen.
            if (
                isinstance(node, ast.Tuple)
                and len(node.elts) == 2
                and isinstance(node.elts[1], ast.JoinedStr)
            ):
                yield from (one.value for one in node.elts[:1] if _is_text(one))
    yield from bmc._CAUSES.values()
    yield from (*get_args(ErrorClass), *slow_rails.SLOW, *slow_rails.NAMED, *attempts.REPEATED)


def test_every_cause_has_a_likely_cause_a_command_and_a_next_step() -> None:
    assert sorted(set(named_causes()) - set(causes.CAUSES)) == []
    for name, cause in causes.CAUSES.items():
        assert name == cause.name
        assert cause.sentence[0].islower() or cause.sentence[0].isupper()
        assert not cause.sentence.endswith(".")
        assert cause.next.endswith(".")
        assert cause.likely
        assert not cause.likely.endswith(".")
        program, *words = shlex.split(cause.command)
        assert program in PROGRAMS, name
        capitals = {found for word in words for found in re.findall(r"\b[A-Z][A-Z_]{2,}\b", word)}
        assert capitals <= {*causes.PLACEHOLDERS, "INTERNAL_CPU_OFFLOAD_ENGINE", "SRD"}, name
        assert causes.explain(name)["next"] == f"Likely {cause.likely}; see `{cause.command}`. {cause.next}"


@pytest.mark.parametrize("name", ["netdev_missing", "netdev_differs", "hca_missing"])
def test_a_rail_that_does_not_bind_names_the_command_that_compares(name: str) -> None:
    assert "`railyard discover --diff -i INVENTORY`" in causes.CAUSES[name].next


def test_what_the_table_lacks_is_named_so() -> None:
    # An absent node was once called a defect of the runner.
    assert causes.explain("peer_absent")["cause_class"] == "peer_absent"
    said = causes.explain("a class of next year", "x")
    assert said["cause_class"] == "row_garbled"
    assert "a class of next year" in said["cause"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "Likely cable, transceiver or the switch's port; see `ethtool NETDEV`. "),
        (
            {"known": {"NETDEV": "ens6"}},
            "Likely cable, transceiver or the switch's port; see `ethtool ens6`. ",
        ),
        # Text from a node never starts a new line of the report.
        (
            {"known": {"NETDEV": "ens6\nFAIL"}},
            "Likely cable, transceiver or the switch's port; see `ethtool ens6 / FAIL`",
        ),
        ({"likely": ("rust", "ls PEER"), "known": {"NETDEV": "x"}}, "Likely rust; see `ls PEER`. "),
        ({"fix": "do this"}, "do this"),
        ({"fix": "do this", "likely": ("rust", "ls")}, "Likely rust; see `ls`. do this"),
    ],
)
def test_the_next_step_begins_with_the_likely_cause(given: dict[str, object], wanted: str) -> None:
    assert causes.explain("link_down", **given)["next"].startswith(wanted)

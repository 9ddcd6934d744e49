"""Which nodes and rails the tests run on, and how they get to see a node. `conftest.py` takes all of it.

A test that has `node` runs once per node of the plan, one that has `rail` once per node and rail. Set by
environment, since molecule and `railyard verify` both start pytest, each with other options:

RAILYARD_PLAN               plan.json; without it the plan is made from `--ansible-inventory`
RAILYARD_READ               nodes that Ansible has read; without it they are read by testinfra
RAILYARD_EXPECT             JSON: node → those variables of the roles that the inventory sets
"""

from __future__ import annotations

import datetime
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from end_state import minimums
from end_state.reading import NotReadError, read_all, read_before

_GOVERNORS = {"training": "performance", "powersave": "saving"}


class Node:
    """A node of the plan, and what was read of it.

    Attributes:
        name: its inventory name.
        plan: its entry in the plan.
    """

    def __init__(self, name: str, plan: dict[str, Any], session: Session) -> None:
        self.name = name
        self.plan = plan
        self._session = session

    @property
    def state(self) -> dict[str, Any]:
        """What was read of the node; a node that did not answer fails the test that asks."""
        state = self._session.states()[self.name]
        if isinstance(state, NotReadError):
            raise UnreachableError(f"{self.name} could not be read: {state}")
        return state

    @property
    def options(self) -> dict[str, Any]:
        """The roles' variables that the inventory sets."""
        return self._session.options(self.name)

    @property
    def node_class(self) -> str:
        """hardware, virtual or container, as node_tuning takes it."""
        return str(self.options.get("node_tuning_node_class") or self.plan.get("node_class") or "hardware")

    @property
    def tuning(self) -> str:
        """The profile that the inventory wants of node_tuning; empty where it wants nothing set."""
        profile = str(self.options.get("node_tuning_profile", "training"))
        return "" if profile == "none" or self.options.get("node_tuning_state") == "restored" else profile

    @property
    def governor(self) -> str:
        """The governor that the inventory wants; empty where it wants none, as in a VM by default."""
        if not self.tuning:
            return ""
        default = "" if self.node_class == "virtual" else _GOVERNORS[self.tuning]
        return str(self.options.get("node_tuning_governor", default))

    @property
    def memlock_unlimited(self) -> bool:
        """Whether the inventory wants locked memory without a limit."""
        return bool(self.tuning) and bool(self.options.get("node_tuning_memlock_unlimited", True))


class UnreachableError(Exception):
    """A node could not be read. `railyard verify` tells it from a failed test."""


class UnknownError(Exception):
    """Something that a node which answers cannot report. `railyard verify` counts it separately, too."""


def agree(problems: list[str]) -> None:
    """Fail with the sentences that say what is wrong; a traceback would add nothing to them."""
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


class Session:
    """One run of pytest: the plan, and each node's state, read once."""

    def __init__(self, config: pytest.Config) -> None:
        self._inventory = config.getoption("ansible_inventory", default=None)
        self._force_ansible = bool(config.getoption("force_ansible", default=False))
        self._states: dict[str, Any] = {}
        self.wanted: list[str] = []

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        """The nodes of the plan, by name."""
        plan = _plan(os.environ.get("RAILYARD_PLAN"), self._inventory)
        return {name: {"cabling": plan["cabling"], **node} for name, node in plan["nodes"].items()}

    def states(self) -> dict[str, Any]:
        """Read all nodes that a collected test asks for, at the first call."""
        read = os.environ.get("RAILYARD_READ")
        if not self._states and read:
            self._states = read_before(Path(read), self.wanted)
        elif not self._states:
            self._states = read_all(self.wanted, self._inventory, force_ansible=self._force_ansible)
        return self._states

    @property
    def read(self) -> dict[str, Any]:
        """The nodes that were read so far, without reading any."""
        return self._states

    def options(self, name: str) -> dict[str, Any]:
        """What the inventory sets of the roles' variables for a node."""
        return dict(json.loads(os.environ.get("RAILYARD_EXPECT") or "{}").get(name, {}))


@cache
def _plan(path: str | None, inventory: str | None) -> dict[str, Any]:
    if path:
        return dict(json.loads(Path(path).read_text(encoding="utf-8")))
    if inventory is None:
        raise pytest.UsageError(
            "the end-state tests need a plan: set RAILYARD_PLAN or give --ansible-inventory"
        )
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load as inventories
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan

    return build_plan(inventories.load([inventory]))


_SESSION = pytest.StashKey[Session]()


def _session(config: pytest.Config) -> Session:
    if _SESSION not in config.stash:
        config.stash[_SESSION] = Session(config)
    return config.stash[_SESSION]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each node, and for each rail of it where it asks for one."""
    if "node" not in metafunc.fixturenames:
        return
    session = _session(metafunc.config)
    nodes = [Node(name, plan, session) for name, plan in session.nodes.items()]
    if "rail" in metafunc.fixturenames:
        pairs = [(node, rail) for node in nodes for rail in node.plan["rails"]]
        names = [f"{node.name}-{rail['name']}" for node, rail in pairs]
        metafunc.parametrize(("node", "rail"), pairs, ids=names)
    else:
        metafunc.parametrize("node", nodes, ids=[node.name for node in nodes])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which nodes are selected, so that `-k gpu007` reads one node and not a thousand."""
    asked = [item.callspec.params.get("node") for item in session.items if hasattr(item, "callspec")]
    names = [node.name for node in asked if isinstance(node, Node)]
    _session(session.config).wanted = list(dict.fromkeys(names))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report the versions of the nodes that were read beside their minimums."""
    states = _session(config).read
    if states:
        for line in minimums.lines(states, datetime.datetime.now(datetime.UTC).date()):
            terminalreporter.write_line(line)

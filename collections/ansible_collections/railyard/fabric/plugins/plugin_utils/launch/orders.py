# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the test schedule of each node of a run, and pack the program that runs it."""

from __future__ import annotations

import functools
import getpass
import hashlib
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import program as packing
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import work_order
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import own_orders, pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder


class SplitOrders(NamedTuple):
    """The schedules of many nodes for a launcher that sends the common part once.

    Attributes:
        common: the common part.
        own: node -> the rest of its schedule, without the run's secret.
        refused: node -> why it has no schedule.
        deadline_s: seconds after which each node is certainly done.
    """

    common: dict[str, Any]
    own: dict[str, dict[str, Any]]
    refused: dict[str, str]
    deadline_s: float


class OrderError(ValueError):
    """A node has no test schedule; the message names the node and why."""


class Orders:
    """The schedules of a run's nodes; the common part is read once.

    Attributes:
        common: the common part.
    """

    def __init__(self, folder: run_folder.RunFolder, of_all: bool = False) -> None:
        """Read the common part.

        Args:
            folder: the run's.
            of_all: read the parts of all nodes at once.

        Raises:
            OrderError: it cannot be read.
        """
        self._folder = folder
        try:
            self.common = folder.orders()[-1]
            self._own = own_orders.read_all(folder) if of_all else None
            # In a second order a node's rows go on in the sequence of those that it has handed over.
            taken = folder.rows(run_folder.ARCHIVES)[0] if folder.confirms() else ()
            self._rows_before = {row["node"]: row["rows"] for row in taken if "of" not in row}
        except run_folder.RunFolderError as error:
            raise OrderError(f"the run folder {folder.path} has no test schedule: {error}") from error

    def build(self, node: str) -> dict[str, Any]:
        """Build a node's test schedule.

        Raises:
            OrderError: the folder lacks something, or the schedule is incomplete.
        """
        try:
            own = own_orders.read_node(self._folder, node) if self._own is None else self._own[node]
            common = {**self.common, "bounds": own["bounds"]} if "bounds" in own else self.common
            order = work_order.for_node(common, node, self._folder.secret(), own["netdevs"], own["hcas"])
            if node in self._rows_before:
                order["rows_before"] = self._rows_before[node]
        except (run_folder.RunFolderError, KeyError, ValueError) as error:
            raise OrderError(
                f"{node}: the run folder {self._folder.path} has no test schedule: {error}"
            ) from error
        problems = work_order.check(order)
        if problems:
            raise OrderError(f"{node}: test schedule: {'; '.join(problems)}")
        return order


def split_orders(folder: run_folder.RunFolder, nodes: Iterable[str]) -> SplitOrders:
    """Build the schedules of the nodes with facts; of a second schedule, of the nodes that take part.

    Raises:
        OrderError: the folder has no test schedule.
    """
    made = Orders(folder, of_all=True)
    try:
        measuring = {str(row.get("node")) for row in folder.rows(run_folder.FACTS)[0]}
    except run_folder.RunFolderError as error:
        raise OrderError(str(error)) from error
    if folder.confirms():
        measuring.intersection_update(pattern.taking_part(made.common))
    own, refused, deadline_s = {}, {}, 0.0
    for node in nodes:
        if node not in measuring:
            continue
        try:
            order = made.build(node)
        except OrderError as error:
            refused[node] = str(error)
            continue
        own[node] = {
            key: value
            for key, value in order.items()
            if key != "secret" and (key not in made.common or made.common[key] != value)
        }
        deadline_s = max(deadline_s, main.worst_case_s(order))
    return SplitOrders(made.common, own, refused, deadline_s)


def controller_name() -> str:
    """Return user and host of the controller, which a leased node reports to others."""
    return f"{getpass.getuser()}@{platform.node()}"


@functools.lru_cache(maxsize=2)
def program(*more: str) -> tuple[bytes, str]:
    """Return the runner and its sha256; `more` names modules that are packed with it."""
    module_utils = Path(__file__).resolve().parents[2] / "module_utils"

    def read(name: str) -> str | None:
        path = module_utils / (name.replace(".", "/") + ".py")
        return path.read_text(encoding="utf-8") if path.is_file() else None

    data = packing.build("runner.main", read, *more)
    return data, hashlib.sha256(data).hexdigest()

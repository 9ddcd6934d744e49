# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What perftest's programs have in common: the command line of a rail's port, and whose table was printed.

Their server takes one connection and is done, so nothing may be connected to it to see whether it is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import class_of
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import (
    CLOCK_LOST,
    MeasurementError,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest_srd
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    Finished,
    Tool,
    ToolSession,
    failed,
    number,
    parsed,
)
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import capture
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.perftest import output as perftest

# perftest counts processor cycles and learns their rate at the end, by comparing two clocks 200 times. Where
# its processor is taken away in between (an emulated or crowded machine) it gives up and prints 0 or inf.
_CLOCK_LOST = "Correlation coefficient r^2"
#: A server that its client has left ends by itself; on a busy emulated processor that takes seconds.
LEAVE_S = 12.0
LEAVE_FAILED_S = 1.0
#: How the options for the class of a test's packets begin.
CLASS_OPTIONS = ("--tclass=", "--sl=")
# `--source_ip` of 6.03 was renamed in 6.17; what is older has neither.
_SOURCE_OPTIONS = (((6, 17), "--bind_source_ip"), ((6, 3), "--source_ip"))


class Perftest(Tool):
    """A program of perftest on the rail's port.

    Args:
        name: `ib_write_bw` and its kin.
        pinned: whether the policy may pin it to the port's NUMA node.
        check: the check that it measures, where the program has several of different classes.
    """

    package = "perftest"
    rdma = True
    same_version = True
    # Which of root's a card's driver asks for is the vendor's matter.
    capabilities = None

    def __init__(self, name: str, pinned: bool = True, check: str = "rdma_bandwidth") -> None:
        self.name = name
        self._check = check
        self._may_pin = pinned

    def command(self, play: ToolSession, options: list[str], server: bool) -> list[str]:
        """Return the whole command line of one end; the port's GID is looked up now.

        Raises:
            MeasurementError: the port or its GID is gone; `rdma_unsupported`, see `perftest_srd`.
        """
        port = play.rdma_port()
        program = self.program(play.policy)
        argv = [*self.pin(play, port.numa_node), program, "-d", port.device, "-i", str(port.port)]
        if port.connection:
            perftest_srd.require(self.name, program, port.connection, play.own.host)
            argv += perftest_srd.words(self.name, port.connection)
        if port.gid_index is not None:
            argv += ["-x", str(port.gid_index)]
        argv += [
            "-p",
            str(play.port),
            *options,
            *class_words(self._check, play.policy),
            "-F",
            *_source_option(play),
        ]
        return argv if server else [*argv, play.peer_address]

    def pin(self, play: ToolSession, numa_node: int | None) -> list[str]:
        """Return the words that keep the program and its memory on the port's NUMA node."""
        if numa_node is None or numa_node < 0 or not self._may_pin or not play.policy["numa_pinning"]:
            return []
        if shutil.which("numactl") is None:
            return []
        return ["numactl", f"--cpunodebind={numa_node}", f"--membind={numa_node}"]

    def port_fields(self, play: ToolSession, output: Mapping[str, Any], argv: list[str]) -> dict[str, Any]:
        """Return what a row says of the port and of how the program ran."""
        port = play.rdma_port()
        return {
            "hca": f"{port.device}:{port.port}",
            "gid_index": port.gid_index,
            "gid_type": port.gid_type,
            "active_mtu_bytes": output.get("mtu_bytes"),
            "qps": output.get("qps"),
            **class_of(self._check, play.policy)._asdict(),
            "numa_node": port.numa_node,
            "pinned": argv[0] == "numactl",
        }

    def read(self, play: ToolSession, done: Finished, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the program's output, made sure to be the asked run's.

        Args:
            play: the end that ran it.
            done: what it printed; both a status and a table must say that it went well.
            asked: fields that the output must state so, such as `qps`.

        Raises:
            MeasurementError: as `parsed`, or `tool_failed` for another test's output.
        """
        # A port that has gone is the reason for whatever the program says of it.
        port = play.rdma_port()
        try:
            output = parsed(play, self.name, done.text, _parse_whole)
        except MeasurementError as obstacle:
            if _CLOCK_LOST in done.text:
                raise clock_lost(play, self.name) from obstacle
            if port.connection:
                refused = perftest_srd.refusal(done.text, self.name, port.device, play.own.host)
                if refused is not None:
                    raise refused from obstacle
            # "Couldn't connect to" alone could be anybody's words: the status says that it failed.
            if obstacle.error_class == "tool_garbage" and done.exit_status != 0:
                raise failed(play, self.name, done.text or "it ended without a word") from obstacle
            raise
        if done.exit_status != 0:
            raise failed(play, self.name, f"it printed a table and ended with status {done.exit_status}")
        expected = {**asked, "test": self.name, "device": port.device, "gid_index": port.gid_index}
        for field, value in expected.items():
            if output.get(field) != value:
                raise self.differs(play, field, output.get(field), value)
        if len(output["rows"]) > 1:
            raise failed(play, self.name, "it printed {} rows, asked was one".format(len(output["rows"])))
        return output

    def differs(self, play: ToolSession, field: str, seen: object, asked: object) -> MeasurementError:
        """Say that the output is not that of the test that was asked for."""
        return failed(play, self.name, f"{field} of its output is {seen!r}, asked was {asked!r}")


def class_words(check: str, policy: Mapping[str, Any]) -> list[str]:
    """Return the options that put a test's packets into their class.

    `--tclass` goes into the GRH, which RoCE always has; `--sl` into the address vector
    (linux-rdma/perftest src/perftest_parameters.c). Without `-R` there is no rdma_cm, to
    which `--tos` belongs.
    """
    traffic_class, service_level = class_of(check, policy)
    words = [] if traffic_class is None else [f"{CLASS_OPTIONS[0]}{traffic_class}"]
    return words if service_level is None else [*words, f"{CLASS_OPTIONS[1]}{service_level}"]


def clock_lost(play: ToolSession, name: str) -> MeasurementError:
    """Say that the program ran and could not turn its cycles into time; the runner tries it again."""
    return play.own.error(
        CLOCK_LOST,
        f"{name} on {play.own.host} could not calibrate its clock, so its table holds no numbers",
        "its processor is shared with others: measure when they are quiet",
    )


def leave_s(play: ToolSession) -> float:
    """Return how long a server may take to end after its client."""
    return LEAVE_FAILED_S if play.peer_failed else LEAVE_S


def _source_option(play: ToolSession) -> list[str]:
    """Return the option that makes the exchange of keys use the rail's own address."""
    version = number(play.version) or ()
    for since, option in _SOURCE_OPTIONS:
        if version >= since:
            return [option, play.own.address]
    return []


def _parse_whole(text: str) -> dict[str, Any]:
    """Parse; the passive side of a read prints no rows by nature, and that is whole here."""
    result: dict[str, Any] = capture.read(perftest.parse, text)
    outputs = result["outputs"]
    silent = len(outputs) == 1 and not outputs[0]["rows"] and outputs[0]["role"] == "server"
    if silent and result["error"] is None and str(outputs[0]["test"]).startswith("ib_read_"):
        return {**result, "valid": True}
    return result

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of perftest's programs: the command line for a rail's port, and the check of the printed table.

The server accepts one connection and ends, so it must not be probed by connecting to it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from ..catalogue.tests import class_of
from ..channel.errors import CLOCK_LOST, MeasurementError
from ..parsers import capture
from ..parsers.perftest import output as perftest
from . import perftest_srd
from .base import Finished, Tool, ToolSession, parse_output, parse_version, tool_failed

# perftest counts CPU cycles and calibrates their rate at the end, by comparing two clocks 200 times. Where
# its CPU is taken away in between (an emulated or busy machine) it gives up and prints 0 or inf.
_CLOCK_LOST = "Correlation coefficient r^2"
#: A server ends after its client; on a busy emulated CPU that takes seconds.
LEAVE_S = 12.0
LEAVE_FAILED_S = 1.0
#: The options for the traffic class and service level of a test's packets.
CLASS_OPTIONS = ("--tclass=", "--sl=")
# `--source_ip` of 6.03 was renamed in 6.17; older versions have neither.
_SOURCE_OPTIONS = (((6, 17), "--bind_source_ip"), ((6, 3), "--source_ip"))


class Perftest(Tool):
    """A program of perftest on the rail's port.

    Args:
        name: such as `ib_write_bw`.
        pinned: whether the policy may pin it to the port's NUMA node.
        check: the check, where the program runs several with different traffic classes.
    """

    package = "perftest"
    rdma = True
    same_version = True
    # Each vendor's driver may need other capabilities.
    capabilities = None

    def __init__(self, name: str, pinned: bool = True, check: str = "rdma_bandwidth") -> None:
        self.name = name
        self._check = check
        self._may_pin = pinned

    def command(self, session: ToolSession, options: list[str], server: bool) -> list[str]:
        """Return the command line of one end; the port's GID is looked up now.

        Raises:
            MeasurementError: the port or its GID is gone; `rdma_unsupported`, see `perftest_srd`.
        """
        port = session.rdma_port()
        program = self.program(session.policy)
        argv = [*self.pin(session, port.numa_node), program, "-d", port.device, "-i", str(port.port)]
        if port.connection:
            perftest_srd.require(self.name, program, port.connection, session.own.host)
            argv += perftest_srd.build_options(self.name, port.connection)
        if port.gid_index is not None:
            argv += ["-x", str(port.gid_index)]
        argv += [
            "-p",
            str(session.port),
            *options,
            *build_class_options(self._check, session.policy),
            "-F",
            *_source_option(session),
        ]
        return argv if server else [*argv, session.peer_address]

    def pin(self, session: ToolSession, numa_node: int | None) -> list[str]:
        """Return the command prefix that keeps the program and its memory on the port's NUMA node."""
        if numa_node is None or numa_node < 0 or not self._may_pin or not session.policy["numa_pinning"]:
            return []
        if shutil.which("numactl") is None:
            return []
        return ["numactl", f"--cpunodebind={numa_node}", f"--membind={numa_node}"]

    def port_fields(self, session: ToolSession, output: Mapping[str, Any], argv: list[str]) -> dict[str, Any]:
        """Return the row's keys about the port and how the program ran."""
        port = session.rdma_port()
        return {
            "hca": f"{port.device}:{port.port}",
            "gid_index": port.gid_index,
            "gid_type": port.gid_type,
            "active_mtu_bytes": output.get("mtu_bytes"),
            "qps": output.get("qps"),
            **class_of(self._check, session.policy)._asdict(),
            "numa_node": port.numa_node,
            "pinned": argv[0] == "numactl",
        }

    def read(self, session: ToolSession, done: Finished, expected: Mapping[str, Any]) -> dict[str, Any]:
        """Parse the program's output and check that it is of the planned test.

        Args:
            session: the end that ran it.
            done: the finished program; its exit status and its table must both be good.
            expected: fields of the output with their expected values, such as `qps`.

        Raises:
            MeasurementError: as `parse_output`, or `tool_failed` for another test's output.
        """
        # A port that is gone is the cause of any error that the program prints.
        port = session.rdma_port()
        try:
            output = parse_output(session, self.name, done.text, _parse_complete)
        except MeasurementError as failure:
            if _CLOCK_LOST in done.text:
                raise clock_lost(session, self.name) from failure
            if port.connection:
                refused = perftest_srd.refusal(done.text, self.name, port.device, session.own.host)
                if refused is not None:
                    raise refused from failure
            # "Couldn't connect to" may come from any program: only the status shows that this one failed.
            if failure.error_class == "tool_garbage" and done.exit_status != 0:
                raise tool_failed(session, self.name, done.text or "it ended without output") from failure
            raise
        if done.exit_status != 0:
            raise tool_failed(
                session, self.name, f"it printed a table and ended with status {done.exit_status}"
            )
        own = {"test": self.name, "device": port.device, "gid_index": port.gid_index}
        for field, value in {**expected, **own}.items():
            if output.get(field) != value:
                raise self.mismatch(session, field, output.get(field), value)
        if len(output["rows"]) > 1:
            raise tool_failed(
                session, self.name, "it printed {} rows instead of one".format(len(output["rows"]))
            )
        return output

    def mismatch(self, session: ToolSession, field: str, seen: object, expected: object) -> MeasurementError:
        """Return the error of an output that is not that of the planned test."""
        return tool_failed(session, self.name, f"{field} of its output is {seen!r} instead of {expected!r}")


def build_class_options(check: str, policy: Mapping[str, Any]) -> list[str]:
    """Return the options that set the traffic class of a test's packets.

    `--tclass` is set in the GRH, which RoCE always has, `--sl` in the address vector (linux-rdma/perftest
    src/perftest_parameters.c). `--tos` is for rdma_cm, which needs `-R`.
    """
    traffic_class, service_level = class_of(check, policy)
    words = [] if traffic_class is None else [f"{CLASS_OPTIONS[0]}{traffic_class}"]
    return words if service_level is None else [*words, f"{CLASS_OPTIONS[1]}{service_level}"]


def clock_lost(session: ToolSession, name: str) -> MeasurementError:
    """Return the error of a program that could not calibrate its clock; the runner repeats the test."""
    return session.own.error(
        CLOCK_LOST,
        f"{name} on {session.own.host} could not calibrate its clock, so its table has no numbers",
        "its CPU is shared with other machines: measure when they are idle",
    )


def leave_s(session: ToolSession) -> float:
    """Return how long a server may take to end after its client."""
    return LEAVE_FAILED_S if session.peer_failed else LEAVE_S


def _source_option(session: ToolSession) -> list[str]:
    """Return the option that binds the exchange of keys to the rail's address."""
    version = parse_version(session.version) or ()
    for since, option in _SOURCE_OPTIONS:
        if version >= since:
            return [option, session.own.address]
    return []


def _parse_complete(text: str) -> dict[str, Any]:
    """Parse; the passive side of a read prints no rows, which is a complete result here."""
    result: dict[str, Any] = capture.read(perftest.parse, text)
    outputs = result["outputs"]
    silent = len(outputs) == 1 and not outputs[0]["rows"] and outputs[0]["role"] == "server"
    if silent and result["error"] is None and str(outputs[0]["test"]).startswith("ib_read_"):
        return {**result, "valid": True}
    return result

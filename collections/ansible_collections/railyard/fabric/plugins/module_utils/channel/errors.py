# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that keep a test from giving a result, with their fixes."""

from __future__ import annotations

from typing import Any, Literal, cast

#: Every class of an error; each has a cause in the judge's table.
ErrorClass = Literal[
    "rendezvous_timeout",
    "no_management",
    "management_timeout",
    "guid_differs",
    "guid_unknown",
    "link_layer_wrong",
    "stranger",
    "address_in_use",
    "tool_missing",
    "tool_too_old",
    "port_taken",
    "unknown_connection",
    "tool_failed",
    "tool_garbage",
    "clock_lost",
    "deadline",
    "peer_absent",
    "peer_failed",
    "peer_deaf",
    "busy",
    "lease",
    "no_netdev",
    "no_address",
    "hca_missing",
    "no_gid",
    "rdma_unsupported",
    "version_differs",
    "module_missing",
    "interrupted",
    "internal",
    "link_down",
    "beacon_refused",
    "peer_unheard",
    "storage_not_mounted",
    "storage_no_device",
    "storage_full",
    "storage_refused",
    "memory_unfit",
    "gpudirect_unfit",
    "collective_failed",
    "collective_wrong",
    "gpu_unfit",
    "gpu_wrong",
]
#: The tool ran but lost its clock: worth another try.
CLOCK_LOST: Literal["clock_lost"] = "clock_lost"
#: A host other than the partner connected to a test's tool: worth another try, and no fault of the rail.
UNKNOWN_CONNECTION: Literal["unknown_connection"] = "unknown_connection"
# `failed` means that the test was run without a result; everything else kept it from being run.
FAILED_CLASSES: frozenset[ErrorClass] = frozenset(
    {
        "tool_failed",
        "tool_garbage",
        "deadline",
        "peer_failed",
        "peer_deaf",
        "internal",
        CLOCK_LOST,
        "collective_failed",
        "collective_wrong",
        "gpu_wrong",
    }
)


class MeasurementError(Exception):
    """The reason why a test has no result: a class, a message, the host, and the fix."""

    def __init__(self, error_class: ErrorClass, message: str, host: str, fix: str) -> None:
        super().__init__(f"{message} ({host}): {fix}")
        self.error_class = error_class
        self.message = message
        self.host = host
        self.fix = fix

    @property
    def status(self) -> str:
        """Return the row status of this error: `failed` or `unmeasured`."""
        return "failed" if self.error_class in FAILED_CLASSES else "unmeasured"

    def as_error(self) -> dict[str, str]:
        """Return the row's `error` object."""
        return {"class": self.error_class, "message": self.message, "host": self.host, "fix": self.fix}

    @classmethod
    def from_error(cls, error: dict[str, Any]) -> MeasurementError:
        """Return the error that the other end sent as an `error` object."""
        return cls(
            cast("ErrorClass", str(error.get("class", "internal"))),
            str(error.get("message", "")),
            str(error.get("host", "")),
            str(error.get("fix", "")),
        )


def error_of(failure: MeasurementError | None) -> dict[str, str] | None:
    """Return the `error` object of a failure, or None."""
    return failure.as_error() if failure else None

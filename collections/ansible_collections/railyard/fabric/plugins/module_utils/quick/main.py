# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quick check as a program on the node: no controller, one line of output, an exit status.

Exit status: 0 all that is expected is good, 1 something is wrong, 3 something expected could not be checked
(an invalid expectation, a program that is missing or hangs, a full disk). 2 is a wrong command line.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time

from . import drain, expectation, last_look, trace
from .found import UNKNOWN, Found
from .look import How, bounded_look, read_boot_id, unfinished

EXPECTATION = "/etc/railyard/quick.json"


def main(argv: list[str] | None = None) -> int:
    """Check the node, print one line, and return the exit status."""
    asked = _parser().parse_args(argv)
    how = How(asked.name, asked.folder, not asked.no_keep, asked.loopback, asked.root)
    began_s = time.monotonic()
    if how.keep:
        trace.begin(how.folder, how.name, time.time())
    node, found = _look(asked.expect, how)
    if asked.drain or asked.resume:
        drain.tell(found, asked.drain, asked.resume)
    if how.keep:
        duration_s = round(time.monotonic() - began_s, 3)
        trace.end(how.folder, how.name, found, read_boot_id(how), time.time(), duration_s)
    said = found.line(node)
    if asked.json:
        said = json.dumps({"node": node, "status": found.status, "line": said, **found.document()})
    try:
        os.write(1, said.encode() + b"\n")
    except OSError:
        return found.status or UNKNOWN
    return found.status


def _look(expect: str, how: How) -> tuple[str, Found]:
    """Check the node; return its name and the findings, whatever fails."""
    node = socket.gethostname().split(".", maxsplit=1)[0]
    try:
        expected = expectation.load(expect)
    except expectation.ExpectationError as error:
        cause = ("expectation", "expectation_unusable")
        return node, unfinished(f"expectation: {error}", how, None, cause)
    try:
        return expected.node, bounded_look(expected, how)
    except Exception as error:  # a bug is reported too: the node's metrics and Slurm use the result
        return expected.node, unfinished(f"it failed: {error.__class__.__name__}: {error}", how, expected)


def _name(text: str) -> str:
    try:
        return last_look.check_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="railyard-quick",
        description="Check this node quickly: rails, error counters since the last check, governor, GPUs.",
        epilog="Exit status: 0 good, 1 something is wrong, 3 something expected could not be checked.",
    )
    parser.add_argument("--expect", default=EXPECTATION, metavar="FILE", help="default: %(default)s")
    parser.add_argument(
        "--as", dest="name", default="local", type=_name, metavar="NAME",
        help="name of the check: error counters are compared with its last one; default: %(default)s",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the line")
    parser.add_argument(
        "--loopback", action="store_true", help="test each HCA with itself with ib_write_bw: load on its slot"
    )
    parser.add_argument("--drain", action="store_true", help="drain the node in Slurm if something is wrong")
    parser.add_argument(
        "--resume", action="store_true", help="end such a drain, and no other, if all is good"
    )
    parser.add_argument("--no-keep", action="store_true", help="do not store this check as the last one")
    parser.add_argument("--folder", default=last_look.FOLDER, help="folder of the last checks: %(default)s")
    # A tree that looks like a node, for tests.
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)
    return parser

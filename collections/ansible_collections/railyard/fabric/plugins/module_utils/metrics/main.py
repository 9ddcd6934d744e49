# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program railyard-metrics: write a node's metrics for node_exporter's textfile collector, once.

A timer runs it. Exit status: 0 the file was written, 3 it was not; the old one then stays, and an alert of
its age follows. 2 is a wrong command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from .. import atomic_files
from ..facts.sysfs import Reader
from ..quick import expectation, last_look, trace
from . import exposition, node, rails, totals
from .exposition import Sample

#: As galaxy.yml has it; a test compares them.
VERSION = "0.1.0"
EXPECTATION = "/etc/railyard/metrics.json"
FILE = "/var/lib/prometheus/node-exporter/railyard_node.prom"
KEPT = "/var/lib/railyard/metrics/totals.json"
NOT_WRITTEN = 3


def main(argv: list[str] | None = None) -> int:
    """Write the file, and return the exit status."""
    asked = _parser().parse_args(argv)
    try:
        expected = expectation.load(asked.expect)
    except expectation.ExpectationError as error:
        return _fail(f"expectation: {error}. Fix: run role node_metrics for this node again")
    folder = os.path.dirname(asked.out)
    if not os.path.isdir(folder):
        # Not created here: a folder that node_exporter does not read would hide that there are no metrics.
        return _fail(f"{folder}: no such folder. Fix: run role node_metrics for this node again")
    root = asked.root.rstrip("/")
    reader = Reader(f"{root}/sys", f"{root}/proc", f"{root}/etc")
    samples, sums = rails.collect(expected, reader, totals.load(asked.kept))
    samples += node.collect(expected, reader, trace.load_newest(asked.quick, time.time()))
    samples.append(Sample("railyard_node_metrics_info", {"version": VERSION}, 1))
    samples.append(Sample("railyard_node_metrics_cpu_seconds", {}, round(time.process_time(), 3)))
    text = exposition.render(samples)
    for line in exposition.left_out(text):
        sys.stderr.write(f"railyard-metrics: {line}\n")
    totals.store(asked.kept, sums)
    try:
        atomic_files.write_file(asked.out, text, 0o644, (os.geteuid(), os.getegid()))
    except OSError as error:
        return _fail(f"{asked.out} cannot be written: {error.strerror or error}; the old one stays")
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"railyard-metrics: {message}\n")
    return NOT_WRITTEN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="railyard-metrics",
        description="Write this node's metrics by rail for node_exporter's textfile collector.",
        epilog="Exit status: 0 the file was written, 3 it was not and the old one stays.",
    )
    parser.add_argument("--expect", default=EXPECTATION, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--out", default=FILE, metavar="FILE", help="the file to write; default: %(default)s")
    parser.add_argument("--kept", default=KEPT, metavar="FILE", help="sums of counters; default: %(default)s")
    parser.add_argument(
        "--quick", default=last_look.FOLDER, metavar="FOLDER", help="what quick checks left: %(default)s"
    )
    # A tree that looks like a node, for tests.
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)
    return parser

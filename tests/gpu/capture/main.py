"""The command line of tests/gpu/run: steps, each with its own time limit, then one archive."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import bounded
from gpu.capture import archive_file, forms, names, steps

LIMIT_S = 460.0
_RESERVE_S = 20.0


class Step(NamedTuple):
    """A step: its name, what it does, how long it may take, and whether it needs a GPU."""

    name: str
    work: Callable[[steps.Place], dict[str, Any]]
    limit_s: float
    needs_gpu: bool = False


STEPS = (
    Step("node", steps.node, 10),
    Step("nvidia_smi", steps.nvidia_smi, 60),
    Step("gpu_info", steps.gpu_info, 60),
    Step("other_forms", steps.other_forms, 90),
    Step("kernel_log", steps.kernel_lines, 10),
    Step("quick", steps.quick, 40),
    Step("bandwidth", steps.bandwidth, 85, needs_gpu=True),
    Step("nccl", steps.nccl, 95, needs_gpu=True),
    Step("collective", steps.collective, 95, needs_gpu=True),
)
_USAGE = """\
Exit status: 0 the archive was written, also where the machine has no GPU or a step failed (the archive
says so); 1 it was not written; 2 wrong command line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Capture, and return the exit status."""
    asked = _parser().parse_args(argv)
    path = asked.archive or os.path.join(os.environ.get("OUT") or ".", "gpu-capture.tar.gz")
    with tempfile.TemporaryDirectory(prefix="railyard-gpu-") as work:
        place = steps.Place(asked.root, work, asked.python, "cpu" if asked.rehearse else "cuda")
        manifest, results = capture(place, asked.limit_s)
        try:
            size, notes = _write(place, path, manifest, results)
        except (OSError, archive_file.ArchiveError) as error:
            sys.stderr.write(f"{path} was not written: {error}. Name another file as the argument.\n")
            return 1
    for note in notes:
        _say(f"left out: {note}")
    _say(f"{path}: {size} bytes. Read it with tests/gpu/check {path}")
    return 0


def capture(place: steps.Place, limit_s: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Do all steps; return the manifest, and each step's result by its name."""
    deadline = time.monotonic() + limit_s - _RESERVE_S
    manifest: dict[str, Any] = {
        "schema": archive_file.SCHEMA, "begun": steps.begun_at(), "rehearsal": place.device == "cpu",
        "steps": [],
    }  # fmt: skip
    results: dict[str, Any] = {}
    has_gpu = False
    for step in STEPS:
        begun = time.monotonic()
        left_s = min(step.limit_s, deadline - begun)
        if step.needs_gpu and not has_gpu and place.device != "cpu":
            status, reason = "skipped", "no GPU"
        elif left_s <= 0:
            status, reason = "skipped", "no time was left"
        else:
            status, reason, result = _do(step, place, left_s)
            if result is not None:
                results[step.name] = result
        took_s = round(time.monotonic() - begun, 1)
        manifest["steps"].append({"name": step.name, "status": status, "reason": reason, "seconds": took_s})
        _say(f"{step.name}: {status}{f' ({reason})' if reason else ''}, {took_s} s")
        if step.name == "nvidia_smi":
            has_gpu = steps.has_gpu(place)
            if not has_gpu:
                _say("no GPU")
    manifest["gpu"] = has_gpu
    return manifest, results


def _do(step: Step, place: steps.Place, limit_s: float) -> tuple[str, str, dict[str, Any] | None]:
    def work(at: bounded.At) -> dict[str, Any]:
        at(step.name)
        try:
            return {"result": step.work(place)}
        except steps.StepError as error:
            return {"reason": str(error)}

    # In a child that is given up when its time is over: a read of a driver's file can hang for good.
    found, why = bounded.call(work, limit_s)
    if found is None:
        return "failed", why, None
    if "reason" in found:
        return "failed", str(found["reason"]), None
    return "done", "", found["result"]


def _write(
    place: steps.Place, path: str, manifest: dict[str, Any], results: dict[str, Any]
) -> tuple[int, list[str]]:
    recorded = forms.read(place.path("forms.jsonl"))
    texts: dict[str, str] = {}
    for number, one in enumerate(recorded, 1):
        texts[archive_file.FORM.format(number)] = one.pop("text")
        one["file"] = archive_file.FORM.format(number)
    results["forms"] = {"forms": recorded}
    for name, result in results.items():
        if not result:
            continue  # its outputs are forms
        texts[f"{name}.json"] = json.dumps(result, indent=1) + "\n"
    texts["nccl.env"] = steps.settings(place)
    for name in archive_file.LOGS:
        text = _text(place.path(name))
        if text is not None:
            texts[name] = text
    words = {word for one in recorded for part in one["argv"] for word in part.replace("=", ",").split(",")}
    found = names.Names(
        _hosts(), _users(), {part for word in words for part in word.replace("_", ".").split(".")}
    )
    return archive_file.write(path, manifest, texts, found)


def _text(path: str) -> str | None:
    try:
        with open(path, "rb") as handle:
            return handle.read(archive_file.MOST_MEMBER_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return None


def _hosts() -> list[str]:
    return [socket.gethostname(), (_text("/etc/hostname") or "").strip(), os.environ.get("HOSTNAME", "")]


def _users() -> Iterator[str]:
    yield from (os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER"))
    with contextlib.suppress(KeyError):
        yield pwd.getpwuid(os.getuid()).pw_name


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/gpu/run",
        description="Capture what one machine with an NVIDIA GPU shows, in one archive without its names.",
        epilog=_USAGE,
    )
    parser.add_argument(
        "archive", nargs="?", help="the file to write; default: gpu-capture.tar.gz in $OUT, or here"
    )
    parser.add_argument(
        "--python", default=shutil.which(sys.executable) or sys.executable, metavar="FILE",
        help="the interpreter that has PyTorch; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--limit-s",
        type=float,
        default=LIMIT_S,
        metavar="SECONDS",
        help="for all of it; default: %(default)g",
    )
    parser.add_argument(
        "--rehearse", action="store_true",
        help="run the PyTorch steps on the CPU, by gloo: to try the script where there is no GPU",
    )  # fmt: skip
    # A tree that looks like a node, for tests.
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)
    return parser

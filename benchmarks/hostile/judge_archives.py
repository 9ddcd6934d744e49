"""Judge hostile archives, each by a `railyard judge` of its own; a line of JSON for each.

.venv/bin/python benchmarks/hostile/judge_archives.py [--table] [CASE...]

Peak memory is what the kernel counted of the process and of all that it waited for. The exit status is 1 if a
case took more than 256 MiB or 20 s of processor time, had another error than the expected one, or left
something behind.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import archives

MOST_MIB, MOST_CPU_S = 256, 20.0
#: Cases that need more than a file: one that grows, and one that fills a file system of 8 MiB.
GROWS, FULL = "grows while it is read", "full disk"
EXPECTED = {
    **{name: case.error for name, case in (archives.CASES | archives.OTHER).items()},
    GROWS: "it was changed while it was read",
    FULL: r"plan\.json: it cannot be unpacked in \S+: No space left on device",
}


# Starts argv[2:], its errors in the file argv[1], and prints exit status, peak KiB, seconds and CPU seconds.
# A process of its own: a new process inherits the peak of the one that starts it.
_STARTER = """
import os, sys, time
begun_s = time.monotonic()
child = os.fork()
if child == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600), 2)
    os.execv(sys.argv[2], sys.argv[2:])
_pid, status, usage = os.wait4(child, 0)
seconds = time.monotonic() - begun_s
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, seconds, usage.ru_utime + usage.ru_stime)
"""


def judge(archive: Path, temporary: Path) -> dict[str, Any]:
    """Run `railyard judge` on an archive; what it unpacks goes to a folder."""
    program, errors = Path(sys.executable).with_name("railyard"), archive.with_name("errors")
    argv = [sys.executable, "-I", "-S", "-c", _STARTER, errors, program, "judge", archive]
    env = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    exit_status, peak_kib, wall_s, cpu_s = done.stdout.split()
    return {
        "exit_status": int(exit_status),
        "peak_mib": int(peak_kib) / 1024,
        "wall_s": float(wall_s),
        "cpu_s": float(cpu_s),
        "error": errors.read_text("utf-8", "replace"),
        "left_behind": sorted(one.name for one in temporary.iterdir()),
    }


def measure(name: str, place: Path) -> dict[str, Any]:
    """Make the archive of a case, judge it, and return what that took.

    Raises:
        OSError: the case needs a mount, and this user may not mount.
    """
    temporary = place / "tmp"
    temporary.mkdir()
    if name == FULL:
        archive = place / "full-disk.tar.gz"
        noise = archives.member("plan.json", os.urandom(16 * archives.MIB))
        archive.write_bytes(archives.packed([*noise, 1024]))
        with _small_disk(temporary):
            found = judge(archive, temporary)
    elif name == GROWS:
        with _growing(place / "growing.tar.gz") as archive:
            found = judge(archive, temporary)
    else:
        archive = archives.write(name, place)
        found = judge(archive, temporary)
    return {"case": name, "archive": archive.name, "archive_bytes": archive.stat().st_size, **found}


def problems(found: dict[str, Any]) -> list[str]:
    """Return what is wrong with a measurement."""
    expected = EXPECTED[found["case"]]
    wrong = []
    if found["peak_mib"] > MOST_MIB:
        wrong.append(f"{found['peak_mib']:.0f} MiB, {MOST_MIB} allowed")
    # Beside other work a second of the clock is less than one of a processor.
    if found["cpu_s"] > MOST_CPU_S:
        wrong.append(f"{found['cpu_s']:.1f} s of processor time, {MOST_CPU_S:.0f} allowed")
    if found["left_behind"]:
        wrong.append(f"left behind: {found['left_behind']}")
    if found["exit_status"] != (2 if expected else 0):
        wrong.append(f"exit status {found['exit_status']}")
    # The archive is named, and so is the member where there is one.
    if expected and not (re.search(expected, found["error"]) and found["archive"] in found["error"]):
        wrong.append(f"another error: {found['error'] or 'none'}")
    return wrong


@contextmanager
def _small_disk(place: Path) -> Iterator[None]:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], capture_output=True, check=False
    )
    if done.returncode:
        raise PermissionError(f"no tmpfs can be mounted: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def _growing(path: Path) -> Iterator[Path]:
    """Yield an archive that is written to without end, in pieces that unpack to nothing."""
    whole = archives.packed([*archives.member("plan.json", os.urandom(16 * archives.MIB))])
    path.write_bytes(whole[: len(whole) // 2])
    over = threading.Event()

    def grow() -> None:
        with path.open("ab") as stream, suppress(OSError):
            while not over.wait(0.0005):
                stream.write(b"\0\0\0\xff\xff" * 200)
                stream.flush()

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        yield path
    finally:
        over.set()
        writer.join()


def main() -> int:
    """Measure the cases that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="print a table in place of JSON")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(EXPECTED)}")
    options = parser.parse_args()
    status = 0
    if options.table:
        print("| archive | MB | peak MiB | s | CPU s | exit status | error |")
        print("|---|---:|---:|---:|---:|---:|---|")
    for name in options.cases or EXPECTED:
        with tempfile.TemporaryDirectory(prefix="hostile-") as place:
            try:
                found = measure(name, Path(place))
            except PermissionError as error:
                print(f"{name}: skipped: {error}", file=sys.stderr)
                continue
        wrong = problems(found)
        status = 1 if wrong else status
        print(_row(found, place) if options.table else _line(found, place), flush=True)
        for one in wrong:
            print(f"{name}: {one}", file=sys.stderr)
    return status


def _short(error: str, place: str) -> str:
    first = error.replace(f"{place}/", "").split("\n")[0].removeprefix("railyard: ")
    return re.sub(r"\S*railyard-judge-\w+/", "", first)


def _row(found: dict[str, Any], place: str) -> str:
    return (
        f"| {found['case']} | {found['archive_bytes'] / 1e6:.3f} | {found['peak_mib']:.0f} "
        f"| {found['wall_s']:.1f} | {found['cpu_s']:.1f} "
        f"| {found['exit_status']} | {_short(found['error'], place)} |"
    )


def _line(found: dict[str, Any], place: str) -> str:
    numbers = {key: round(value, 2) for key, value in found.items() if isinstance(value, float)}
    return json.dumps({**found, **numbers, "error": _short(found["error"], place)}, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())

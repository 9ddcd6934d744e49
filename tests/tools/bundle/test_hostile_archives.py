"""`railyard judge` of hostile archives: a clear error, within 256 MiB and 20 s, and nothing left behind."""

from __future__ import annotations

import errno
import importlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from railyard.base.confined import TooExpensiveError, confined
from railyard.base.errors import UserError
from railyard.base.paths import repo_root
from railyard.bundle import files
from railyard.report import rebuild
from support import railyard_server
from support.programs import BIN, REPO, wait_until
from tools.bundle.test_bundle import bundled, healthy, site  # noqa: F401 - fixtures

sys.path.insert(0, str(repo_root() / "benchmarks" / "hostile"))
archives = importlib.import_module("archives")
measuring = importlib.import_module("judge_archives")


def judged_by_server(archive, temporary):
    """Do as the benchmark's `judge`, by a process that need not load the command."""
    variables = {**os.environ, "TMPDIR": str(temporary)}
    ended, _out, error = railyard_server.run(BIN / "railyard", ["judge", str(archive)], REPO, variables)
    found = {**ended._asdict(), "peak_mib": ended.peak_kib / 1024, "error": error}
    return {**found, "left_behind": sorted(one.name for one in temporary.iterdir())}


@pytest.mark.minutes
@pytest.mark.parametrize("name", measuring.EXPECTED)
def test_a_hostile_archive_costs_little_and_is_named(name, tmp_path, monkeypatch):
    # A fork begins with the server's memory, so what is compared with the most is started as a user does.
    if name != "zeros" and "of memory" not in measuring.EXPECTED[name]:
        monkeypatch.setattr(measuring, "judge", judged_by_server)
    try:
        found = measuring.measure(name, tmp_path)
    except PermissionError as error:
        pytest.skip(str(error))
    assert measuring.problems(found) == []


def test_a_judge_that_is_ended_leaves_nothing(tmp_path):
    archive = tmp_path / "large.tar.gz"
    archive.write_bytes(archives.packed(archives.member("plan.json", os.urandom(1 << 20) * 128)))
    place = tmp_path / "tmp"
    place.mkdir()
    program = Path(sys.executable).with_name("railyard")
    process = subprocess.Popen(
        [program, "judge", archive], env={**os.environ, "TMPDIR": str(place)}, stderr=subprocess.PIPE
    )
    wait_until(lambda: [*place.glob("*/*/plan.json")], 30, 0.01)
    process.send_signal(signal.SIGTERM)
    _out, error = process.communicate(timeout=30)
    assert (process.returncode, b"interrupted" in error, [*place.iterdir()]) == (3, True, [])


def test_a_folder_for_temporary_files_that_takes_nothing_is_bad_input(tmp_path, monkeypatch):
    def full(*_words, **_more):
        raise OSError(errno.ENOSPC, "No space left on device")

    archive = archives.write("twice", tmp_path)
    monkeypatch.setattr(rebuild.tempfile, "mkdtemp", full)
    with pytest.raises(UserError, match=r"no temporary folder can be made: No space left(.|\n)*TMPDIR"):
        rebuild.judge(str(archive), tmp_path)


def test_memory_is_limited():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(TooExpensiveError, match="more than 1 MiB of memory"), confined(1 << 20, 60.0):
        bytearray(4 << 30)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def busy(seconds):
    """Use processor time, and swallow the first exception that ends it."""
    deadline_s = time.process_time() + seconds
    for patience in (True, False):
        try:
            while time.process_time() < deadline_s:
                sum(range(1000))
        except TooExpensiveError:
            if not patience:
                raise


def test_processor_time_is_limited_also_where_an_exception_is_swallowed():
    begun_s = time.process_time()
    with pytest.raises(TooExpensiveError, match="more than 0 s of processor time"), confined(1 << 40, 0.1):
        busy(20)
    assert time.process_time() - begun_s < 5
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_the_callers_stricter_limit_stays():
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    strict = 8 << 30
    resource.setrlimit(resource.RLIMIT_DATA, (strict, hard))
    try:
        with confined(64 << 30, 60.0):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] == strict
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def test_a_file_that_grows_while_it_is_bundled_is_refused(site, tmp_path, monkeypatch):  # noqa: F811
    """What it gains after the names were learned would not be replaced."""
    path = site / "runner.log"
    path.write_text("ready\n")
    fstat = os.fstat

    def before_it_grows(handle):
        found = fstat(handle)
        if os.path.samestat(found, os.stat(path)):
            with path.open("a") as stream:
                stream.write("ssh alice@acme-gpu-b99\n")
        return found

    monkeypatch.setattr(files.os, "fstat", before_it_grows)
    with pytest.raises(UserError, match=r"runner\.log was changed while it was read"):
        bundled(site, tmp_path)
    assert not (tmp_path / "b.tar.gz").exists()


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("/etc"), os.mkfifo])
def test_a_run_whose_raw_is_no_folder_is_refused(make, site, tmp_path):  # noqa: F811
    for path in (site / "raw").iterdir():
        path.unlink()
    (site / "raw").rmdir()
    make(site / "raw")
    with pytest.raises(UserError, match="raw is no folder"):
        bundled(site, tmp_path)

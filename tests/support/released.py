"""Build a release of the working tree, and run the command of its wheel as if it were installed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import release

ROOT = Path(__file__).resolve().parents[2]


def build_release(scratch):
    """Return the files of a release, by suffix."""
    return {path.suffix: path for path in release.build(ROOT, release.read_version(ROOT), scratch)}


def unpack_wheel(path, folder):
    """Return the folder that an installed wheel would be in."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder


def run_wheel(wheel, folder, *arguments, timeout_s=120):
    """Run `railyard` of an unpacked wheel in a folder, with the packages of this environment."""
    environment = {**os.environ, "PYTHONPATH": str(wheel), "COLUMNS": "140"}
    environment.pop("RAILYARD_REPORTS_DIR", None)
    command = [sys.executable, "-c", "from railyard.cli import main; main()", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=timeout_s
    )

"""The program that keeps a simulated subnet up on a lab node is complete, with the standard library alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from railyard.lab.subnet import on_node


def run(program: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    # -I: neither our packages nor our environment.
    argv = [sys.executable, "-I", "-S", str(program), *words]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


def test_the_packed_program_starts_by_itself_and_says_what_is_missing(tmp_path: Path) -> None:
    program = tmp_path / "program.pyz"
    program.write_bytes(on_node.pack())
    done = run(program, "send", str(tmp_path), "0", stdin="Dump\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"no ibsim reads {tmp_path}/commands")

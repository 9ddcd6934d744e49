# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test that hostile text takes bounded time and memory, and ends in findings, never in a crash."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import env_file
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.lint import lint
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import UnreadableError

_LARGEST = 1 << 20
# What takes longest is read at full length; of the others a quarter has to take no more than its share.
_QUARTER = _LARGEST // 4
# Of the processor, for each MiB: about five times what the slowest takes.
_MOST_S = 30

TEXTS = {
    "exports": "".join(f"export NCCL_X{n}={n}\n" for n in range(60_000)),
    "export and run": "".join(f"export NCCL_IB_TC={n}\nmpirun x\n" for n in range(30_000)),
    "branches": "".join(f"if a; then export NCCL_A{n}_=1; fi\n" for n in range(30_000)),
    "nested branches": "if a; then\n" * 3000 + "export NCCL_DEBUG=INFO\n" + "fi\n" * 3000,
    "open branches": "if a; then " * 20_000 + "export NCCL_DEBUG=INFO",
    "open substitutions": "NCCL_X=$(" * 100_000,
    "open expansions": "${NCCL_X:-" * 100_000,
    "open quote": "export NCCL_DEBUG='" + "a\n" * 500_000,
    "doubling": "A=NCCL_X=1aaaaaaaaaaaaaaaa\n" + "A=$A$A\n" * 60_000,
    "here-documents": "cat <<EOF > x.env\nNCCL_A=1\nEOF\n" * 25_000,
    "calls": "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; export NCCL_A=1; }}\n" for n in range(2000)) + "f0\n",
    "recursion": "f() { export NCCL_A=1; f; f; }\nf\n",
    "loops": "for a in 1 2 3 4 5 6 7 8; do " * 12 + "export NCCL_A=$a;" + " done" * 12,
    "list": "a && " * 200_000 + "export NCCL_A=1",
    "pipeline": "a | " * 60_000 + "NCCL_A=1 b",
    "words": "mpirun " + "-x NCCL_DEBUG=INFO " * 50_000,
    "array": "A=(" + "NCCL_A=1 " * 25_000 + ")\nmpirun ${A[@]}\n",
    "cases": "case $a in " + "".join(f"{n}) export NCCL_A={n};; " for n in range(8_000)) + "esac; srun x",
    "eval": "eval 'export NCCL_DEBUG=INFO'\n" * 30_000,
    "control characters": "NCCL_A=1\n" + "".join(chr(n % 0x2FFF + 1) for n in range(0, 4_000_000, 13)),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_scripts(text):
    size = _LARGEST if text in (TEXTS["doubling"], TEXTS["list"]) else _QUARTER
    start = time.process_time()
    found = env_file.read(f"#!/bin/bash\n{text[: size - 20]}", "x.sh")
    assert lint(found)
    assert time.process_time() - start < _MOST_S * size / _LARGEST


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("FROM a\n" + "ENV NCCL_A=1 \\\n" * 16_000, "Dockerfile"),
        ("FROM a\n" + "ENV NCCL_A=1\nRUN x\n" * 12_000, "Dockerfile"),
        ("FROM a\nRUN <<EOF\n" + "NCCL_A=1 x\n" * 20_000, "Dockerfile"),
        ("FROM a\n" + "ONBUILD " * 30_000 + "ENV NCCL_A=1\n", "Dockerfile"),
        ("env:\n" + "- {name: NCCL_A, value: '1'}\n" * 8_500, "x.yaml"),
        ("".join(f"- env:\n  - name: NCCL_A\n    value: '{n}'\n" for n in range(5_600)), "x.yaml"),
        ("- command: [bash, -c, 'NCCL_A=1 x']\n" * 6_800, "x.yaml"),
        ("a0: &a0 ['NCCL_A=1']\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 40)),
         "x.yaml"),
    ],
    ids=["continued", "instructions", "here-document", "instruction in itself", "list", "containers",
         "commands", "anchors"],
)  # fmt: skip
def test_other_forms(text, name):
    assert len(text) <= _QUARTER  # cut, it would be another text
    start = time.process_time()
    with suppress(UnreadableError):
        assert lint(env_file.read(text, name))
    assert time.process_time() - start < _MOST_S / 4


def test_what_is_cut_off_is_reported():
    found = env_file.read("".join(f"if a; then export NCCL_A{n}_=1; fi\n" for n in range(30_000)), "x.sh")
    assert any("too many steps" in one.why and not one.harmless for one in found.unread)

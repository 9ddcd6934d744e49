"""A report of a folder that is damaged or edited: true to the rows, and no traceback."""

from __future__ import annotations

import json
import os
import resource

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from railyard.report import rebuild
from support.programs import BIN, run
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run


def test_a_report_replaces_verdicts_that_were_edited(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN)
    assert rebuild.report(str(folder), tmp_path) == 0
    verdicts = folder / "verdicts.jsonl"
    judged = verdicts.read_bytes()
    verdicts.write_bytes(judged.replace(b'"outcome":"recorded"', b'"outcome":"pass"'))
    assert verdicts.read_bytes() != judged
    rebuild.report(str(folder), tmp_path)
    assert verdicts.read_bytes() == judged


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("manifest.json", "versions", "x"),
        ("manifest.json", "argv", 5),
        ("manifest.json", "limit", True),
        ("facts.jsonl", "os", "debian"),
        ("facts.jsonl", "tools", ["iperf3"]),
        ("facts.jsonl", "netdevs", 5),
        ("facts.jsonl", "netdevs", [None, {"netdev": "ens6", "addresses": [[1]]}]),
    ],
)
def test_a_report_is_made_of_garbled_documents_too(tmp_path, name, key, value):
    folder = build_run(tmp_path / "lab" / RUN)
    lines = (folder / name).read_text(encoding="utf-8")
    rows = [json.loads(lines)] if name.endswith("json") else [json.loads(line) for line in lines.splitlines()]
    rows[0][key] = value
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if name == "facts.jsonl":
        plan = json.loads((folder / "plan.json").read_text())
        for node in plan["nodes"].values():
            for rail in node["rails"]:
                rail["netdev"] = None
        (folder / "plan.json").write_text(json.dumps(plan))
    write_report(folder)
    assert (folder / "index.html").is_file()


def _judged(folder):
    """Judge a folder as a user does, on a machine without memory to spare."""
    return run(
        [BIN / "railyard", "judge", folder],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )


@pytest.mark.minutes
def test_a_line_larger_than_the_memory_is_dropped_and_reported(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN)
    with (folder / "results.jsonl").open("ab") as stream:
        stream.truncate(stream.tell() + (1 << 30))  # of zeros, and with no room on the disk
    done = _judged(folder)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "results.jsonl lost a line" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "pipe"), [("plan.json", False), ("plan.json", True), ("results.jsonl", True)]
)
def test_what_is_no_file_of_a_run_is_named(tmp_path, name, pipe):
    folder = build_run(tmp_path / "lab" / RUN)
    os.truncate(folder / name, 1 << 30)
    if pipe:
        (folder / name).unlink()
        os.mkfifo(folder / name)
    done = _judged(folder)
    assert done.returncode == 2, done.stdout + done.stderr
    assert str(folder / name) in done.stderr
    assert "Traceback" not in done.stderr

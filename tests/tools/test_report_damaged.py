"""A report of a folder that is damaged or edited: true to the rows, and no traceback."""

from __future__ import annotations

import json

import pytest
from railyard import rebuild
from railyard.report import write_report
from tools.run_builder import RUN, build_run


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

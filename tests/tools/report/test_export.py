"""`railyard export`: every row in full, whatever the rows hold; a file that is complete or not there."""

from __future__ import annotations

import csv
import json
import sys

import duckdb
import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded, rejudge
from railyard.base.errors import UserError
from railyard.report import export
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run
from support.runs.sweeps import build_sweep


@pytest.fixture
def run(tmp_path):
    return build_run(tmp_path / "lab" / RUN, rdma=True)


def rows_of(run):
    return [json.loads(line) for line in (run / "results.jsonl").read_text("utf-8").splitlines()]


def add(run, line):
    with (run / "results.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(line)


def exported(run, output):
    """Return what DuckDB reads of an exported Parquet file, a dictionary a row, and the columns' types."""
    assert export.run(run, "parquet", output) == 0
    table = duckdb.read_parquet(str(output))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    return rows, dict(zip(table.columns, map(str, table.types), strict=True))


def test_json_lines_are_the_rows(run, capfdbinary):
    assert export.run(run, "jsonl", None) == 0
    assert [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()] == rows_of(run)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_of_some_tests_are_written_alone(packed, tmp_path, capfdbinary):
    run = build_sweep(tmp_path, packed=packed).path
    assert export.run(run, "jsonl", None, tests=["m00042", "m00043"]) == 0
    rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert sorted((row["id"], row["end"], row["status"]) for row in rows) == [
        (identity, end, "measured") for identity in ("m00042", "m00043") for end in ("client", "server")
    ]
    assert export.run(run, "jsonl", None, verdicts=True, tests=["m00042"]) == 0
    (verdict,) = capfdbinary.readouterr().out.splitlines()
    assert json.loads(verdict)["id"] == "m00042"
    for verdicts in (False, True):
        with pytest.raises(UserError, match=r"no (rows|verdicts) of m99999\s+fix: asked"):
            export.run(run, "jsonl", tmp_path / "none", verdicts=verdicts, tests=["m99999"])
    assert not (tmp_path / "none").exists()


def test_each_key_and_metric_is_a_column(run, tmp_path):
    rows = rows_of(run)
    found, types = exported(run, tmp_path / "rows")
    assert len(found) == len(rows) > 0
    for row, seen in zip(rows, found, strict=True):
        assert [seen[key] for key in ("id", "end", "host", "qps")] == [
            row[key] for key in ("id", "end", "host", "qps")
        ]
        assert {f"metrics_{name}": value for name, value in row["metrics"].items()}.items() <= seen.items()
        assert json.loads(seen["counters"]) == row["counters"]
    assert (types["metrics_bandwidth_gbps"], types["round"]) == ("DOUBLE", "BIGINT")


def test_csv_has_the_same_columns(run, tmp_path):
    assert export.run(run, "csv", tmp_path / "rows.csv") == 0
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    for row, seen in zip(rows_of(run), found, strict=True):
        assert (seen["id"], json.loads(seen["counters"])) == (row["id"], row["counters"])
        assert all(float(seen[f"metrics_{name}"]) == value for name, value in row["metrics"].items())


FORMULAS = (
    '=HYPERLINK("http://x")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
)
FORMULAS += ("\uff1d1", "-", "--1.5")


@pytest.mark.parametrize("text", [*FORMULAS, "-1.5", "+2", "-3e-05", ".5", "rail0", "a=1", "", "'=1"])
def test_no_cell_of_csv_is_a_formula_and_numbers_stay_numbers(run, tmp_path, text):
    """A node's words are opened in a spreadsheet."""
    cell = json.dumps(text)
    add(run, f'{{"id":"m99999","tool":{cell},"metrics":{{{cell}:-1.5}},"round":{cell}}}\n')
    add(run, '{"id":"m99998","round":-7,"metrics":{"loss_percent":-1.5}}\n')
    assert export.run(run, "csv", tmp_path / "rows.csv") == 0
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as stream:
        *_rows, last, least = csv.DictReader(stream)
    written = f"'{text}" if text in FORMULAS else text
    assert (last["tool"], last["round"], last[f"metrics_{text}"]) == (written, written, "-1.5")
    assert (least["round"], least["metrics_loss_percent"]) == ("-7", "-1.5")
    assert not any(name and name[0] in "=+-@\t\r\n" for name in last)
    found, _types = exported(run, tmp_path / "rows")
    assert found[-2]["tool"] == text


def test_a_key_of_a_row_is_no_formula_in_the_header(run, tmp_path):
    add(run, '{"id":"m99999","=1+1":2}\n')
    assert export.run(run, "csv", tmp_path / "rows.csv") == 0
    header = (tmp_path / "rows.csv").read_text("utf-8").splitlines()[0]
    assert header.endswith(",'=1+1")


def test_all_verdicts_are_written_where_the_folder_has_counts(run, tmp_path, monkeypatch):
    rejudge.rejudge(run)
    each = [json.loads(line) for line in (run / "verdicts.jsonl").read_text("utf-8").splitlines()]
    monkeypatch.setattr(folded.fold_verdicts, "__defaults__", (0,))
    rejudge.rejudge(run)
    assert export.run(run, "jsonl", tmp_path / "lines", verdicts=True) == 0
    assert [json.loads(line) for line in (tmp_path / "lines").read_text("utf-8").splitlines()] == each
    assert export.run(run, "parquet", tmp_path / "columns", verdicts=True) == 0
    table = duckdb.read_parquet(str(tmp_path / "columns"))
    first = next(one for one in each if one["check"] == "tcp_bandwidth")
    found = table.filter(f"id = '{first['id']}'").select("observed_bandwidth_gbps, floor_bandwidth_gbps")
    assert found.fetchall() == [(first["observed"]["bandwidth_gbps"], first["floor"]["bandwidth_gbps"])]


def test_what_fits_no_type_and_what_a_column_is_called_already_is_kept(run, tmp_path):
    """A node's word is not to be trusted with the export of all others."""
    add(
        run,
        '{"id":"m99999","ID":1,"qps":"a\'; DROP","streams":4.5,"round":123456789012345678901,'
        '"metrics":[1]}\n',
    )
    found, _types = exported(run, tmp_path / "rows")
    last = found[-1]
    assert (last["id"], last["ID_"], last["qps"], last["streams"]) == ("m99999", 1, "a'; DROP", 4.5)
    assert (last["round"], last["metrics"]) == ("123456789012345678901", "[1]")
    assert [row["round"] for row in found[:-1]] == [str(row["round"]) for row in rows_of(run)[:-1]]


def test_a_torn_line_is_left_out_and_reported(run, tmp_path, capsys):
    count = len(rows_of(run))
    add(run, '{"id":"m0')
    found, _types = exported(run, tmp_path / "rows")
    assert len(found) == count
    assert "results.jsonl holds what is no whole row" in capsys.readouterr().err


def test_without_the_engine_json_lines_are_left(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for form in ("csv", "parquet"):
        with pytest.raises(UserError, match="duckdb, which is not there"):
            export.run(run, form, tmp_path / "rows")
    assert export.run(run, "jsonl", tmp_path / "lines") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab", "lines"]


@pytest.mark.parametrize(
    ("form", "name", "said"),
    [("xml", "rows", "not known"), ("parquet", None, "-o"), ("jsonl", "lab", "there already"),
     ("jsonl", "gone/rows", "cannot be written")],
)  # fmt: skip
def test_an_output_that_cannot_be_written_is_reported_before_anything_is_written(
    run, tmp_path, form, name, said
):
    with pytest.raises(UserError) as told:
        export.run(run, form, tmp_path / name if name else None)
    assert said in f"{told.value}"
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]

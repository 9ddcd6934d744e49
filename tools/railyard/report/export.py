"""`railyard export`: all rows of a run in full, or all its verdicts, as JSON Lines, CSV or Parquet."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

from railyard.base import output as standard
from railyard.base.errors import UserError
from railyard.base.whole_file import whole_file

FORMATS = JSONL, CSV, PARQUET = "jsonl", "csv", "parquet"
#: What holds any value, as DuckDB calls it; and from where on a whole number is no BIGINT.
_TEXT = "VARCHAR"
_MOST_BIGINT = 2**63
#: Of these each number is a column.
_SPREAD = ("metrics", "observed", "floor", "ceiling")
# Spaces before a formula are ignored, and full-width signs read as signs, by some spreadsheets.
_FORMULA = re.compile(
    r"[\t\r\n]|\s*[=+@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    r"\N{FULLWIDTH COMMERCIAL AT}\N{FULLWIDTH HYPHEN-MINUS}-]"
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def run(
    folder: Path,
    form: str,
    output: Path | None,
    *,
    verdicts: bool = False,
    tests: Collection[str] | None = None,
) -> int:
    """Write all rows of a run folder, or all verdicts.

    Args:
        folder: the run folder.
        form: one of FORMATS.
        output: the file; standard output where it is None.
        verdicts: judge the run, and write a verdict for each planned test, also of a large run.
        tests: ids; only what is of these tests is written.

    Raises:
        JudgeError, PolicyError: the run cannot be judged.
        UserError: the format is unknown, its engine is missing, the file cannot have this format, or there is
            nothing of these tests.
        RunFolderError: the folder cannot be read.
    """
    if form not in FORMATS:
        raise UserError(f"--format {form} is not known", f"say one of {', '.join(FORMATS)}")
    if output is None and form == PARQUET:
        raise UserError("Parquet is no text, and is not written to standard output", "name a file with -o")
    if output is not None and (output.exists() or output.is_symlink()):
        raise UserError(f"{output} is there already", "remove it, or name another file")
    RunFolder(folder).manifest()
    dropped: list[None] = []
    rows = iter(rejudge.judge_folder(folder).verdicts) if verdicts else _rows(folder, dropped, tests)
    what = "verdicts" if verdicts else "rows"
    if tests:
        rows = (row for row in rows if row.get("id") in tests)
        if (first := next(rows, None)) is None:
            fix = f"{run_folder.ASKED} has the ids of the planned tests"
            raise UserError(f"the run has no {what} of {', '.join(tests)}", fix)
        rows = chain((first,), rows)
    if output is None:
        sys.stdout.flush()
        _write(rows, form, standard.binary())
    else:
        with whole_file(output, 0o644) as stream:
            count = _write(rows, form, stream)
        print(f"{output}: {count} {what}, {output.stat().st_size / 1e6:.1f} MB")
    if dropped:
        print(f"railyard: {run_folder.RESULTS} holds what is no whole row, and is not in it", file=sys.stderr)
    return 0


def _rows(folder: Path, dropped: list[None], tests: Collection[str] | None) -> Iterator[Mapping[str, Any]]:
    """Yield the rows (of some tests); what is none goes to `dropped`."""
    for row in RunFolder(folder).each_row(run_folder.RESULTS, tests or None):
        if row is None:
            dropped.append(row)
        else:
            yield row


def _write(rows: Iterator[Mapping[str, Any]], form: str, target: BinaryIO) -> int:
    if form != JSONL:
        return _by_engine(rows, form, target)
    count = _write_lines(rows, target)
    target.flush()
    return count


def _write_lines(rows: Iterable[Mapping[str, Any]], target: BinaryIO) -> int:
    count = 0
    for row in rows:
        target.write(run_folder.line(row).encode("utf-8") + b"\n")
        count += 1
    return count


def _by_engine(rows: Iterator[Mapping[str, Any]], form: str, target: BinaryIO) -> int:
    """Write columns: a key is one, and so is each metric and bound; what else is nested is JSON text."""
    try:
        import duckdb
    except ImportError as error:
        fix = f"install it beside railyard (`make setup` does), or take --format {JSONL}"
        raise UserError(f"{form} is written by the Python package duckdb, which is not there", fix) from error
    columns = _Columns(_no_formula if form == CSV else lambda text: text)
    with tempfile.TemporaryDirectory(prefix="railyard-export-") as place:
        flat, made = Path(place) / "flat.jsonl", Path(place) / "made"
        with flat.open("wb") as stream:
            count = _write_lines(map(columns.flat, rows), stream)
        if not count:
            raise UserError(f"the run has no rows in {run_folder.RESULTS}", "export a run that measured")
        # All that it needs is in the package: nothing is fetched. What memory cannot hold goes to disk.
        settings = {"autoinstall_known_extensions": "false", "memory_limit": "1GB", "temp_directory": place}
        with duckdb.connect(config={**settings}) as engine:
            # It would be in the middle of the output.
            engine.execute("SET enable_progress_bar = false")
            table = engine.read_json(
                str(flat),
                format="newline_delimited",
                columns=columns.types(),
                maximum_object_size=2 * json_lines.MOST_LINE_BYTES,
            )
            if form == CSV:
                table.write_csv(str(made), header=True)
            else:
                table.write_parquet(str(made), compression="zstd")
        with made.open("rb") as whole:
            shutil.copyfileobj(whole, target)
        target.flush()
    return count


class _Columns:
    """Finds the columns of rows, and what all values of each are."""

    def __init__(self, text: Callable[[str], str]) -> None:
        """Take what each text, a column's name too, is written as."""
        self._text = text
        #: Key -> the column's name, which differs from all others in more than upper and lower case.
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._types: dict[str, str | None] = {}

    def flat(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row without nested values, by the columns' names."""
        told: dict[str, Any] = {}
        for key, value in row.items():
            if key in _SPREAD and isinstance(value, Mapping):
                told |= {self._name(f"{key}_{name}"): self._plain(one) for name, one in value.items()}
            else:
                told[self._name(key)] = self._plain(value)
        for name, value in told.items():
            self._types[name] = _wider(self._types.get(name), value)
        return told

    def types(self) -> dict[str, str]:
        """Return each column's name and DuckDB type; one without any value is text."""
        return {name: kind or _TEXT for name, kind in self._types.items()}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, (Mapping, list)):
            return json.dumps(value, ensure_ascii=False)
        return self._text(value) if isinstance(value, str) else value

    def _name(self, key: str) -> str:
        if key not in self._names:
            name = self._text(key or "_")
            while name.lower() in self._taken:
                name += "_"
            self._names[key] = name
            self._taken.add(name.lower())
        return self._names[key]


def _no_formula(text: str) -> str:
    """Return a cell that no spreadsheet calculates: OWASP's quote before what may begin a formula.

    https://owasp.org/www-community/attacks/CSV_Injection
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _wider(known: str | None, value: object) -> str | None:
    """Return the type that holds a value beside those that were seen before."""
    if value is None:
        return known
    kind = _TEXT
    if isinstance(value, bool):
        kind = "BOOLEAN"
    elif isinstance(value, float):
        kind = "DOUBLE"
    elif isinstance(value, int) and -_MOST_BIGINT <= value < _MOST_BIGINT:
        kind = "BIGINT"
    if known in (None, kind):
        return kind
    return "DOUBLE" if {known, kind} == {"BIGINT", "DOUBLE"} else _TEXT

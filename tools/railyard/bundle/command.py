"""`railyard bundle`: one archive of a run, with stand-ins for what names a site, that can still be judged."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import PolicyError
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdict import JudgeError
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean, named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline, provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

from railyard.base.errors import UserError
from railyard.base.whole_file import unwritable, whole_file
from railyard.bundle import files, naming
from railyard.bundle.table import Table

_DECLARE = (run_folder.PLAN, run_folder.WORK_ORDER, run_folder.FACTS)
_DIGESTED = (run_folder.MANIFEST, run_folder.PLAN, run_folder.ARCHIVES)


def run(source: Path, output: Path | None, table_file: Path | None) -> int:
    """Write a bundle of a run folder and say what was replaced.

    Args:
        source: the run folder.
        output: the archive to write; default: `RUN.bundle.tar.gz` here.
        table_file: where to write what each stand-in stands for, if anywhere.

    Raises:
        UserError: something in the folder cannot be bundled, an original would stay, stand-ins would change a
            verdict, or a file is there already or cannot be written. Nothing is left of the bundle then.
        RunFolderError: it is no run folder.
    """
    run_id = str(RunFolder(source).manifest().get("run"))
    if not run_folder.is_run_id(run_id):
        raise UserError(f"{source}/{run_folder.MANIFEST} does not say of which run it is", "bring it back")
    output = output or Path(f"{run_id}.bundle.tar.gz")
    for path in filter(None, (output, table_file)):
        if path.exists() or path.is_symlink() or output == table_file:
            raise UserError(f"{path} is there already", "remove it, or name another file")
    names, left_out = files.names(source)
    table = _learned(source, names)
    try:
        with tempfile.TemporaryDirectory(prefix="railyard-bundle-") as place:
            folder = Path(place) / run_id
            _write(source, names, folder, table)
            _check_same_verdicts(source, folder)
            rows = "".join(f"| {kind} | {number} |\n" for kind, number in table.counts().items())
            about = {"run": run_id, "rows": rows, "kept": len(table.kept), "left": len(left_out)}
            (folder / files.BUNDLE).write_text(_ABOUT.format(**about), encoding="utf-8")
            _no_original(folder, table)
            if table_file:
                rows = "".join("\t".join(row) + "\n" for row in table.rows())
                with whole_file(table_file) as stream:
                    stream.write(rows.encode("utf-8", "surrogateescape"))
            try:
                with whole_file(output) as stream:
                    _pack(folder, stream)
            except UserError:
                if table_file:
                    table_file.unlink()
                raise
    except OSError as error:
        raise unwritable(error.filename or tempfile.gettempdir(), error) from error
    replaced = ", ".join(f"{number} {kind}" for kind, number in table.counts().items())
    print(f"Replaced: {replaced}.")
    if table.kept:
        print(clean(f"Kept, since they are common words or too short: {named(sorted(table.kept), 8)}."))
    if left_out:
        print(clean(f"Left out, since they are no texts of a run: {named(left_out, 8)}."))
    print(clean(f"Bundle: {output}"))
    return 0


def _learned(source: Path, names: Iterable[str]) -> Table:
    table = Table()
    folder = RunFolder(source)
    nodes = folder.plan().get("nodes")
    for node in nodes if isinstance(nodes, dict) else ():
        table.name("node", node)
    argv = folder.manifest().get("argv")
    for kind, word in naming.in_argv(argv) if isinstance(argv, list) else ():
        table.name(kind, word)
    told = json.dumps([folder.manifest().get(key) for key in ("argv", "inventory")])
    for word in re.findall(r'"(?:-e@|@|--[\w-]+=@?)?(/[^"/]+/[^"]+)/[^"/]+"', told):
        table.name("folder", word)
    for name in names:
        if name in _DECLARE:
            table.declare(next(files.parts(source, name)).text)
    for name in names:
        for part in files.parts(source, name):
            table.learn(part.text)
    with suppress(FileNotFoundError):
        table.name("secret", (source / run_folder.SECRET).read_text(encoding="ascii"))
    table.settle()
    return table


def _write(source: Path, names: Iterable[str], folder: Path, table: Table) -> None:
    """Write the folder with stand-ins, its digests made anew; a digest that was wrong stays wrong."""
    (folder / "raw").mkdir(parents=True)
    digests = {}
    for name in names:
        target = folder / table.replace(name)
        replaced = (
            (table.replace(part.member or ""), table.replace(part.text).encode("utf-8", "surrogateescape"))
            for part in files.parts(source, name)
        )
        with target.open("wb") as stream:
            if name.endswith(".tar.gz"):
                _archive(stream, replaced)
            else:
                stream.write(next(replaced)[1])
        if name.endswith(".tar.gz") or name == baseline.FILE:
            digests[_sha256(source / name)] = _sha256(target)
    _made_anew(folder, digests)
    # They cover the plan, which names the baseline by its digest.
    old, new = RunFolder(source), RunFolder(folder)
    _made_anew(folder, dict(zip(_fingerprints(old), _fingerprints(new), strict=True)))
    manifest = {**new.manifest(), provenance.BUNDLED: True}
    (folder / run_folder.MANIFEST).write_text(run_folder.pretty(manifest), encoding="utf-8")


def _made_anew(folder: Path, digests: Mapping[str, str]) -> None:
    for name in filter(lambda name: (folder / name).exists(), _DIGESTED):
        text = (folder / name).read_text(encoding="utf-8", errors="surrogateescape")
        for before, after in digests.items():
            text = text.replace(before, after)
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")


def _fingerprints(folder: RunFolder) -> tuple[str, str]:
    policy = folder.manifest().get("policy")
    asked = requests.fingerprint(folder.rows(run_folder.ASKED)[0])
    return str(asked["sha256"]), provenance.fingerprint(folder.plan(), policy)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_same_verdicts(source: Path, folder: Path) -> None:
    """Judge the run and its bundle, and write the bundle's verdicts.

    Raises:
        UserError: they are not the same.
    """
    judged = _judged(folder)
    before, after = _summarise_verdicts(_judged(source)), _summarise_verdicts(judged)
    other = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if other:
        raise UserError(
            f"the stand-ins would change {named(sorted(other))} of the run; no bundle is written",
            "this is a fault of Railyard: say so, with the run's facts.jsonl if you can",
        )
    if judged:
        (folder / run_folder.VERDICTS).write_text("".join(rejudge.list_lines(judged)), encoding="utf-8")


def _judged(path: Path) -> rejudge.Judged | None:
    """Judge a run; None where that cannot be."""
    try:
        return rejudge.judge_folder(path)
    except (JudgeError, PolicyError):
        return None


def _summarise_verdicts(judged: rejudge.Judged | None) -> dict[str, Any]:
    """Return the part of a judgement that contains no names."""
    if judged is None:
        return {}
    keys = ("outcome", "cause_class", "reproduced", "flaky", "proof")
    found = {str(one["id"]): [one[key] for key in keys] for one in judged.verdicts}
    return {**found, "exit status": judged.exit_status, "unplanned rows": len(judged.strangers)}


def _no_original(folder: Path, table: Table) -> None:
    """Look for every original once more, in whatever form, in all that would be written.

    Raises:
        UserError: one is left.
    """
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = str(path.relative_to(folder))
        for part in files.parts(folder, name):
            lines = [f"{name} {part.member or ''}", *part.text.split("\n")]
            if number := next((number for number, line in enumerate(lines, 1) if table.left(line)), None):
                where = f"{name} {part.member or ''}, line {number - 1}"
                raise UserError(
                    f"an original would be left in {where}; nothing is written",
                    "remove that file from the folder, and report the line: this is an error in Railyard",
                )


_ABOUT = """# Run {run}, anonymized

By `railyard bundle`. Raw outputs are unchanged except for these replacements:

| replaced | how many |
|---|---:|
{rows}
Addresses of one network stay in one network. Kept are numbers, times, versions, vendors of MACs and GUIDs,
names of rails, netdevs and HCAs, and names that are common words ({kept}).

**Digests were calculated again** over the replacements; `manifest.json` says `bundled`. A wrong digest is
still wrong. Left out: the run's secret, the report pages, and {left} other files.

`railyard judge` reads the archive as it is, with the same verdicts.
"""


def _pack(folder: Path, stream: BinaryIO) -> None:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    _archive(stream, ((str(path.relative_to(folder.parent)), path.read_bytes()) for path in paths))


def _archive(stream: BinaryIO, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write a tar.gz that is the same bytes for the same contents."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content in contents:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))

"""Keep the run folders that tests judge, for `measure.py --recorded`: a plugin of pytest.

ORACLE_RECORD=/tmp/kept PYTHONPATH=collections:benchmarks/oracle pytest -p record TESTS

It writes /tmp/kept.PID.jsonl, a folder on each line.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, verdict

DOCUMENTS = ("manifest.json", "plan.json", "asked.jsonl", "facts.jsonl", "results.jsonl", "obstacles.jsonl")
#: Longer ones are of many nodes, for the sake of time and memory.
MOST_BYTES = 2_000_000


def of_documents(*given: Any, **_named: Any) -> dict[str, list[str]]:
    """Return the files of what a test gives to the judge."""
    many = dict(zip(DOCUMENTS, given, strict=False))
    return {key: list(map(json.dumps, [one] if key.endswith("n") else one)) for key, one in many.items()}


def of_path(path: Any) -> dict[str, list[str]]:
    """Return the files of a folder."""
    files = [one for one in Path(path).iterdir() if one.suffix in (".json", ".jsonl") and one.is_file()]
    return {one.name: one.read_text(encoding="utf-8").splitlines() for one in files}


def pytest_configure() -> None:
    """Keep what is judged from now on, once; what cannot be written as JSON Lines is left out."""
    seen: set[int] = set()

    def keep(module: Any, name: str, files: Any) -> None:
        judge = getattr(module, name)

        def kept(*given: Any, **named: Any) -> Any:
            with suppress(TypeError, ValueError, OSError):
                text = json.dumps(files(*given, **named), sort_keys=True)
                if hash(text) not in seen and len(text) < MOST_BYTES:
                    seen.add(hash(text))
                    with Path(f"{os.environ['ORACLE_RECORD']}.{os.getpid()}.jsonl").open("a") as out:
                        out.write(text + "\n")
            return judge(*given, **named)

        setattr(module, name, kept)

    keep(verdict, "judge", of_documents)
    keep(rejudge, "judge_folder", of_path)

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the Grafana dashboards of role `monitoring`, or check that they are what the code makes.

python -m railyard.dashboards [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from railyard.base.paths import repo_root
from railyard.dashboards import cluster, gpus, node, rails, runs
from railyard.dashboards.parts import SOURCE

FOLDER = repo_root() / "roles" / "monitoring" / "files" / "dashboards"
BOARDS: tuple[Callable[[], Dashboard], ...] = (cluster.make, rails.make, node.make, runs.make, gpus.make)
# Keys that the SDK writes and newer schemas of Grafana lack. It also writes empty options as null, which its
# own reader does not take.
_GONE = {"style"}
_GONE_OF_VARIABLES = {"id", "auto", "auto_count", "auto_min"}
_GONE_OF_TABLES = {"footer"}
# What Grafana takes where the key is missing: `defaultPanel` of @grafana/schema, whose types of 10.1 demand
# the others; of a query the panel's data source (PanelQueryRunner), and a range (pkg/tsdb/prometheus).
_DEFAULTS_OF_PANELS = {"repeatDirection": "h"}
_DEFAULTS_OF_QUERIES = {"datasource": JSONEncoder().default(SOURCE), "instant": False, "range": False}


def render() -> Mapping[str, str]:
    """Return the text of each dashboard by file name."""
    made = (json.loads(JSONEncoder(sort_keys=True).encode(make().build())) for make in BOARDS)
    return {f"{one['uid']}.json": _text(one) for one in made}


def _text(board: dict[str, Any]) -> str:
    for key in _GONE:
        board.pop(key, None)
    for variable in board["templating"]["list"]:
        for key in _GONE_OF_VARIABLES:
            variable.pop(key, None)
    for panel in board["panels"]:
        for key in _GONE_OF_TABLES if panel["type"] == "table" else ():
            panel["options"].pop(key, None)
        _drop_defaults(panel, _DEFAULTS_OF_PANELS)
        for query in panel.get("targets", ()):
            _drop_defaults(query, _DEFAULTS_OF_QUERIES)
    return json.dumps(_without_null_options(board), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _drop_defaults(values: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Remove the keys whose value Grafana would take without them."""
    for key, default in defaults.items():
        if values.get(key) == default:
            del values[key]


def _without_null_options(value: Any) -> Any:
    """Return a value without the keys `options` that are null, at any depth."""
    if isinstance(value, dict):
        return {
            key: _without_null_options(one)
            for key, one in value.items()
            if not (key == "options" and one is None)
        }
    if isinstance(value, list):
        return [_without_null_options(one) for one in value]
    return value


def main(argv: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the files, or with --check name those that differ and return 1."""
    parser = argparse.ArgumentParser(prog="python -m railyard.dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs")
    check = parser.parse_args(argv).check
    wanted = render()
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
    stale = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if check:
        for name in stale:
            print(
                f"{folder / name}: is not what the code makes. Run `python -m railyard.dashboards`.",
                file=sys.stderr,
            )
        return int(bool(stale))
    folder.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())

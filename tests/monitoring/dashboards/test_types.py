# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboards compile against Grafana's own TypeScript types, the oldest and the newest that they are for.

The types come from npm (@grafana/schema, Apache-2.0). Without npm or a registry these tests are skipped.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.monitoring import dashboard_queries, npm
from support.monitoring.dashboard_queries import FILES

TYPES = Path(__file__).parent / "types"
VERSIONS = ("10", "13")
PANELS = {
    "stat": "StatPanelCfg",
    "bargauge": "BarGaugePanelCfg",
    "table": "TablePanelCfg",
    "timeseries": "TimeSeriesPanelCfg",
    "state-timeline": "StateTimelinePanelCfg",
}
#: Panels whose series have settings of their own: in 10.1 a table's are not in its file.
WITH_FIELDS = ("timeseries", "state-timeline")


@pytest.fixture(scope="session")
def tools() -> Path:
    """Return the folder with tsc and Grafana's types, fetched once for each list."""
    return npm.fetch(TYPES)


def source(board: dict[str, Any], version: str) -> str:
    """Return TypeScript that is right only where a dashboard, its panels' options and its queries are."""
    raw = f"./node_modules/schema-{version}/dist/esm/raw/composable"
    text = [
        'import type { Json } from "./json";',
        'import type { Dashboard, VariableModel } from "@grafana/schema";',
    ]
    for kind, name in PANELS.items():
        folder = f"{raw}/{kind.replace('-', '')}/panelcfg/x/{name}_types.gen"
        fields = f", FieldConfig as {name}Fields" if kind in WITH_FIELDS else ""
        text.append(f'import type {{ Options as {name}{fields} }} from "{folder}";')
    prometheus = "dist/esm/raw/composable/prometheus/dataquery/x/PrometheusDataQuery_types.gen"
    query = f"./node_modules/schema-10/{prometheus}"
    text.append(f'import type {{ PrometheusDataQuery }} from "{query}";')
    # The types of 10.1 demand `style`, which later ones lack, and of a variable what Grafana itself fills in.
    apart = {**board, "templating": {}}
    text.append(f'export const board: Json<Omit<Dashboard, "style">> = {json.dumps(apart)};')
    variables = json.dumps(board["templating"]["list"])
    text.append(f"export const variables: Array<Json<Partial<VariableModel>>> = {variables};")
    for panel in board["panels"]:
        if panel["type"] == "row":
            continue
        name, number = PANELS[panel["type"]], panel["id"]
        text.append(f"export const p{number}: Json<Partial<{name}>> = {json.dumps(panel['options'])};")
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if custom and panel["type"] in WITH_FIELDS:
            text.append(f"export const f{number}: Json<Partial<{name}Fields>> = {json.dumps(custom)};")
        queries = json.dumps(panel["targets"])
        text.append(f"export const q{number}: Array<Json<PrometheusDataQuery>> = {queries};")
    return "\n".join(text) + "\n"


def compile_all(tools: Path, folder: Path, version: str, boards: dict[str, dict[str, Any]]) -> str:
    """Compile dashboards; return what tsc prints, which is nothing where all is right."""
    # Grafana's files import their package by its own name: it stands for one version at a time.
    (folder / "node_modules").symlink_to(tools / "node_modules")
    shutil.copy(TYPES / "json.ts", folder)
    for name, board in boards.items():
        (folder / f"{name}.ts").write_text(source(board, version), encoding="utf-8")
    options = {
        "strict": True,
        "noEmit": True,
        "skipLibCheck": True,
        "preserveSymlinks": True,
        "types": [],
        "module": "esnext",
        "moduleResolution": "bundler",
        "target": "es2022",
        "paths": {"@grafana/schema": [f"./node_modules/schema-{version}"]},
    }
    config = {"compilerOptions": options, "files": [f"{name}.ts" for name in boards]}
    (folder / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    argv = ["node", str(tools / "node_modules/typescript/bin/tsc"), "-p", str(folder)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ})
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_the_dashboards_compile(tools: Path, tmp_path: Path, version: str) -> None:
    boards = {path.stem: dashboard_queries.load(path) for path in FILES}
    assert compile_all(tools, tmp_path, version, boards) == ""


def _panel(board: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(one for one in board["panels"] if one["type"] == kind)


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a number as text": (lambda board: board.update(schemaVersion="36"), "'string' is not assignable"),
    "a key that is misspelt": (lambda board: board["panels"][1].update(gridPoss={}), "gridPos"),
    "a colour mode of no panel": (
        lambda board: _panel(board, "stat")["options"].update(colorMode="backgrund"),
        "backgrund",
    ),
    "a line that is drawn in no way": (
        lambda board: _panel(board, "timeseries")["fieldConfig"]["defaults"]["custom"].update(
            drawStyle="dots"
        ),
        "dots",
    ),
    "a query in no format": (
        lambda board: _panel(board, "table")["targets"][0].update(format="tabel"),
        "tabel",
    ),
}


def test_what_is_wrong_does_not_compile(tools: Path, tmp_path: Path) -> None:
    boards = {}
    for number, (spoil, _word) in enumerate(WRONG.values()):
        boards[f"wrong{number}"] = copy.deepcopy(dashboard_queries.load(FILES[0]))
        spoil(boards[f"wrong{number}"])
    printed = compile_all(tools, tmp_path, VERSIONS[-1], boards)
    for number, (what, (_spoil, word)) in enumerate(WRONG.items()):
        lines = [line for line in printed.splitlines() if line.startswith(f"wrong{number}.ts")]
        assert any(word in line for line in lines), (what, lines)

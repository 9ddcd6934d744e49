"""Read Prometheus' text format as strictly as node_exporter's textfile collector does."""

from __future__ import annotations

import re

Labels = frozenset[tuple[str, str]]
_SERIES = re.compile(r'([a-z_][a-z0-9_]*)\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (-?[0-9.e+-]+)')
_LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


def parse(text: str) -> dict[str, dict[Labels, float]]:
    """Read the text format as strictly as the collector does, and each family in one piece."""
    families: dict[str, dict[Labels, float]] = {}
    name = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in families, "a family in two pieces"
            families[name] = {}
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {name} gauge"
        elif not line.startswith("# "):
            found = _SERIES.fullmatch(line)
            assert found, line
            assert found[1] == name, line
            labels = frozenset(_LABEL.findall(found[2]))
            assert labels not in families[name], "a series twice"
            families[name][labels] = float(found[3])
    return families

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi topo -m, with tabs as printed or blanks as pasted; rows that lost a cell are reported."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_int

_NAME = re.compile(
    r"(?:GPU[0-9]{1,3}|NIC[0-9]{1,3}|(?:mlx[0-9]|bnxt_re|hfi1|irdma|roce|ibp|rocep)\w{0,40})\Z"
)
# The column "GPU NUMA ID" begins like a GPU's name; the captions end the names.
_CAPTIONS = re.compile(r"(?:CPU Affinity|NUMA Affinity|GPU NUMA ID).*$")
_LINK = re.compile(r"(?:X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|C2C|N/A|DIS)\Z")
_STATUS = re.compile(r"(?:OK|NS|CNS|GNS|TNS|U)\Z")
_LEGEND = re.compile(r"^\s*(NIC[0-9]{1,3}): +(\S{1,60})\s*$")
_CPUS = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*\Z")
_UNKNOWN = ("N/A", "")


def _row(cells: list[str], columns: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return (links by column, cells after them); a row with fewer links than columns is damaged."""
    links: list[str] = []
    for cell in cells:
        if len(links) == len(columns) or not _LINK.match(cell):
            break
        links.append(cell)
    return dict(zip(columns, links)), cells[len(links) :]  # noqa: B905 - 3.9


def _affinity(cells: list[str]) -> tuple[str | None, int | None]:
    """Return (CPU list, NUMA node) from the cells after a GPU's links; either may be missing."""
    cells = [cell for cell in cells if cell]
    cpus = cells[0] if cells and _CPUS.match(cells[0]) else None
    numa = to_int(cells[1]) if len(cells) > 1 and cells[1] not in _UNKNOWN else None
    return cpus, numa


class _Matrix:
    """One matrix while it is read."""

    def __init__(self, columns: list[str], has_numa: bool) -> None:
        self.columns = columns
        self.has_numa = has_numa
        self.rows: dict[str, dict[str, str]] = {}
        self.cpus: dict[str, str | None] = {}
        self.numa: dict[str, int | None] = {}
        self.damaged: list[str] = []
        self.names: dict[str, str] = {}

    def read(self, name: str, cells: list[str]) -> None:
        links, behind = _row(cells, self.columns)
        torn = [cell for cell in behind if not _CPUS.match(cell) and cell not in _UNKNOWN]
        if len(links) != len(self.columns) or links.get(name) != "X" or torn:
            self.damaged.append(name)
            return
        self.rows[name] = links
        if name.startswith("GPU"):
            cpus, numa = _affinity(behind)
            self.cpus[name], self.numa[name] = cpus, numa if self.has_numa else None

    def output(self) -> dict[str, Any]:
        gpus = [name for name in self.columns if name.startswith("GPU")]
        nics = [name for name in self.columns if not name.startswith("GPU")]
        links = {
            name: {other: link for other, link in row.items() if other != name}
            for name, row in self.rows.items()
        }
        return {
            "gpus": gpus,
            "nics": {name: self.names.get(name, None if name.startswith("NIC") else name) for name in nics},
            "links": links,
            "cpu_affinity": {name: self.cpus.get(name) for name in gpus},
            "numa": {name: self.numa.get(name) for name in gpus},
            "damaged_rows": self.damaged,
        }

    def problem(self) -> dict[str, str] | None:
        if self.damaged:
            return error("damaged_rows", f"rows without all cells: {', '.join(self.damaged)}")
        missing = [name for name in self.columns if name not in self.rows]
        if missing:
            return error("truncated", f"rows missing: {', '.join(missing)}")
        uneven = next(
            (
                (one, two)
                for one, row in self.rows.items()
                for two, link in row.items()
                if self.rows[two].get(one) != link
            ),
            None,
        )
        if uneven:
            return error("inconsistent", f"{uneven[0]} to {uneven[1]} differs from its reverse")
        return None


def parse(text: str) -> dict[str, Any]:
    """Parse the output of `nvidia-smi topo -m`.

    Args:
        text: What nvidia-smi printed.

    Returns:
        The common object; `nics` maps the name in the matrix to the device (`NIC0: mlx5_0`) where the legend
        or the matrix shows it.

    Raises:
        NotThisTool: There is no matrix of links (`topo -p2p` is another one).
    """
    lines = common.split_lines(text)
    matrix: _Matrix | None = None
    for line in lines:
        words = _CAPTIONS.sub("", line).split()
        if matrix is None:
            if words and words[0].startswith(("GPU", "NIC", "mlx")) and all(map(_NAME.match, words)):
                matrix = _Matrix(words, "NUMA Affinity" in line)
            continue
        if legend := _LEGEND.match(line):
            matrix.names[legend.group(1)] = legend.group(2)
            continue
        cells = line.split()
        if cells and cells[0] in matrix.columns and len(cells) > 1:
            matrix.read(cells[0], cells[1:])
            if any(map(_STATUS.match, cells[1 : 1 + len(matrix.columns)])):
                raise common.NotThisTool("a matrix of peer access (topo -p2p) and not of links (topo -m)")
    if matrix is None:
        raise common.refusal("no matrix of nvidia-smi topo -m", lines)
    if not matrix.rows and not matrix.damaged:
        return common.result("nvidia-smi-topo", [], error("truncated", "the matrix has no rows"))
    return common.result("nvidia-smi-topo", [matrix.output()], matrix.problem())

"""The options of `railyard fabric`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


class SlurmForm(enum.StrEnum):
    """Which of Slurm's topology files is written."""

    TREE = "tree"
    BLOCK = "block"
    YAML = "yaml"


@dataclass(frozen=True)
class Wanted:
    """The options of `railyard fabric`.

    Attributes:
        inventory: inventory sources, as given to `-i`.
        captures: folders to read in place of a live fabric.
        host: the node to read from; None for the inventory's `read_from`, else the first that answers.
        interval_s: seconds between two readings of the error counters; 0 for one reading.
        as_json: print one JSON object.
        svg: file for the drawing; `-` is standard output.
        slurm_topology: folder for Slurm's topology file.
        slurm_form: which file that is.
        slurm_nodes: Slurm's nodes as a node set; None where these are the inventory's.
        rank_order: file for the hosts in the order of their rail groups.
        reports_dir: folder for `CLUSTER/fabric/TIME`.
    """

    inventory: list[str]
    captures: list[Path]
    host: str | None
    interval_s: float
    as_json: bool
    svg: str | None
    slurm_topology: Path | None
    slurm_form: SlurmForm
    slurm_nodes: str | None
    rank_order: Path | None
    reports_dir: Path

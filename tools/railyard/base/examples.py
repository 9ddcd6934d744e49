"""The examples of each command, shown by `--help`, the reference page and the man page."""

from __future__ import annotations

from typing import Any

#: What each command's examples do, and the arguments behind its name.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "discover": (
        ("Write an inventory of 32 nodes", "-o inventories/mine 'gpu[001-032]'"),
        ("Show what changed since then", "--diff -i inventories/mine"),
    ),
    "new-inventory": (
        ("Two nodes with two rails", "--nodes 'gpu[1-2]' --rails 2 --transport roce --netdev ens6,ens7"),
    ),
    "plan": (
        ("Show the planned addresses", "-i inventories/mine"),
        ("Draw nodes, rails and switches", "-i inventories/mine --svg plan.svg"),
    ),
    "site": (
        ("Show what would change", "-i inventories/mine --check --diff"),
        ("Provision, measure and report", "-i inventories/mine -K"),
    ),
    "provision": (("Two nodes only", "-i inventories/mine --limit gpu001,gpu002"),),
    "verify": (("Check all nodes", "-i inventories/mine"),),
    "validate": (
        ("Measure and report", "-i inventories/mine"),
        ("Half a minute a node, no load", "-i inventories/mine --quick"),
        ("Idle nodes only, for at most an hour", "-i inventories/mine --idle --limit-time 1h"),
    ),
    "sweep": (("Measure every pair of nodes", "-i inventories/mine"),),
    "resume": (("Continue the latest run of a cluster", "mine -i inventories/mine"),),
    "fabric": (
        ("Read the fabric from one node", "-i inventories/mine --host gpu001"),
        ("Write Slurm's topology file", "-i inventories/mine --slurm-topology slurm"),
    ),
    "idle": (("List nodes without a job", "-i inventories/mine"),),
    "drain": (("Show which nodes would be drained", "-i inventories/mine --check"),),
    "report": (("Of the latest run of a cluster", "mine"),),
    "judge": (("Of one run, as JSON", "reports/mine/20261127T210852Z-83a4 --json"),),
    "compare": (
        ("Two runs of one cluster", "mine/20261120T080000Z-11aa mine/20261127T210852Z-83a4"),
    ),
    "baseline save": (("Keep the latest run as the reference", "mine -i inventories/mine"),),
    "runs metrics": (("For node_exporter", "-o /var/lib/prometheus/node-exporter/railyard_runs.prom"),),
    "runs trends": (("One node over all runs", "mine --node gpu001"),),
    "runs prune": (("List what would go", "mine --keep 20 --check"),),
    "export": (
        ("What both ends measured in a test", "mine m00042"),
        ("A table for a notebook", "mine --format parquet -o mine.parquet"),
    ),
    "bundle": (("Pack the latest run for somebody else", "mine -o mine.bundle.tar.gz"),),
    "parse": (
        ("One output of ib_write_bw", "ib_write_bw bw.txt"),
        ("A folder of outputs, as a run", "run outputs -i inventories/mine"),
    ),
    "monitoring targets": (("Targets of node_exporter", "-i inventories/mine -o targets.json"),),
    "monitoring export": (("Rules and dashboards", "-i inventories/mine -o monitoring"),),
    "estimate": (
        ("2 billion parameters on 32 nodes", "--params 2e9 --nodes 32 --gpus 8 --inter-node-gbps 400"),
    ),
    "size": (("256 GPUs on switches of 64 ports", "--gpus 256 --rails 8 --radix 64"),),
    "simulate": (("One slow node of 32", "--nodes 32 --rails 8 --seed 1 --fault node:gpu017@0.6"),),
    "lint-nccl": (("A job script", "train.sbatch -i inventories/mine"),),
}  # fmt: skip


def add_examples(command: Any, name: str) -> None:
    """Append the examples of a command, and of its subcommands, to the text below its options."""
    for word, sub in getattr(command, "commands", {}).items():
        add_examples(sub, f"{name} {word}")
    shown = [f"{what}: railyard {name} {arguments}" for what, arguments in EXAMPLES.get(name, ())]
    text = command.epilog or ""
    # A command is looked up more than once; rich prints a paragraph as one line.
    if shown and "Examples:" not in text:
        command.epilog = "\n\n".join([text, "Examples:", *shown]).strip()

"""Slurm's topology file and the order of hosts: refused before anything is read, written at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import rank_order, slurm_topology

from railyard.base.errors import UserError
from railyard.base.whole_file import whole_file
from railyard.fabric.documents import Report
from railyard.fabric.wanted import SlurmForm, Wanted


@dataclass(frozen=True)
class Written:
    """What is written beside the report.

    Attributes:
        slurm_file: Slurm's file; None where none is wanted.
        form: which it is.
        slurm_nodes: the names of Slurm's nodes; None where these are the inventory's.
        domains: node -> its NVLink domain.
        rank_file: the file of hosts; None where none is wanted.
    """

    slurm_file: Path | None
    form: SlurmForm
    slurm_nodes: tuple[str, ...] | None
    domains: dict[str, str]
    rank_file: Path | None

    def write_texts(self, report: Report) -> dict[Path, str]:
        """Write the texts: file -> content.

        Raises:
            UserError: there is no topology to write.
        """
        texts = {}
        try:
            if self.slurm_file is not None:
                texts[self.slurm_file] = self._write_slurm(report)
        except slurm_topology.TopologyError as error:
            raise UserError(f"Slurm's topology is not written: {error}") from error
        if self.rank_file is not None:
            advice = rank_order.advise_cross_nic(report.subnets, report.groups)
            warnings = rank_order.compare_adapter_order(report.expected)
            texts[self.rank_file] = rank_order.write_hosts(report.groups, advice, warnings)
        return texts

    def _write_slurm(self, report: Report) -> str:
        groups = slurm_topology.select_nodes(report.groups, self.slurm_nodes)
        blocks = slurm_topology.group_by_nvlink(groups, self.domains)
        if self.form is SlurmForm.BLOCK:
            return slurm_topology.write_block(blocks)
        try:
            for subnet in report.subnets:
                slurm_topology.refuse_tree(subnet.reading, subnet.judgement)
        except slurm_topology.TopologyError:
            if self.form is SlurmForm.TREE:
                raise
            return slurm_topology.write_yaml(None, blocks)
        return (
            slurm_topology.write_tree(groups)
            if self.form is SlurmForm.TREE
            else slurm_topology.write_yaml(groups, blocks)
        )

    def write_files(self, report: Report) -> list[Path]:
        """Write the files and return them.

        Raises:
            UserError: there is no topology to write, or a file cannot be written; then none is.
        """
        texts = self.write_texts(report)
        for path, text in texts.items():
            with whole_file(path, 0o644) as stream:
                stream.write(text.encode())
        return list(texts)


def check(wanted: Wanted, inventory: Inventory) -> Written:
    """Refuse what cannot be written, before anything is read.

    Raises:
        UserError: the folder is missing, has the other file or one that Railyard did not write, or a
            name is wrong.
    """
    slurm_file = None
    if wanted.slurm_topology is not None:
        slurm_file = _check_folder(wanted.slurm_topology, wanted.slurm_form)
    elif wanted.slurm_nodes is not None:
        raise UserError("--slurm-nodes is a part of --slurm-topology", "add --slurm-topology with a folder")
    if wanted.rank_order is not None and not wanted.rank_order.absolute().parent.is_dir():
        raise UserError(f"{wanted.rank_order.parent} does not exist", "name a file in a folder that exists")
    domains = {
        node.name: str(node.nvlink_domain) for node in inventory.nodes if node.nvlink_domain is not None
    }
    nodes = None if wanted.slurm_nodes is None else unfold_nodes(wanted.slurm_nodes)
    return Written(slurm_file, wanted.slurm_form, nodes, domains, wanted.rank_order)


def unfold_nodes(text: str) -> tuple[str, ...]:
    """Return the nodes of a node set, such as `gpu[01-16],login1`.

    Raises:
        UserError: it is none.
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        # A group (`@all`) would be resolved by a program of the site.
        names = tuple(map(str, NodeSet(text, resolver=None))) if "@" not in text else ()
    except NodeSetException as error:
        raise UserError(f"--slurm-nodes {text!r} is not understood: {error}", "write gpu[01-16]") from error
    if not names:
        raise UserError(f"--slurm-nodes {text!r} names no node", "write names, such as gpu[01-16],login1")
    return names


def _check_folder(folder: Path, form: SlurmForm) -> Path:
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder", "make it, or name another for --slurm-topology")
    own, other = slurm_topology.CONF, slurm_topology.YAML
    if form is SlurmForm.YAML:
        own, other = other, own
    if (folder / other).exists():
        raise UserError(
            f"{folder / other} exists, and Slurm ignores {slurm_topology.CONF} beside {slurm_topology.YAML}",
            f"remove it, or write {other} with --slurm-form",
        )
    path = folder / own
    try:
        with path.open("rb") as stream:
            is_ours = stream.read(len(slurm_topology.MARK)).decode("utf-8", "replace") == slurm_topology.MARK
    except FileNotFoundError:
        return path
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "name another folder") from error
    if not is_ours:
        raise UserError(f"{path} was not written by railyard", "move it away, or name another folder")
    return path

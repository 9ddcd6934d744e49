"""The training job that is estimated: its options, which the command line takes from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from railyard.base import options

#: Bytes of a gradient. TF32 is how the tensor cores read an fp32 number; in memory and on the wire it has 4.
BYTES_OF = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
#: What compute cannot be calculated without.
COMPUTE = ("seqlen", "global_batch", "peak_tflops", "mfu")
# The upper ends are far beyond what there is, and keep every product a number.
_BOUNDS = {
    "params": (1, 1e15, "write how many parameters the model has, as 2e9"),
    "nodes": (1, 1_000_000, "write how many nodes train"),
    "gpus": (1, 1024, "write how many GPUs each node has"),
    "rails": (1, 1024, "write how many NICs each node has for this"),
    "inter_node_gbps": (0.001, 1e6, "write one NIC's rate in Gbit/s (10^9 bit/s), as 400"),
    "intra_node_gbytes": (0.001, 1e6, "write one GPU's rate to the others in GB/s (10^9 byte/s), as 300"),
    "seqlen": (1, 1e9, "write how many tokens a sequence has, as 2048"),
    "global_batch": (1, 1e9, "write how many sequences a step of all GPUs takes, as 64"),
    "peak_tflops": (0.001, 1e6, "write what the GPU's data sheet says without sparsity, as 312"),
    "mfu": (0.001, 1, "write the share of the peak that the model reaches, above 0 and at most 1, as 0.5"),
    "efficiency": (0.001, 1, "write the share of the links' rates that is reached, above 0 and at most 1"),
    "bucket_mbytes": (0.001, 1e9, "write a bucket's size in MB (10^6 bytes)"),
}


@dataclass(frozen=True)
class Job:
    """A data-parallel training job and its links, as typed; None where not given. Each is an option."""

    params: Annotated[float, Option(metavar="P", help="Parameters of the model, as 2e9.")]
    gpus: Annotated[int, Option(metavar="G", help="GPUs of each node.")]
    nodes: Annotated[int, Option(metavar="N", help="Nodes.")] = 1
    dtype: Annotated[str, Option(help=f"Type of a gradient: {', '.join(BYTES_OF)}.")] = "fp32"
    rails: Annotated[int, Option(metavar="R", help="NICs of each node that carry it.")] = 1
    inter_node_gbps: Annotated[float | None, Option(help="Rate of one NIC, in Gbit/s (10^9 bit/s).")] = None
    intra_node_gbytes: Annotated[
        float | None,
        Option(help="One GPU to the others of its node, one direction, in GB/s (10^9 byte/s)."),
    ] = None
    efficiency: Annotated[float, Option(help="Share of these rates that is reached, at most 1.")] = 1.0
    seqlen: Annotated[int | None, Option(help="Tokens of a sequence.")] = None
    global_batch: Annotated[int | None, Option(help="Sequences in a step, of all GPUs together.")] = None
    peak_tflops: Annotated[float | None, Option(help="Peak of a GPU, without sparsity.")] = None
    mfu: Annotated[float | None, Option(help="Share of the peak that the model reaches, at most 1.")] = None
    recompute: Annotated[
        bool, Option("--recompute", help="The forward pass is done twice, to save memory: 4 passes, not 3.")
    ] = False
    bucket_mbytes: Annotated[
        float, Option(help="Gradients that go at once, in MB (10^6 bytes). Default: PyTorch DDP's 25 MiB.")
    ] = 26.2144

    @property
    def ranks(self) -> int:
        """All GPUs."""
        return self.nodes * self.gpus

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients, once."""
        return self.params * BYTES_OF[self.dtype]

    @property
    def bucket_bytes(self) -> float:
        """Bytes that go at once."""
        return min(self.bucket_mbytes * 1e6, self.gradient_bytes)

    @property
    def buckets(self) -> int:
        """How many messages the gradients make."""
        return int(-(-self.gradient_bytes // self.bucket_bytes))

    @property
    def in_node_bytes_per_s(self) -> float | None:
        """What one GPU reaches within its node."""
        return self.intra_node_gbytes and self.intra_node_gbytes * 1e9 * self.efficiency

    @property
    def between_nodes_bytes_per_s(self) -> float | None:
        """What all NICs of a node reach together."""
        return self.inter_node_gbps and self.rails * self.inter_node_gbps * 1e9 / 8 * self.efficiency

    @property
    def lacks_for_compute(self) -> list[str]:
        """The options that compute cannot be calculated without, and that were not given."""
        return [options.flag(name) for name in COMPUTE if getattr(self, name) is None]

    def check(self) -> None:
        """Refuse a job that makes no sense.

        Raises:
            UserError: one message of all options that are wrong or missing.
        """
        wrong = options.out_of_range(self, _BOUNDS)
        if self.dtype not in BYTES_OF:
            wrong.append(
                ("--dtype", f"{self.dtype[:40]!r} is no type of gradient", f"write {', '.join(BYTES_OF)}")
            )
        if self.nodes > 1 and self.inter_node_gbps is None:
            what = f"it is missing, and {self.nodes} nodes talk over the network"
            wrong.append(("--inter-node-gbps", what, _BOUNDS["inter_node_gbps"][2]))
        if self.nodes == 1 and self.gpus > 1 and self.intra_node_gbytes is None:
            what = f"it is missing, and the {self.gpus} GPUs of one node talk within it"
            wrong.append(("--intra-node-gbytes", what, _BOUNDS["intra_node_gbytes"][2]))
        if wrong:
            raise options.refused(wrong, "with the job; nothing was estimated")

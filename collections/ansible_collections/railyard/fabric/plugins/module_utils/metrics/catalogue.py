# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define every metric that Railyard exports: its type, labels, unit and help text. Pure data.

Writers take type and help text from here, and tests compare rules and dashboards with it. Names follow
Prometheus' rules (prometheus.io/docs/practices/naming): base units, the unit as a suffix, `_total` on
counters. Metrics of a node carry no `cluster` and no `node`: the scrape target has these labels. Metrics of
the controller describe other machines and carry both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

GAUGE, COUNTER = "gauge", "counter"
PREFIX = "railyard_"

#: Values of label `kind` of `railyard_rail_errors_total`; each rail has a series for each of them.
ERROR_KINDS = ("physical", "flap", "symbol", "transport", "loss")
#: Values of label `layer`.
LAYERS = ("netdev", "rdma")
#: Values of label `direction`: pauses that the port received and sent.
DIRECTIONS = ("rx", "tx")
#: Value of label `priority` of pauses that hold for the whole port.
ALL_PRIORITIES = "all"
#: Values of label `counter` of `railyard_rail_congestion_total`, named as the drivers name them.
CONGESTION_COUNTERS = ("np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "rp_cnp_ignored")
#: Values of label `outcome` of `railyard_rail_not_good`.
NOT_GOOD_OUTCOMES = ("fail", "unmeasured", "unproven")
#: Values of label `by` of `railyard_slurm_node_drained`.
DRAINED_BY = ("railyard", "other")


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: its name, with the prefix.
        type: `gauge` or `counter`.
        labels: names of its labels, in the order in which they are written.
        help: one sentence for `# HELP`, with the unit or the meaning of the value.
    """

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


# A line with the name and its labels, then its help text.
_TABLE = """\
# What each rail is and is expected to be: from the node's expectation, so also where the port is gone.
railyard_rail_info rail netdev device port
    Always 1. A rail of this node; device and port name its RDMA port as node_infiniband_* does.
railyard_rail_netdev_info rail device
    Always 1. A rail of this node; device names its netdev as node_network_* does.
railyard_rail_expected_rate_bytes_per_second rail
    Declared rate of the rail's link in bytes per second. Absent where no rate is declared.
railyard_rail_rate_bytes_per_second rail
    Rate that the rail's link trained to in bytes per second. Absent where the kernel reports none.
railyard_rail_expected_mtu_bytes rail layer
    Planned MTU of the netdev, and the RDMA MTU that follows from it, in bytes.
railyard_rail_mtu_bytes rail layer
    MTU of the netdev and of the RDMA port in bytes.
railyard_rail_rdma_port_active rail
    1 where the rail's RDMA port is ACTIVE, 0 where it is not or is missing. Absent without RDMA.
railyard_rail_gid_present rail
    1 where the rail's planned address has a RoCE v2 GID on its port, else 0. Absent without RoCE.
railyard_rail_gid_index rail
    Index of the RoCE v2 GID of the rail's planned address.
railyard_rail_pcie_lanes rail
    PCI Express lanes of the rail's card now.
railyard_rail_pcie_lanes_max rail
    PCI Express lanes that card and slot can both do.
# What its counters say.
railyard_rail_errors_total rail kind
    Errors of the rail's link by kind: the sum of the driver's counters of that kind.
railyard_rail_error_counter_total rail kind counter
    One error counter of the driver, only where it is above 0; for a person, not for rules.
railyard_rail_symbol_errors_allowed_per_hour rail
    Symbol errors that the rail's link may have in an hour. Absent where no source gives a number.
railyard_rail_congestion_total rail counter
    Packets of congestion control (CNP, ECN marks), by the driver's counter.
railyard_rail_pause_seconds_total rail direction priority
    Time during which the rail was paused (rx) or paused its peer (tx), in seconds.
railyard_rail_pause_frames_total rail direction priority
    Pause frames that the rail received (rx) or sent (tx).
# The node.
railyard_cpus_with_wrong_governor
    CPUs whose frequency governor is not the expected one. Absent where none is expected.
railyard_expected_gpus
    GPUs that the inventory declares. Absent where it declares none.
railyard_gpus
    NVIDIA GPUs on the node's PCI bus.
railyard_gpu_xid_since_reset pci xid
    XIDs of a GPU since its driver was loaded or it was reset. N_fatal: the driver calls XID N fatal.
railyard_gpu_xid_total pci xid
    XIDs of a GPU since the node booted.
railyard_gpu_nvlinks_active pci
    NVLinks of a GPU that are up, as the last quick check saw them.
railyard_gpu_nvlinks_expected pci
    NVLinks that the inventory declares of each GPU.
# What the last quick check found.
railyard_quick_status
    Result of the last quick check: 0 good, 1 wrong, 3 unknown.
railyard_quick_finding cause rail
    Always 1. Something that the last quick check found wrong or could not read.
railyard_quick_timestamp_seconds
    When the last quick check ended. Unix time in seconds.
railyard_quick_duration_seconds
    How long the last quick check took, in seconds.
# The writer.
railyard_node_metrics_info version
    Always 1. Version of Railyard that wrote these metrics.
railyard_node_metrics_cpu_seconds
    Processor time of this write in seconds.
# The controller: runs and Slurm.
railyard_run_info cluster run
    Always 1. The cluster's newest run.
railyard_run_complete cluster
    1 where the run ended and none of it is lost, else 0.
railyard_run_exit_status cluster
    0 all measured and none failed, 1 something failed, 3 something is unmeasured or incomplete.
railyard_run_timestamp_seconds cluster
    When the run began. Unix time in seconds.
railyard_run_end_timestamp_seconds cluster
    When the run ended. Unix time in seconds.
railyard_verdicts cluster check outcome
    Verdicts of a check by outcome.
railyard_node_proven_timestamp_seconds cluster node
    When the last run ended in which this node was tested actively and was good. Unix time in seconds.
railyard_rail_not_good cluster node rail outcome cause
    Always 1. A rail that the newest run found failed, unmeasured or unproven.
railyard_slurm_node_drained cluster node by
    1 where Slurm has the node drained, by Railyard or by somebody else.
"""


def _read_table(lines: Sequence[str]) -> Iterator[Metric]:
    for head, text in zip(lines[::2], lines[1::2]):  # noqa: B905 - Python 3.9 has no strict
        name, *labels = head.split()
        yield Metric(name, COUNTER if name.endswith("_total") else GAUGE, tuple(labels), text.strip())


#: For a person's eyes, in no rule: the first to be left out of a file that would be too large.
FOR_PERSONS = frozenset(("railyard_rail_error_counter_total", "railyard_gpu_xid_total"))
#: Name -> metric, in the order in which a file has them.
METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in _read_table([line for line in _TABLE.splitlines() if not line.startswith("#")])
}

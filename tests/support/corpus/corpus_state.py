# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the corpus' index says of captures that show a state: ports, GPUs, NCCL's choice of transport."""

from __future__ import annotations

from typing import Any

Ports = "dict[str, tuple[str | None, str, str, float, str]]"
ACTIVE_400: Any = ("MT4129", "Active", "LinkUp", 400.0)


def listed(
    file: str, count: int, ports: Ports, tool: str = "ibstat", kind: str | None = None
) -> tuple[str, str, bool, str | None, int, Ports]:
    """Return (file, tool, valid, error class, devices, {device: (CA type, state, physical, rate, layer)})."""
    return file, tool, kind is None, kind, count, ports


HCA_CASES = [
    listed(
        "ibstat/01-a100-9ca-mixed-layers.txt",
        9,
        {"mlx5_0": ("MT4126", "Active", "LinkUp", 200.0, "Ethernet")}
        | {f"mlx5_{n}": ("MT4126", "Active", "LinkUp", 200.0, "InfiniBand") for n in range(1, 9)},
    ),
    listed(
        "ibstat/02-h100-12ca-roce.txt",
        12,
        {f"mlx5_{n}": (*ACTIVE_400, "Ethernet") for n in (0, 3, 4, 5, 6, 9, 10, 11)}
        | {f"mlx5_{n}": ("MT4125", "Active", "LinkUp", 100.0, "Ethernet") for n in (1, 2, 7, 8)},
    ),
    listed(
        "ibstat/03-h100-8ib-plus-bluefield-bond.txt",
        9,
        {f"mlx5_{n}": (*ACTIVE_400, "InfiniBand") for n in (0, 1, 4, 5, 6, 7, 8, 9)}
        | {"mlx5_bond_0": ("MT41692", "Active", "LinkUp", 200.0, "Ethernet")},
    ),
    listed(
        "ibstat/04-h100-some-disabled.txt",
        12,
        {f"mlx5_{n}": ("MT4125", "Down", "Disabled", 40.0, "Ethernet") for n in (2, 7, 8)}
        | {f"mlx5_{n}": (*ACTIVE_400, "InfiniBand") for n in (0, 3, 4, 5, 6, 9, 10, 11)},
    ),
    listed(
        "ibstat/05-h100-roce-2-disabled.txt",
        12,
        {f"mlx5_{n}": ("MT4129", "Down", "Disabled", 40.0, "Ethernet") for n in (5, 11)}
        | {f"mlx5_{n}": (*ACTIVE_400, "Ethernet") for n in (0, 3, 4, 6, 9, 10)}
        | {f"mlx5_{n}": ("MT4125", "Active", "LinkUp", 100.0, "Ethernet") for n in (1, 2, 7, 8)},
    ),
    listed(
        "ibstat/06-h100-polling-and-disabled.txt",
        12,
        {
            "mlx5_11": ("MT4129", "Down", "Polling", 40.0, "Ethernet"),
            "mlx5_5": ("MT4129", "Down", "Disabled", 40.0, "Ethernet"),
        },
    ),
    listed(
        "ibstat/07-a100-ibpanic-partial-exit255.txt",
        8,
        {f"mlx5_{n}": ("MT4124", "Active", "LinkUp", 200.0, "InfiniBand") for n in range(8)},
        kind="tool_error",
    ),
    listed(
        "ibstat/08-ibstatus-a100-8ib.txt",
        9,  # the index says 8: it leaves out mlx5_8, which is Ethernet
        {
            "mlx5_0": (None, "ACTIVE", "LinkUp", 200.0, "InfiniBand"),
            "mlx5_8": (None, "ACTIVE", "LinkUp", 40.0, "Ethernet"),
        },
        tool="ibstatus",
    ),
]

ROCE_LOG = {
    "nccl_version": "2.26.2+cuda12.2",
    "transport": "RoCE",
    "hcas": ["mlx5_2:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1"],
    "socket_fallback": False,
}
# (file, tool, valid, expected values of the first output)
OTHER_TOOLS: list[tuple[str, str, bool, dict[str, Any]]] = [
    (
        "nccl_log/01-tcp-socket-2.26.2.txt",
        "nccl-log",
        True,
        {"nccl_version": "2.26.2+cuda12.2", "transport": "Socket", "hcas": [], "gdr": False},
    ),
    ("nccl_log/02-rdma-roce-4nic-2.26.2.txt", "nccl-log", True, ROCE_LOG),
    ("nccl_log/03-gdrdma-roce-4nic-2.26.2.txt", "nccl-log", True, {**ROCE_LOG, "gdr": True}),
    ("nvidia_smi/02-q-535.129-a10.txt", "nvidia-smi-query", True, {"driver_version": "535.129.03"}),
    ("nvidia_smi/03-q-535.154-8gpu.txt", "nvidia-smi-query", True, {"driver_version": "535.154.05"}),
    ("nvidia_smi/04-q-535.183-invalid.txt", "nvidia-smi-query", False, {"driver_version": "535.183.01"}),
    ("nvidia_smi/05-q-560.35-1gpu.txt", "nvidia-smi-query", True, {"driver_version": "560.35.03"}),
    ("nvidia_smi/06-table-550.90.txt", "nvidia-smi-query", True, {"driver_version": "550.90.07"}),
    ("nvidia_smi/07-nvlink-status-a100.txt", "nvidia-smi-nvlink", True, {"gpu": 0}),
    ("dcgmi/02-health.json", "dcgmi", True, {"health": "Healthy", "tests": []}),
    ("dcgmi/03-diag-r1.json", "dcgmi", True, {"tests.0.category": "Deployment", "tests.8.result": "Pass"}),
    ("dcgmi/04-diag-r3.json", "dcgmi", True, {"tests.15.result": "Pass", "tests.12.result": "Skip"}),
]
GPUS = {"02-q-535.129-a10.txt": 1, "03-q-535.154-8gpu.txt": 8, "05-q-560.35-1gpu.txt": 1}
# Not what the tool's parser reads: a list of devices, a matrix of peer access.
REFUSED = [
    ("dcgmi/01-discovery-t4.txt", "dcgmi"),
    ("nvidia_smi_topo/10-k80-p2p-status-matrix.txt", "nvidia-smi-topo"),
]

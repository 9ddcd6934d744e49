# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes: what a node's GPUs say."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import Cause

TABLE = (
    Cause("gpu_missing", "the node has fewer GPUs on its PCI bus than the inventory declares",
          "Power the host off and on, which a reboot does not replace; if it stays away, look at its seat "
          "and cables and send it in. Correct `expected_gpus` if the node is built so.",
          "a GPU that fell off the bus (XID 79)", "lspci -D -d 10de:"),
    Cause("gpu_extra", "the node has more GPUs on its PCI bus than the inventory declares",
          "Correct `count` of `expected_gpus` in the inventory.", "an inventory that is older than the node",
          "lspci -D -d 10de:"),
    Cause("gpu_driver_missing", "NVIDIA's driver is not loaded, and the inventory declares GPUs",
          "Run `railyard provision` (role nvidia_driver), and reboot where it says that one waits.",
          "a kernel for which the driver was not built", "dmesg"),
    Cause("gpu_lost", "a GPU is on the PCI bus, but its driver cannot use it",
          "Drain the node and reset the GPU (`nvidia-smi --gpu-reset -i INDEX`), or reboot; if it comes "
          "back, send the GPU in.",
          "a GPU that stopped answering", "dmesg"),
    Cause("gpu_model_differs", "a GPU is of another model than it should be",
          "Correct `model` of `expected_gpus`, or declare it in a group of the nodes that are built so.",
          "a part that was exchanged for another", "nvidia-smi -L"),
    Cause("gpu_driver_differs", "the node runs its GPUs by another driver than it should",
          "Run `railyard provision` for it; where nodes are meant to differ, declare `driver` of "
          "`expected_gpus` in their groups.",
          "a node that was not rebooted after an update of the driver", "cat /proc/driver/nvidia/version"),
    Cause("gpu_xid", "a GPU or its switch reported a fault that restarting the application does not fix",
          "Drain the node and do what the message says (NVIDIA's Xid catalogue, "
          "https://docs.nvidia.com/deploy/xid-errors, has the steps by number); then validate again.",
          "failing hardware", "dmesg"),
    Cause("xid_unknown", "the kernel's log could not be read, so that XIDs are not known",
          "Run as root on the node itself: a container does not see the kernel's log.",
          "a container, or a connection without root", "dmesg"),
    Cause("gpu_memory_bad",
          "the memory of a GPU has errors that ECC could not correct, or waits for its repair",
          "Drain the node and reset the GPU (`nvidia-smi --gpu-reset -i INDEX`), or reboot, and validate "
          "again; send the GPU in if a row could not be remapped, or errors come back.",
          "failing memory of the GPU", "nvidia-smi -q"),
    Cause("gpu_slowed", "a GPU was slowed down by its own hardware",
          "Look at the air (fans, inlet temperature, dust, blanking panels) for heat, at power supplies for "
          "the power brake.",
          "too little cooling, or a power supply that failed", "nvidia-smi -q"),
    Cause("gpu_power_capped", "the power limit of a GPU is not the one that it should have",
          "Set it (`power_limit_w` of `nvidia_driver_settings`, or nvidia-smi -pl), or declare `power_cap_w` "
          "of `expected_gpus` where the cap is meant.",
          "a cap that somebody left", "nvidia-smi -q"),
    Cause("gpu_pcie_narrow", "the PCIe link of a GPU has fewer lanes than GPU and slot can do",
          "Reseat the GPU or its riser and look at its cables; then power the host off and on.",
          "a card or riser that is not seated, or a damaged lane", "lspci -vv -s PCI"),
    Cause("gpu_nvlink_down", "a GPU has fewer or more active NVLinks than it should",
          "Look at nvidia-fabricmanager and its log on nodes with NVSwitch (`systemctl status "
          "nvidia-fabricmanager`), else reseat the bridge; then reset the GPUs.",
          "the fabric manager does not run, or a link failed", "nvidia-smi nvlink -s"),
    Cause("gpu_nvlink_slow", "NVLinks of GPUs that are alike run at different speeds",
          "Reset the GPUs, or reboot; if it stays, send the GPU of the slow link in.",
          "a link that trained low", "nvidia-smi nvlink -s"),
    Cause("gpudirect_unfit", "the node cannot test RDMA with its GPUs' memory",
          "Do what the message says, or leave out `fabric_policy.gpudirect_perftest_folder`, which asks it.",
          "a perftest that was built without CUDA, as distributions' are", "nvidia-smi topo -m"),
    Cause("gpu_path_slow", "GPU memory is slow over a rail that is fast from host memory",
          "Look at the check `gpu_pcie` and at node_tuning's findings on PCI Express: ACS has to be off on "
          "the bridges between GPU and card, the IOMMU off or passing through; then validate again.",
          "ACS or an IOMMU, which send what passes between GPU and card up to the processor",
          "lspci -vv -s PCI"),
    Cause("gpu_unknown", "what the node's GPUs say is not known",
          "Fix what the message names; `nvidia-smi` has to answer on the node, as root, within 10 s.",
          "nvidia-smi is missing, hangs, or does not fit the driver that is loaded", "nvidia-smi"),
    Cause("gpu_unfit", "the node's GPUs cannot be measured as they are",
          "Do what the message names; the GPU checks (`expected_gpus` in the inventory) say more of each "
          "GPU.",
          "a GPU or its driver that is not usable", "nvidia-smi"),
    Cause("gpu_wrong", "what the node's GPUs exchanged did not arrive as it was sent",
          "Drain the node; run the tool with fewer GPUs each time until it is known which is in all "
          "bad runs.",
          "a GPU, an NVLink or a PCI Express link that corrupts data", "dcgmi diag -r 3"),
    Cause("gpu_link_apart", "a link of a GPU is far slower than the like links of its node",
          "Compare that GPU's slot, riser, NVLinks and errors with its neighbours': see gpu_pcie and "
          "gpu_nvlink.",
          "a link that trained narrow or low, or a damaged cable or bridge", "nvidia-smi topo -m"),
    Cause("gpu_differs", "the node's GPUs are built in otherwise than those of its peers",
          "Compare `nvidia-smi topo -m` and `nvidia-smi nvlink -s` with a peer's: a GPU that lost its "
          "NVLinks is joined by another word. If the node is meant to differ, declare its `expected_gpus` in "
          "a group of its own.",
          "NVLinks, a switch or a GPU that did not come up", "nvidia-smi topo -m"),
    Cause("gpu_node_apart", "the node's GPUs are far slower than those of like nodes",
          "Compare the node with its peers: NVLinks, PCI Express, ACS and IOMMU, power limits, NCCL's "
          "settings.",
          "a link, a setting or a BIOS that differs from the other nodes'", "nvidia-smi topo -m"),
)  # fmt: skip

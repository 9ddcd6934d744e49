# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes found by the checks of a node's GPUs."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import Cause

TABLE = (
    Cause("gpu_missing", "the node has fewer GPUs on its PCI bus than the inventory declares",
          "Power the host off and on; a reboot is not enough. If the GPU stays missing, check its seat "
          "and cables and send it in. Correct `expected_gpus` if the node has fewer GPUs by design.",
          "a GPU that fell off the bus (XID 79)", "lspci -D -d 10de:"),
    Cause("gpu_extra", "the node has more GPUs on its PCI bus than the inventory declares",
          "Correct `count` of `expected_gpus` in the inventory.", "an inventory that is older than the node",
          "lspci -D -d 10de:"),
    Cause("gpu_driver_missing", "NVIDIA's driver is not loaded, and the inventory declares GPUs",
          "Run `railyard provision` (role nvidia_driver), and reboot if it reports that a reboot is needed.",
          "a kernel for which the driver was not built", "dmesg"),
    Cause("gpu_lost", "a GPU is on the PCI bus, but its driver cannot use it",
          "Drain the node and reset the GPU (`nvidia-smi --gpu-reset -i INDEX`), or reboot; if it comes "
          "back, send the GPU in.",
          "a GPU that stopped answering", "dmesg"),
    Cause("gpu_model_differs", "a GPU is not of the expected model",
          "Correct `model` of `expected_gpus`, or declare it in a group for the nodes with this model.",
          "a part that was exchanged for another", "nvidia-smi -L"),
    Cause("gpu_driver_differs", "the node does not run the expected GPU driver",
          "Run `railyard provision` for it; if nodes are intended to differ, declare `driver` of "
          "`expected_gpus` in their groups.",
          "a node that was not rebooted after an update of the driver", "cat /proc/driver/nvidia/version"),
    Cause("gpu_xid", "a GPU or its switch reported a fault that restarting the application does not fix",
          "Drain the node and do what the message says (NVIDIA's Xid catalogue, "
          "https://docs.nvidia.com/deploy/xid-errors, has the steps by number); then validate again.",
          "failing hardware", "dmesg"),
    Cause("xid_unknown", "the kernel's log could not be read, so XIDs are not known",
          "Run as root on the node itself: a container does not see the kernel's log.",
          "a container, or a connection without root", "dmesg"),
    Cause("gpu_memory_bad",
          "the memory of a GPU has errors that ECC could not correct, or waits for its repair",
          "Drain the node and reset the GPU (`nvidia-smi --gpu-reset -i INDEX`), or reboot, and validate "
          "again; send the GPU in if a row could not be remapped, or errors come back.",
          "failing memory of the GPU", "nvidia-smi -q"),
    Cause("gpu_slowed", "a GPU was slowed down by its own hardware",
          "For heat, check the cooling (fans, inlet temperature, dust, blanking panels); for the power "
          "brake, check the power supplies.",
          "too little cooling, or a power supply that failed", "nvidia-smi -q"),
    Cause("gpu_power_capped", "the power limit of a GPU is not the expected one",
          "Set it (`power_limit_w` of `nvidia_driver_settings`, or nvidia-smi -pl), or declare `power_cap_w` "
          "of `expected_gpus` if the cap is intended.",
          "a cap that was set by hand and forgotten", "nvidia-smi -q"),
    Cause("gpu_pcie_narrow", "the PCIe link of a GPU has fewer lanes than GPU and slot support",
          "Reseat the GPU or its riser and look at its cables; then power the host off and on.",
          "a card or riser that is not seated, or a damaged lane", "lspci -vv -s PCI"),
    Cause("gpu_nvlink_down", "a GPU does not have the expected number of active NVLinks",
          "Look at nvidia-fabricmanager and its log on nodes with NVSwitch (`systemctl status "
          "nvidia-fabricmanager`), else reseat the bridge; then reset the GPUs.",
          "the fabric manager does not run, or a link failed", "nvidia-smi nvlink -s"),
    Cause("gpu_nvlink_slow", "NVLinks of equal GPUs run at different speeds",
          "Reset the GPUs, or reboot; if it stays, send the GPU of the slow link in.",
          "a link that trained at a lower speed", "nvidia-smi nvlink -s"),
    Cause("gpudirect_unfit", "the node cannot test RDMA with its GPUs' memory",
          "Do what the message says, or remove `fabric_policy.gpudirect_perftest_folder`, which plans this "
          "test.",
          "a perftest that was built without CUDA, as distributions' are", "nvidia-smi topo -m"),
    Cause("gpu_path_slow", "GPU memory is slow over a rail that is fast from host memory",
          "Look at the check `gpu_pcie` and at node_tuning's findings on PCI Express: ACS has to be off on "
          "the bridges between GPU and card, the IOMMU off or passing through; then validate again.",
          "ACS or an IOMMU, which route the traffic between GPU and card through the processor",
          "lspci -vv -s PCI"),
    Cause("gpu_unknown", "the state of the node's GPUs is not known",
          "Fix what the message names; `nvidia-smi` has to answer on the node, as root, within 10 s.",
          "nvidia-smi is missing, hangs, or does not fit the driver that is loaded", "nvidia-smi"),
    Cause("gpu_unfit", "the node's GPUs cannot be measured as they are",
          "Do what the message says; the GPU checks (`expected_gpus` in the inventory) report more about "
          "each GPU.",
          "a GPU or its driver that is not usable", "nvidia-smi"),
    Cause("gpu_wrong", "data that the node's GPUs exchanged arrived corrupted",
          "Drain the node; run the tool with fewer GPUs each time to find the one that all bad runs have "
          "in common.",
          "a GPU, an NVLink or a PCI Express link that corrupts data", "dcgmi diag -r 3"),
    Cause("gpu_link_apart", "a link of a GPU is far slower than comparable links of its node",
          "Compare that GPU's slot, riser, NVLinks and errors with its neighbours': see gpu_pcie and "
          "gpu_nvlink.",
          "a link that trained with fewer lanes or at a lower speed, or a damaged cable or bridge",
          "nvidia-smi topo -m"),
    Cause("gpu_differs", "the topology of the node's GPUs differs from that of its peers",
          "Compare `nvidia-smi topo -m` and `nvidia-smi nvlink -s` with a peer's: a GPU that lost its "
          "NVLinks shows another connection type. If the node is intended to differ, declare its "
          "`expected_gpus` in a separate group.",
          "NVLinks, a switch or a GPU that did not come up", "nvidia-smi topo -m"),
    Cause("gpu_node_apart", "the node's GPUs are far slower than those of comparable nodes",
          "Compare the node with its peers: NVLinks, PCI Express, ACS and IOMMU, power limits, NCCL's "
          "settings.",
          "a link, a setting or a BIOS that differs from the other nodes'", "nvidia-smi topo -m"),
)  # fmt: skip

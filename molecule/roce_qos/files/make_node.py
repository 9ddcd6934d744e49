"""Gives a lab node two ports that look like a ConnectX under the vendor's driver, and the recorder.

Usage: make_node.py RECORDER FOLDER. FOLDER gets `root/sys` (the kernel's files), programs and their state.
Standard library only: it runs on the node.
"""

import json
import os
import sys


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as handle:
        handle.write(text)


def main(recorder, folder):
    sys_root = os.path.join(folder, "root/sys")
    for number, netdev in enumerate(("ens6", "ens6d1")):
        card = f"{sys_root}/devices/0000:1{number}:00.0"
        device = f"mlx5_{number}"
        os.makedirs(f"{card}/infiniband/{device}")
        os.makedirs(f"{sys_root}/bus/pci/drivers/mlx5_core", exist_ok=True)
        os.symlink(f"{sys_root}/bus/pci/drivers/mlx5_core", f"{card}/driver")
        net = f"{sys_root}/class/net/{netdev}"
        write(f"{net}/address", f"02:00:00:00:00:0{number}\n")
        os.symlink(card, f"{net}/device")
        write(f"{sys_root}/class/infiniband/{device}/ports/1/gid_attrs/ndevs/0", netdev + "\n")
        write(f"{sys_root}/class/infiniband/{device}/tc/1/traffic_class", "\n")
        write(f"{sys_root}/kernel/config/rdma_cm/{device}/ports/1/default_roce_tos", "0\n")
        for side in ("roce_np", "roce_rp"):
            write(f"{net}/ecn/{side}/enable/3", "0\n")
        for name in ("cnp_dscp", "cnp_802p_prio"):
            write(f"{net}/ecn/roce_np/{name}", "0\n")
    write(f"{folder}/state.json", json.dumps({"sys_root": sys_root, "ports": {"ens6": {}, "ens6d1": {}}}))
    with open(recorder, encoding="utf-8") as handle:
        text = handle.read()
    for name in ("mlnx_qos", "ethtool"):
        write(f"{folder}/{name}", "#!/usr/bin/python3\n" + text)
        os.chmod(f"{folder}/{name}", 0o755)
        # The first folder of PATH, of sudo and of systemd.
        os.symlink(f"{folder}/{name}", f"/usr/local/sbin/{name}")
    # In a container modprobe would load into the host.
    drop_in = "/etc/systemd/system/railyard-roce-qos@.service.d/test.conf"
    write(drop_in, "[Service]\nExecStartPre=\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers as nvidia-smi from nvidia-smi.json beside it: --query-gpu, --query-remapped-rows, nvlink, topo.

Forms: NVIDIA's own help (`nvidia-smi --help-query-gpu`, `nvidia-smi nvlink -h`), as tests/support/captures.py
lists captures of them. Copied into an executable; never imported.
"""

import json
import os
import sys

UNITS = ("W", "MHz", "MiB", "%")


def query(gpus, fields):
    unknown = [field for field in fields if not any(field in gpu for gpu in gpus)]
    if unknown:
        print(f'Field "{unknown[0]}" is not a valid field to query.\n')
        sys.exit(2)
    heads = []
    for field in fields:
        units = {value.split()[-1] for gpu in gpus for value in [gpu.get(field, "")] if value.split()}
        unit = next((one for one in UNITS if one in units), None)
        heads.append(f"{field} [{unit}]" if unit else field)
    print(", ".join(heads))
    for gpu in gpus:
        print(", ".join(gpu.get(field, "[N/A]") for field in fields))


def nvlink(told, option):
    for index, gpu in enumerate(told["gpus"]):
        print(f"GPU {index}: {gpu['name']} (UUID: {gpu['uuid']})")
        for link in range(told["nvlinks"]):
            if option == "-s":
                is_off = link in told["inactive"].get(str(index), [])
                print(f"\t Link {link}: " + ("<inactive>" if is_off else f"{told['speed']:g} GB/s"))
            else:
                for kind in ("Replay", "Recovery", "CRC"):
                    print(f"\t Link {link}: {kind} Errors: 0")


def topology(told):
    if told["topology"]:
        print(told["topology"])
        return
    names = [f"GPU{index}" for index in range(len(told["gpus"]))]
    print("\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]))
    word = f"NV{told['nvlinks']}" if told["nvlinks"] else "SYS"
    for name in names:
        cells = [" X " if other == name else word for other in names]
        print("\t".join([name, *cells, "0-1", "0", "N/A"]))


def main():
    with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "nvidia-smi.json")) as file:
        told = json.load(file)
    words = sys.argv[1:]
    if words[:1] and words[0].startswith(("--query-gpu=", "--query-remapped-rows=")):
        query(told["gpus"], words[0].partition("=")[2].split(","))
    elif words[:1] == ["nvlink"] and words[1:] in (["-s"], ["-e"]):
        nvlink(told, words[1])
    elif words == ["topo", "-m"]:
        topology(told)
    else:
        sys.exit(f"Invalid combination of input arguments: {' '.join(words)}")


main()

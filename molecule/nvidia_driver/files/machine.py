#!/usr/bin/python3
"""Stands in for modprobe, nvidia-smi and nvidia-persistenced, by its name; keeps a log of its calls.

The kernel's files that it changes lie on file systems of the test's own, mounted over the node's.
"""

import json
import pathlib
import shutil
import signal
import subprocess
import sys

STATE = pathlib.Path("/run/stand-in")
MODULES = pathlib.Path("/sys/module")
KERNEL = "6.1.0-99-amd64"
GPU = {"power": 300.0, "ecc_current": "Enabled", "ecc_pending": "Enabled"}
PCI = "00000000:17:00.0"


def counted():
    """Write the holders of nvidia and its users, as the kernel counts them."""
    core = MODULES / "nvidia"
    if core.is_dir():
        shutil.rmtree(core / "holders", ignore_errors=True)
        (core / "holders").mkdir()
        others = [one.name for one in MODULES.glob("nvidia_*")]
        for name in others:
            (core / "holders" / name).touch()
        (core / "refcnt").write_text(f"{len(others)}\n")


def unload(names):
    for name in names:
        folder = MODULES / name
        users = int((folder / "refcnt").read_text())
        if users > len(list((folder / "holders").iterdir())) or (folder / "holders" / "nvidia_uvm").exists():
            sys.exit(f"modprobe: FATAL: Module {name} is in use.")
        shutil.rmtree(folder)
        counted()


def load(names):
    if (STATE / "rejects").exists():
        sys.exit("modprobe: ERROR: could not insert 'nvidia_current': Key was rejected by service")
    for name in names:
        folder = MODULES / name
        (folder / "holders").mkdir(parents=True, exist_ok=True)
        (folder / "refcnt").write_text("0\n")
        argv = ["modinfo", "-k", KERNEL, "-F", "version", "nvidia-current"]
        (folder / "version").write_text(
            subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        )
    counted()


def query(fields):
    """Answer in CSV as nvidia-smi does."""
    gpu = json.loads((STATE / "gpu.json").read_text()) if (STATE / "gpu.json").exists() else GPU
    known = {
        "pci.bus_id": PCI,
        "uuid": "GPU-0a1b2c3d-0000-1111-2222-333344445555",
        "name": "Tesla V100-SXM2-16GB",
        "persistence_mode": "Enabled" if (STATE / "persistence").exists() else "Disabled",
        "power.limit": f"{gpu['power']:.2f} W",
        "power.default_limit": "300.00 W",
        "power.max_limit": "300.00 W",
        "ecc.mode.current": gpu["ecc_current"],
        "ecc.mode.pending": gpu["ecc_pending"],
    }
    units = {"power.limit": " [W]", "power.default_limit": " [W]", "power.max_limit": " [W]"}
    print(", ".join(field + units.get(field, "") for field in fields))
    print(", ".join(known.get(field, "[N/A]") for field in fields))


def change(option, value):
    if (STATE / "deaf").exists():
        print(f"Changing power management limit is not supported for GPU: {PCI}.")
        print("Treating as warning and moving on.")
    else:
        gpu = json.loads((STATE / "gpu.json").read_text()) if (STATE / "gpu.json").exists() else dict(GPU)
        if option == "-pl":
            gpu["power"] = float(value)
        elif option == "-e":
            gpu["ecc_pending"] = "Enabled" if value == "1" else "Disabled"
        (STATE / "gpu.json").write_text(json.dumps(gpu))
    print("All done.")


def persist(arguments):
    """Keep persistence mode on, or not, as long as this runs."""
    mode = STATE / "persistence"
    if "--no-persistence-mode" not in arguments:
        mode.touch()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    pathlib.Path("/run/nvidia-persistenced/socket").touch()
    try:
        signal.pause()
    finally:
        mode.unlink(missing_ok=True)


def main():
    name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    if name == "nvidia-persistenced":
        persist(arguments)
    if not arguments[0].startswith("--query"):
        with (STATE / "log").open("a") as log:
            log.write(f"{name} {' '.join(arguments)}\n")
    if name == "modprobe":
        {"-r": unload, "-a": load}[arguments[0]](arguments[1:])
    elif arguments[0].startswith("--query-gpu="):
        query(arguments[0].partition("=")[2].split(","))
    else:
        change(arguments[2], arguments[3])


if __name__ == "__main__":
    main()

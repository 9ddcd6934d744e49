"""A machine with two H100s for tests/gpu: kernel files, stand-ins for nvidia-smi and Python with torch.

Values are those of a public capture (NVIDIA/k8s-test-infra, qx-h100.xml in
tests/e2e/go/assertions/nvidiasmi/testdata/hardware: 8 x H100 80GB HBM3, driver 580.105.08). It has its serial
numbers and UUIDs taken out; those here are made up. Forms: `nvidia-smi --help-query-gpu` and the product's
fixtures. NCCL's log has the lines of public logs of one rank (NVIDIA/nccl-tests issue 217) with other names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from support.machines import machine

HOST, USER = "trn-h100-07", "jbloggs42"
IPV4, IPV6, MAC = "10.52.7.19", "fe80::9a03:9bff:fe12:3456", "98:03:9b:12:34:56"
DRIVER = "580.105.08"
MODULE = (
    f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build  (root@{HOST})  "
    "Fri Aug  7 10:11:16 UTC 2026"
)
ADDRESSES = ("0000:53:00.0", "0000:64:00.0")
# Of the same capture, as the gallery's machine with the same GPUs has it.
_H100 = machine.read(Path(__file__).resolve().parents[2] / "machines/aws-p5").node.nvidia.fields
_UNITS = {"power.": "W", "clocks.": "MHz"}


def gpu(index: int) -> dict[str, str]:
    """Return what nvidia-smi prints of a GPU, by the names of its fields."""
    address = f"0000{ADDRESSES[index]}".upper()
    own = {"pci.bus_id": address, "gpu_bus_id": address, "index": str(index), "uuid": uuid(index)}
    return {**_H100, **own, "remapped_rows.pending": "No", "remapped_rows.failure": "No"}


def uuid(index: int) -> str:
    """Return a made-up UUID."""
    return f"GPU-7c1f40d2-93ab-4e6d-8f05-d1c2b3a4955{index}"


def serial(index: int) -> str:
    """Return a made-up serial number."""
    return f"165092403178{index}"


_LINKS = "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(18))
_NVLINK = "".join(
    f"GPU {{0}}: NVIDIA H100 80GB HBM3 (UUID: {{1}})\n{_LINKS}".format(i, uuid(i)) for i in (0, 1)
)
_COUNTERS = "".join(
    f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: {uuid(i)})\n"
    + "".join(
        f"\t Link {link}: {kind} Errors: 0\n" for link in range(18) for kind in ("Replay", "Recovery", "CRC")
    )
    for i in (0, 1)
)
_TOPOLOGY = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV18\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \t0-47,96-143\t0\t\tN/A\n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
)


def log_of_q() -> str:
    """Return the parts of `nvidia-smi -q` that name GPUs."""
    gpus = "".join(
        f"GPU 0000{ADDRESSES[i].upper()}\n"
        f"    Product Name                          : NVIDIA H100 80GB HBM3\n"
        f"    Serial Number                         : {serial(i)}\n"
        f"    GPU UUID                              : {uuid(i)}\n"
        f"    GPU PDI                               : 0x7a1b2c3d4e5f607{i}\n"
        f"    VBIOS Version                         : 96.00.99.00.01\n"
        f"    Board Part Number                     : 692-2G520-0200-000\n"
        f"    Platform Info\n"
        f"        Chassis Serial Number             : N/A\n"
        f"    Processes                             : None\n\n"
        for i in (0, 1)
    )
    return (
        "\n==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Fri Aug 21 08:54:01 2026\n"
        f"Driver Version                            : {DRIVER}\n"
        "CUDA Version                              : 13.0\n\n"
        f"Attached GPUs                             : 2\n{gpus}"
    )


def table() -> str:
    """Return the table of plain `nvidia-smi`, without the lines that no code reads."""
    rule = "+" + "-" * 89 + "+\n"
    head = f"| NVIDIA-SMI {DRIVER}             Driver Version: {DRIVER}     CUDA Version: 13.0     |\n"
    gpus = "".join(
        f"|   {i}  NVIDIA H100 80GB HBM3          On  |   0000{ADDRESSES[i].upper()} Off |{'0 |':>22}\n"
        for i in (0, 1)
    )
    return f"{rule}{head}{rule}{gpus}{rule}{rule}| Processes:{' ' * 78}|\n{rule}"


_COMM = (
    "ncclCommInitRankConfig comm 0x55cc27005c20 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 53000 "
    "commId 0x1c3170e2c1182784"
)
NCCL_LOG = f"""\
{HOST}:12225:12225 [0] NCCL INFO Bootstrap: Using ens49f1np1:{IPV4}<0>
{HOST}:12225:12225 [0] NCCL INFO cudaDriverVersion 13000
{HOST}:12225:12225 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
{HOST}:12225:12255 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
{HOST}:12225:12255 [0] NCCL INFO Failed to open libibverbs.so[.1]
{HOST}:12225:12255 [0] NCCL INFO NET/Socket : Using [0]ens49f1np1:{IPV4}<0> [1]veth1:{IPV6}%veth1<0>
{HOST}:12225:12255 [0] NCCL INFO Using network Socket
{HOST}:12225:12255 [0] NCCL INFO {_COMM} - Init START
{HOST}:12225:12255 [0] NCCL INFO comm 0x55cc27005c20 rank 0 nRanks 1 nNodes 1 localRanks 1 localRank 0 MNNVL 0
{HOST}:12225:12255 [0] NCCL INFO Channel 00/64 : 0
{HOST}:12225:12255 [0] NCCL INFO {_COMM} - Init COMPLETE
"""
_BEGAN = {"t": "began", "torch": "2.9.0", "device": "cuda:0", "name": "NVIDIA H100 80GB HBM3", "cuda": "13.0",
          "nccl": "2.27.5"}  # fmt: skip


def torch_output(**speeds_gbytes_per_s: float) -> dict[str, str]:
    """Return what the programs with torch print, by their task; by default in a Gen5 x16 slot."""
    speeds = {"host_to_device": 55.0, "device_to_host": 54.0, "device_memory": 2600.0, **speeds_gbytes_per_s}
    copies = [
        {"t": "copy", "what": way, "bytes": int(speed * 1e9), "seconds": 1.0, "times": 10, "pinned": True}
        for way, speed in speeds.items()
    ]
    result = {"t": "allreduce", "bytes": 1 << 30, "seconds": 0.5, "times": 4, "wrong": 0}
    size = {
        "t": "size",
        "size_bytes": 4096,
        "iterations": 10,
        "algbw_GBps": 0.3,
        "busbw_GBps": 0.0,
        "wrong": 0,
    }
    swept = {"t": "swept", "call": "all_reduce", "moved_bytes": 0, "left_out_bytes": []}
    return {
        "bandwidth": _marked(_BEGAN, *copies, {"t": "copied"}),
        "allreduce": NCCL_LOG + _marked(_BEGAN, result),
        "collective": NCCL_LOG
        + _marked({"t": "began", "torch": "2.9.0", "ranks": 1, "processes": 1}, size, swept),
    }


def _marked(*lines: dict[str, Any]) -> str:
    return "".join(f"railyard: {json.dumps(line)}\n" for line in lines)


_SMI = """\
#!{python} -IS
import json, sys, time
answers = json.load(open({answers!r}))
words = sys.argv[1:]
if answers.get("hangs"):
    time.sleep(60)
if answers.get("says"):
    print(answers["says"])
    sys.exit(answers.get("status", 0))
if words[:1] and words[0].startswith("--query-compute-apps"):
    sys.exit(0)
if words[:1] and words[0].startswith("--query-"):
    fields = words[0].partition("=")[2].split(",")
    for field in fields:
        if field not in answers["gpus"][0]:
            print('Field "%s" is not a valid field to query.' % field)
            sys.exit(2)
    unit = lambda field: " [" + answers["units"][field] + "]" if field in answers["units"] else ""
    print(", ".join(field + unit(field) for field in fields))
    for gpu in answers["gpus"]:
        print(", ".join(gpu[field] for field in fields))
else:
    sys.stdout.write(answers["texts"][" ".join(words)])
"""
_TORCH = """\
#!{python} -IS
import json, os, signal, sys, time
outputs = json.load(open({outputs!r}))
text = outputs["collective" if sys.argv[1] == "-I" else sys.argv[2]]
if text == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if text == "hang":
    time.sleep(60)
sys.stdout.write(text)
sys.exit("railyard: {{\\"t\\": \\"error\\"" in text)
"""


class GpuMachine:
    """The machine.

    Attributes:
        root: the folder that looks like `/`.
        gpus: what nvidia-smi prints of each GPU.
        smi: how nvidia-smi behaves apart from that: `hangs`, or what it `says` and its `status`.
        torch: what the programs with torch print, by their task; `crash` and `hang` are done.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.gpus = [gpu(0), gpu(1)]
        self.smi: dict[str, Any] = {}
        self.torch = torch_output()
        self.texts = {
            "": table(), "-q": log_of_q(), "nvlink -s": _NVLINK, "nvlink -e": _COUNTERS, "topo -m": _TOPOLOGY,
        }  # fmt: skip
        self.write("etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
        self.show_bus()
        self.log("Linux version 6.8.0", f"NVRM: loading NVIDIA UNIX Open Kernel Module  {DRIVER}")

    def show_bus(self) -> None:
        """Lay out the PCI bus and the module."""
        for address in ADDRESSES:
            folder = f"sys/bus/pci/devices/{address}"
            for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")):
                self.write(f"{folder}/{name}", f"{text}\n")
        self.write("sys/module/nvidia/version", f"{DRIVER}\n")
        self.write("proc/driver/nvidia/version", f"{MODULE}\n")

    def write(self, name: str, text: str) -> Path:
        """Write a file below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def log(self, *texts: str) -> None:
        """Write the kernel's log, as /dev/kmsg gives its records."""
        self.write("dev/kmsg", "".join(f"6,{at},{at * 10**6},-;{text}\n" for at, text in enumerate(texts)))

    def programs(self) -> str:
        """Write the stand-ins; return the path of the interpreter that has torch."""
        units = {name: unit for name in self.gpus[0] for prefix, unit in _UNITS.items()
                 if name.startswith(prefix) and not name.startswith("clocks_")}  # fmt: skip
        answers = {"gpus": self.gpus, "units": units, "texts": self.texts, **self.smi}
        self._program("nvidia-smi", _SMI, answers=answers)
        return str(self._program("python-with-torch", _TORCH, outputs=self.torch))

    def _program(self, name: str, text: str, **data: Any) -> Path:
        [(key, value)] = data.items()
        stored = self.bin / f"{name}.json"
        stored.write_text(json.dumps(value))
        path = self.bin / name
        path.write_text(text.format(python=sys.executable, **{key: str(stored)}))
        path.chmod(0o755)
        return path

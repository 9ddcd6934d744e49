"""Do the steps of a capture; each returns a JSON object, or raises StepError with the reason."""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import program
from ansible_collections.railyard.fabric.plugins.module_utils.collective import packed, sweep
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus, host, kernel_log
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import facts as gpu_facts
from ansible_collections.railyard.fabric.plugins.module_utils.quick import expectation
from ansible_collections.railyard.fabric.plugins.module_utils.quick import main as quick_main
from gpu.capture import forms, torch_program, tree

#: The name of the node in all that is written: the machine's own is private.
NODE = "gpu-node"
NCCL_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
_NCCL_CONF = "etc/nccl.conf"
_MODULE_UTILS = os.path.dirname(str(program.__file__))
_MOST_KERNEL_LINES = 4096
_MOST_OUTPUT_BYTES = 1 << 20
_COLLECTIVE_S, _COLLECTIVE_BYTES = 10.0, 256 << 20


class StepError(Exception):
    """A step did not give a result; the message says why."""


class Place(NamedTuple):
    """Where a capture runs.

    Attributes:
        root: `/`, or a folder that looks like it.
        work: the folder for what steps write.
        python: the interpreter that has torch.
        device: `cuda`, or `cpu` in a rehearsal.
    """

    root: str
    work: str
    python: str
    device: str

    def path(self, name: str) -> str:
        """Return the path of a file in the work folder."""
        return os.path.join(self.work, name)


def node(place: Place) -> dict[str, Any]:
    """Describe the machine: kernel, Python, NVIDIA's PCI functions and module, NCCL's settings."""
    reader = tree.reader_of(place.root)
    return {
        "os": host.os_release(reader),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "is_root": os.geteuid() == 0,
        "is_container": _is_container(place.root),
        "functions": tree.functions(reader),
        "driver": reader.text(reader.sys("module", "nvidia", "version")),
        "module": reader.text(reader.proc("driver", "nvidia", "version")),
    }


def _is_container(root: str) -> bool:
    """Tell whether this is a container, by what Docker, Podman, systemd, Kubernetes or an overlay leave."""
    marks = [os.path.join(root, name) for name in (".dockerenv", "run/.containerenv")]
    mounts = tree.reader_of(root).text(os.path.join(root, "proc/mounts")) or ""
    return (
        any(map(os.path.exists, marks))
        or any(name in os.environ for name in ("container", "KUBERNETES_SERVICE_HOST"))
        or any(line.split()[1:3] == ["/", "overlay"] for line in mounts.splitlines())
    )


def settings(place: Place) -> str:
    """Return the settings of NCCL that hold here, as an env file; those of the capture come last."""
    lines = []
    try:
        with open(os.path.join(place.root, _NCCL_CONF), encoding="utf-8", errors="replace") as handle:
            lines += handle.read(_MOST_OUTPUT_BYTES).splitlines()
    except OSError:
        pass
    lines += [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NCCL_")]
    lines += [f"{name}={value}" for name, value in NCCL_DEBUG.items()]
    return "\n".join(lines) + "\n"


def nvidia_smi(place: Place) -> dict[str, Any]:
    """Read the node's GPUs as the facts do, and keep what nvidia-smi printed."""
    reader = tree.reader_of(place.root)
    found = gpus.read(reader, _recorder(place).ask)
    if found["rows"] or found["errors"].get("rows"):
        return found
    # A container may show nvidia-smi and hide the bus: the forms are recorded all the same.
    stand_in = tree.lay(place.path("stand-in"), [_ANY_GPU], "0", None)
    gpus.read(stand_in, _recorder(place).ask)
    return found


_ANY_GPU = {"pci": "0000:01:00.0", "device": 0, "class": 0x0302, "files": {}}


def gpu_info(place: Place) -> dict[str, Any]:
    """Do what the module gpu_info does."""
    reader, recorder = tree.reader_of(place.root), _recorder(place)
    found = gpu_facts.collect(reader, recorder.run, place.root)
    if found["driver"]["loaded"] is None:
        gpu_facts.collect(tree.lay(place.path("stand-in"), [_ANY_GPU], "0", None), recorder.run, place.root)
    return found


def other_forms(place: Place) -> dict[str, Any]:
    """Run the forms that neither of the two above ran."""
    _recorder(place).ask_the_rest([*forms.in_sources(_MODULE_UTILS), *map(list, forms.PASTED)])
    return {}


def kernel_lines(place: Place) -> dict[str, Any]:
    """Keep the kernel's records of GPUs, and what the product reads in the log."""
    try:
        log = kernel_log.read(place.root)._asdict()
    except kernel_log.LogError as error:
        raise StepError(f"the kernel log cannot be read: {error}") from error
    return {**log, "records": _records(os.path.join(place.root, kernel_log.DEVICE))}


def _records(path: str) -> list[str]:
    """Return the log's records of NVIDIA's driver as the kernel gives them, read apart from the product."""
    found: list[str] = []
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        rest = b""
        while len(found) < _MOST_KERNEL_LINES:
            try:
                data = os.read(handle, 8192)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # the ring went on over the next record
                    continue
                raise
            lines = (rest + data).split(b"\n")
            rest = lines.pop() if data else b""
            found += [
                line.decode("utf-8", "replace") for line in lines if b"NVRM: " in line or b"SXid " in line
            ]
            if not data:
                break
    finally:
        os.close(handle)
    return found[:_MOST_KERNEL_LINES]


def quick(place: Place) -> dict[str, Any]:
    """Pack railyard-quick as its module does, and run it with the GPUs that the bus shows as expected."""
    reader = tree.reader_of(place.root)
    on_bus = [one for one in tree.functions(reader) if one["class"] >> 8 == 0x03]
    _write(place.path("quick.pyz"), program.build(_below(quick_main.__name__), program.loaded))
    expected = {
        "schema": expectation.SCHEMA, "node": NODE, "rails": [], "governor": "", "transport": "tcp",
        "node_class": "hardware", "gpus": {"count": len(on_bus)},
    }  # fmt: skip
    _write(place.path("expected.json"), json.dumps(expected).encode())
    argv = [sys.executable, "-I", place.path("quick.pyz"), "--expect", place.path("expected.json"), "--json",
            "--no-keep", "--folder", place.path("looks"), "--root", place.root]  # fmt: skip
    status, text = run_program(argv, place.path("quick.txt"), 30.0)
    try:
        said = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise StepError(f"railyard-quick ended with {status}: {text.strip()[-300:]}") from None
    return {"exit_status": status, **said}


def _below(name: str) -> str:
    return name[len(program.PACKAGE) + 1 :]


def bandwidth(place: Place) -> dict[str, Any]:
    """Measure copies between host and GPU, and inside the GPU's memory."""
    lines = _torch(place, "bandwidth", "bandwidth.txt", {}, 80.0)
    copies = [line for line in lines if line.get("t") == "copy"]
    if not any(line.get("t") == "copied" for line in lines):
        raise StepError("the program ended before all copies were checked")
    return {"torch": lines[0], "copies": copies}


def nccl(place: Place) -> dict[str, Any]:
    """Do an all-reduce of one rank; NCCL's log goes to the archive."""
    lines = _torch(place, "allreduce", "nccl.log", NCCL_DEBUG, 90.0)
    done = next((line for line in lines if line.get("t") == "allreduce"), None)
    if done is None:
        raise StepError("the program ended without a result")
    return {"torch": lines[0], "allreduce": done}


def _torch(
    place: Place, task: str, output: str, environment: Mapping[str, str], limit_s: float
) -> list[dict[str, Any]]:
    argv = [place.python, str(torch_program.__file__), task, place.device]
    ours = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith("collections"))}
    status, text = run_program(argv, place.path(output), limit_s, {**environment, **ours})
    lines = packed.lines(text)
    error = next((line for line in lines if line.get("t") == "error"), None)
    if error is not None:
        raise StepError(str(error.get("message")))
    if status or not lines or lines[0].get("t") != "began":
        raise StepError(f"{task} ended with {status}: {text.strip()[-300:]}")
    return lines


def collective(place: Place) -> dict[str, Any]:
    """Run the product's own program of a collective, as a job of one node and one rank."""
    is_cpu = place.device == "cpu"
    orders = {
        "task": "allreduce", "backend": "gloo" if is_cpu else "nccl", "node": NODE, "nodes": [NODE],
        "processes": 1, "meet": [["127.0.0.1"], _free_port()], "secret": os.urandom(16).hex(),
        "netdevs": ["lo"] if is_cpu else [],
        "environment": {} if is_cpu else NCCL_DEBUG, "sizes": sweep.sizes_up_to(_COLLECTIVE_BYTES),
        "duration_s": _COLLECTIVE_S, "wait_s": 60.0, "limit_s": 60.0,
    }  # fmt: skip
    descriptor = packed.opened(orders)
    try:
        status, text = run_program(
            packed.argv(place.python), place.path("collective.log"), 90.0, stdin=descriptor
        )
    finally:
        os.close(descriptor)
    lines = packed.lines(text)
    error = next((line for line in lines if line.get("t") == "error"), None)
    if error is not None:
        raise StepError(f"{error.get('kind')}: {error.get('message')}")
    if not lines or lines[-1].get("t") != "swept":
        raise StepError(f"it ended with {status}: {text.strip()[-300:]}")
    return {"exit_status": status, "lines": lines}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run_program(
    argv: Sequence[str],
    output: str,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> tuple[int, str]:
    """Run a program, its output in a file; return its status and output.

    It is of the process group of the step, all of which is killed when the step has ended (`bounded.call`).

    Raises:
        StepError: there is no such program, or it did not end in time.
    """
    # A log that a site sends to another file would be missing here.
    ours = {name: value for name, value in os.environ.items() if name != "NCCL_DEBUG_FILE"}
    with open(output, "wb") as handle:
        try:
            process = subprocess.Popen(
                argv, stdin=stdin, stdout=handle, stderr=subprocess.STDOUT,
                env={**ours, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
            )  # fmt: skip
        except OSError as error:
            raise StepError(f"{argv[0]}: {error.strerror or error}") from error
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise StepError(f"it did not end within {limit_s:g} s") from None
    with open(output, "rb") as handle:
        return status, handle.read(_MOST_OUTPUT_BYTES).decode("utf-8", errors="replace")


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as handle:
        handle.write(data)


def _recorder(place: Place) -> forms.Recorder:
    return forms.Recorder(place.path("forms.jsonl"))


def has_gpu(place: Place) -> bool:
    """Tell whether the bus shows a GPU of NVIDIA, or nvidia-smi lists one."""
    reader = tree.reader_of(place.root)
    if any(one["class"] >> 8 == 0x03 for one in tree.functions(reader)):
        return True
    listed = [one for one in forms.read(place.path("forms.jsonl")) if one["argv"][1:2] and not one["error"]]
    return any(one["status"] == 0 and one["argv"][1].startswith("--query-gpu=") for one in listed)


def begun_at() -> str:
    """Return the time in UTC, as archives state it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

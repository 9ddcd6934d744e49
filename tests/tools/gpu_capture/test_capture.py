"""tests/gpu/run on a machine of stand-ins, and what tests/gpu/check reads of its archive."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from gpu.capture import forms, main, steps
from gpu.checking import main as checking
from gpu.checking import replayed
from support.nodes import gpu_machine
from support.nodes.gpu_machine import HOST, IPV4, IPV6, MAC, USER, GpuMachine

ROOT = Path(__file__).parents[3]
PLUGINS = ROOT / "collections/ansible_collections/railyard/fabric/plugins"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = GpuMachine(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    monkeypatch.setenv("USER", USER)
    monkeypatch.setattr("socket.gethostname", lambda: f"{HOST}.cluster.acme.example")
    # What the kernel log shows is a file of the tree.
    monkeypatch.setattr(forms, "_EACH_S", 2.0)
    return made


def capture(machine: GpuMachine, *more: str) -> Path:
    path = machine.bin / "capture.tar.gz"
    status = main.main([str(path), "--root", str(machine.root), "--python", machine.programs(), *more])
    assert status == 0
    return path


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read().decode() for one in archive.getmembers()}


def step(path: Path, name: str) -> dict[str, object]:
    return next(one for one in json.loads(members(path)["manifest.json"])["steps"] if one["name"] == name)


def outcome(path: Path, what: str) -> tuple[str, str]:
    return next((line.outcome, line.detail) for line in checking.check(path) if line.what == what)


def test_a_healthy_machine_is_read_completely_and_good(machine, capsys):
    path = capture(machine)
    assert checking.main([str(path)]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    table = [line for line in printed.splitlines() if line.startswith(("good", "FAIL", "unmeasured"))]
    assert len(table) > 20
    assert all(line.startswith("good") for line in table)
    assert outcome(path, "facts rows") == ("good", "2 GPUs, 24 values each")
    assert outcome(path, "facts nvlink") == ("good", "36 active links")
    assert outcome(path, "nccl.log") == ("good", "NCCL 2.27.5+cuda12.9, Socket, 1 rank")
    assert outcome(path, "host_to_device") == ("good", "55.0 GB/s")
    assert outcome(path, "gpu_info") == ("good", "NVIDIA H100 80GB HBM3, Hopper")
    assert path.stat().st_size < 16 << 20


def test_every_form_that_the_product_runs_is_in_the_archive(machine):
    """The forms come from the sources: a new one is captured without a change here."""
    recorded = [tuple(one["argv"]) for one in json.loads(members(capture(machine))["forms.json"])["forms"]]
    for source in sorted(PLUGINS.rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            if not isinstance(node, (ast.List, ast.Tuple)) or not node.elts or "setting" in source.name:
                continue  # settings.py changes a GPU
            words = [one.value if isinstance(one, ast.Constant) else None for one in node.elts]
            if words[0] not in forms.PROGRAMS or len(words) == 1:
                continue
            assert any(
                len(argv) == len(words)
                and all(word in (None, given) for word, given in zip(words, argv, strict=True))
                for argv in recorded
            ), f"{source}:{node.lineno}: {words} is in no archive"
    assert {argv for argv in forms.PASTED if argv[0] == "nvidia-smi"} <= set(recorded)


def test_every_parser_of_a_gpu_tool_gets_a_form():
    assert set(replayed.PARSERS) == set(forms.PASTED)
    run = {"nvidia-smi-nvlink", "nvidia-smi-topo"}  # by facts.gpus
    tools = {name for name in registry.TOOLS if name.startswith(("nvidia-smi", "dcgmi"))}
    assert set(replayed.PARSERS.values()) | run == tools


def test_no_name_of_the_machine_is_in_the_archive(machine):
    machine.log(
        f"NVRM: loading NVIDIA UNIX Open Kernel Module  {gpu_machine.DRIVER}",
        f"NVRM: GPU at PCI:0000:53:00: {gpu_machine.uuid(0)}",
        f"NVRM: GPU Board Serial Number: {gpu_machine.serial(0)}",
        f"NVRM: Xid (PCI:0000:53:00): 43, pid=812, name=/home/{USER}/train.py on {HOST}, mac {MAC}",
    )
    path = capture(machine)
    texts = members(path)
    whole = "\n".join(texts.values()).lower()
    originals = [
        HOST, "cluster.acme", USER, IPV4, IPV6, MAC, gpu_machine.serial(0), gpu_machine.serial(1),
        gpu_machine.uuid(0)[4:], gpu_machine.uuid(1)[4:], "0x7a1b2c3d4e5f6070",
    ]  # fmt: skip
    assert [one for one in originals if one.lower() in whole] == []
    # One stand-in for one original, in all members; another for another.
    log = next(text for name, text in texts.items() if name.startswith("form-") and "NVSMI LOG" in text)
    [first, second] = re.findall(r"GPU UUID +: (\S+)", log)
    assert first != second
    assert f"PCI:0000:53:00: {first}" in texts["kernel_log.json"]
    [board] = re.findall(r"Board Serial Number: (\d+)", texts["kernel_log.json"])
    assert len(board) == len(gpu_machine.serial(0))
    assert any(f"Serial Number                         : {board}" in text for text in texts.values())
    # What tells where a GPU is and what it is stays.
    assert "0000:53:00" in texts["kernel_log.json"]
    assert "692-2G520-0200-000" in "".join(texts.values())
    assert "96.00.99.00.01" in "".join(texts.values())


XID = "NVRM: Xid (PCI:0000:64:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


# What is seen of one fault is seen beside the others: each belongs to another rule, or to another capture.
SICK = [
    (
        # NVIDIA's XID catalogue: 79 is GPU_HAS_FALLEN_OFF_THE_BUS.
        [XID],
        [
            ({}, "rule gpu_xid", "XID 79"),
            ({"remapped_rows.failure": "Yes"}, "rule gpu_memory", "could not be remapped"),
            ({"power.draw": "[Unknown Error]"}, "words of nvidia-smi", "[Unknown Error]"),
        ],
    ),
    (
        [],
        [
            ({"gpu_recovery_action": "Reset"}, "rule gpu_xid", "asks for its recovery: Reset"),
            (
                {"ecc.errors.uncorrected.volatile.total": "2"},
                "rule gpu_memory",
                "2 uncorrectable ECC errors",
            ),
            ({"temperature.gpu": "[GPU requires reset]"}, "words of nvidia-smi", "[GPU requires reset]"),
            ({"pcie.link.width.current": "8"}, "rule gpu_pcie", "8 lanes, 16 are possible"),
        ],
    ),
]


@pytest.mark.parametrize(("kmsg", "faults"), SICK)
def test_a_sick_gpu_fails(machine, kmsg, faults):
    for gpu, _what, _said in faults:
        machine.gpus[1].update(gpu)
    machine.log("Linux version 6.8.0", *kmsg)
    path = capture(machine)
    for _gpu, what, said in faults:
        found = outcome(path, what)
        assert found[0] == "FAIL"
        assert said in found[1]
    assert checking.main([str(path)]) == 1


def test_a_failed_nvidia_smi_is_kept_and_fails(machine):
    machine.smi = {
        "says": "Unable to determine the device handle for GPU0000:64:00.0: GPU is lost.",
        "status": 15,
    }
    path = capture(machine)
    assert "GPU is lost" in members(path)["form-01.txt"]
    assert outcome(path, "facts rows")[0] == "FAIL"


def test_a_hanging_nvidia_smi_is_recorded_and_not_waited_for(machine):
    machine.smi = {"hangs": True}
    path = capture(machine)
    [first, *_others] = json.loads(members(path)["forms.json"])["forms"]
    assert first["error"] == "nvidia-smi: no answer within 2 s"
    assert outcome(path, "facts rows")[0] == "unmeasured"
    assert checking.main([str(path)]) in (1, 3)


def test_a_step_that_crashes_or_hangs_is_recorded(machine, monkeypatch, capsys):
    machine.torch |= {
        "bandwidth": "crash",
        "allreduce": 'railyard: {"t": "error", "message": "no torch here"}\n',
    }
    path = capture(machine)
    assert step(path, "bandwidth")["reason"].startswith("bandwidth ended with -11")
    assert step(path, "nccl")["reason"] == "no torch here"
    assert checking.main([str(path)]) == 3
    machine.torch["collective"] = "hang"
    hasty = [one._replace(limit_s=1.5) if one.name == "collective" else one for one in main.STEPS]
    monkeypatch.setattr(main, "STEPS", hasty)
    path = capture(machine)
    assert step(path, "collective")["reason"].startswith("not done within 2 s")
    assert not _runs(str(machine.bin / "python-with-torch"))
    assert "Traceback" not in capsys.readouterr().out + "".join(members(path).values())


def _runs(program: str) -> list[str]:
    """Return the processes that run a program."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found += [folder.name] if program.encode() in words else []
    return found


def test_what_has_no_time_left_is_skipped(machine):
    path = capture(machine, "--limit-s", "20")
    assert step(path, "nccl")["reason"] in ("no time was left", "no GPU")
    assert checking.main([str(path)]) == 3


def test_an_unreadable_kernel_log_is_recorded(machine):
    (machine.root / "dev/kmsg").unlink()
    path = capture(machine)
    assert "cannot be read: /dev/kmsg: No such file" in step(path, "kernel_log")["reason"]
    assert outcome(path, "rule gpu_xid")[0] == "unmeasured"
    assert checking.main([str(path)]) == 3


def test_a_container_that_hides_the_bus_is_captured_all_the_same(machine):
    for name in ("sys", "proc"):
        subprocess.run(["rm", "-r", str(machine.root / name)], check=True)
    path = capture(machine)
    assert json.loads(members(path)["manifest.json"])["gpu"] is True
    assert outcome(path, "PCI bus")[0] == "unmeasured"
    assert outcome(path, "facts rows") == ("good", "2 GPUs, 24 values each")
    assert outcome(path, "rule gpu_kind")[1].endswith(f"driver {gpu_machine.DRIVER}")
    assert outcome(path, "railyard-quick")[0] == "unmeasured"


def test_one_gpu_of_many_is_a_loss_on_a_machine_and_none_in_a_container(machine):
    machine.gpus = machine.gpus[:1]
    path = capture(machine)
    assert outcome(path, "rule gpu_count")[0] == "FAIL"
    machine.write("proc/mounts", "overlay / overlay rw,relatime 0 0\n")
    path = capture(machine)
    assert outcome(path, "PCI bus") == ("unmeasured", "a container has 1 of the 2 GPUs on the bus")
    assert outcome(path, "rule gpu_count")[0] == "good"
    assert outcome(path, "railyard-quick")[0] == "unmeasured"


@pytest.mark.parametrize(
    "text", ["Error: unable to establish a connection to the specified host: localhost", "?"]
)
def test_a_dcgm_whose_service_does_not_answer_is_unmeasured(machine, text):
    dcgmi = machine.bin / "dcgmi"
    dcgmi.write_text(f"#!/bin/sh\necho '{text}'\nexit 234\n")
    dcgmi.chmod(0o755)
    path = capture(machine)
    assert outcome(path, "dcgmi nvlink --link-status")[0] == "unmeasured"
    assert checking.main([str(path)]) == 3


def test_without_a_gpu_the_script_says_so_and_ends_well(tmp_path, capsys):
    made = tmp_path / "capture.tar.gz"
    empty = tmp_path / "root"
    empty.mkdir()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, ROOT / "tests/gpu/run", made, "--root", empty],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "no GPU" in done.stdout.splitlines()
    assert checking.main([str(made)]) == 3
    assert "no GPU" in capsys.readouterr().out


def test_an_archive_that_cannot_be_written_is_one_sentence(machine, capsys):
    assert main.main(["/nonexistent/x.tar.gz", "--root", str(machine.root), "--limit-s", "1"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("speeds", "outcome_"),
    [
        ({"host_to_device": 62.0}, "good"),
        ({"host_to_device": 70.0, "device_to_host": 3.0, "device_memory": 12.0}, "FAIL"),
    ],
)
def test_a_bandwidth_has_to_be_plausible(machine, speeds, outcome_):
    # Gen5 x16 carries 504.112 Gbit/s, 63.0 GB/s, by the kernel's own sentence ("available PCIe bandwidth").
    machine.torch = gpu_machine.torch_output(**speeds)
    path = capture(machine)
    assert [outcome(path, way)[0] for way in speeds] == [outcome_] * len(speeds)


def test_a_wrong_sum_and_a_log_without_network_fail(machine):
    machine.torch["allreduce"] = machine.torch["allreduce"].replace('"wrong": 0', '"wrong": 7')
    lines = machine.torch["collective"].splitlines(keepends=True)
    machine.torch["collective"] = "".join(line for line in lines if "Socket" not in line)
    path = capture(machine)
    assert outcome(path, "all-reduce (nccl)") == ("FAIL", "7 numbers are wrong")
    assert outcome(path, "collective.log")[0] == "FAIL"


def test_a_setting_that_lint_nccl_refuses_fails(machine, monkeypatch):
    monkeypatch.setenv("NCCL_IB_GID_INDX", "3")
    path = capture(machine)
    assert "NCCL_IB_GID_INDX=3" in members(path)["nccl.env"]
    assert outcome(path, "lint-nccl")[0] == "FAIL"


def test_the_script_needs_python_3_9_and_nothing_installed():
    """Syntax of 3.9, and imports of the standard library, of module_utils and of itself alone."""
    allowed = (
        *sys.stdlib_module_names,
        "ansible_collections.railyard.fabric.plugins.module_utils",
        "gpu.capture",
    )
    sources = [ROOT / "tests/gpu/run", *(ROOT / "tests/gpu/capture").glob("*.py")]
    for source in sources:
        tree = ast.parse(source.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                is_torch = source.name == "torch_program.py" and name.startswith("torch")
                ok = any(name == one or name.startswith(f"{one}.") for one in allowed)
                assert ok or is_torch, f"{source}: imports {name}"


def test_the_limits_of_all_steps_fit_the_whole():
    assert main.LIMIT_S <= 480
    assert all(one.limit_s < main.LIMIT_S for one in main.STEPS)
    assert steps.NCCL_DEBUG["NCCL_DEBUG"] == "INFO"

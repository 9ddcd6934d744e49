"""The program of a collective, as its interpreter gets it; with torch for real where this machine has it."""

from __future__ import annotations

import contextlib
import functools
import gc
import socket
import subprocess
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.collective import job, packed, store, sweep

# Debian's python3-torch is for Debian's Python alone.
PYTHON = "/usr/bin/python3"


@functools.cache
def no_torch():
    tried = subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True, check=False)
    return tried.returncode != 0


with_torch = pytest.mark.skipif(no_torch(), reason=f"{PYTHON} has no torch (Debian: python3-torch)")


def play(task, nodes=("a", "b"), present=None, python=PYTHON, waits_s=None, **more):
    """Run a job's nodes as processes of this machine; return each node's lines and exit status."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    orders = {
        "task": task,
        "backend": "gloo",
        "nodes": list(nodes),
        "processes": 1,
        "meet": [["127.0.0.1"], port],
        "secret": "s" * 32,
        "netdevs": ["lo"],
        "environment": {},
        "sizes": [1 << 16, 1 << 18],
        "duration_s": 0.5,
        "wait_s": 60,
        "limit_s": 60,
        **more,
    }
    started = [
        subprocess.Popen(
            packed.argv(python if isinstance(python, str) else python[node]),
            stdin=packed.opened({**orders, "node": node, **({"wait_s": waits_s[node]} if waits_s else {})}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in present or nodes
    ]
    ended = [(process.communicate(timeout=600)[0], process.returncode) for process in started]
    return [(packed.lines(text), status) for text, status in ended]


def changed(folder, lines):
    """Return a Python whose torch is the machine's, but for what these lines do to it."""
    bare = folder / "changed"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", bare], check=True)
    (site,) = bare.glob("lib/python3*/site-packages")
    where = [PYTHON, "-c", "import torch; print(torch.__path__[0])"]
    theirs = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout).parent
    (site / "changes.py").write_text("\n".join(("import torch.distributed", *lines)))
    (site / "changes.pth").write_text(f"{theirs}\nimport changes\n")
    return str(bare / "bin" / "python3")


@with_torch
@pytest.mark.parametrize(
    ("task", "call", "sizes", "wire", "rails"),
    [
        # Of four ranks on two nodes, each way: a ring passes each rank, and so each node, with 2 x 3/4 of
        # what is added up and with 3/4 of what is gathered.
        ("allreduce", "all_reduce", [1 << 16, 1 << 18], 1.5, 1.5),
        ("allgather", "all_gather", [1 << 18], 0.75, 0.75),
        # A rank sends three of its four blocks; two of these go to the other node, and its neighbour's two.
        ("alltoall", "all_to_all_single", [1 << 18], 0.75, 1.0),
    ],
)
def test_an_operation_is_right_and_counts_what_it_sent(task, call, sizes, wire, rails):
    # Long enough that no second size is left out where a process is held up for ten seconds.
    duration_s = 30 if len(sizes) > 1 else 0.5
    ends = play(task, netdevs=["lo", "lo"], processes=2, sizes=sizes, duration_s=duration_s)
    for lines, status in ends:
        assert status == 0
        assert [line["t"] for line in lines] == ["began", *["size"] * len(sizes), "swept"]
        assert (lines[0]["ranks"], lines[-1]["call"]) == (4, call)
        each = lines[1:-1]
        assert [(line["size_bytes"], line["wrong"]) for line in each] == [(size, 0) for size in sizes]
        for line in each:
            assert line["algbw_GBps"] == pytest.approx(line["size_bytes"] / line["time_us"] / 1e3, rel=1e-2)
            assert line["busbw_GBps"] == pytest.approx(line["algbw_GBps"] * wire, rel=1e-3)
            assert line["time_min_us"] <= line["time_us"]
        # Two more of each to warm up.
        sent = sum((line["iterations"] + 2) * line["size_bytes"] for line in each) * rails
        assert lines[-1]["moved_bytes"] == pytest.approx(sent, abs=1)
    # The slowest rank's times, which all ranks receive.
    assert len({str(lines[1:]) for lines, _status in ends}) == 1


@with_torch
@pytest.mark.parametrize("unlike", [False, True])
def test_an_all_to_all_is_done_by_pairs_where_not_all_have_it(tmp_path, unlike):
    """With unlike versions no rank may wait in a call that another does not have."""
    lines = ["torch.__version__ = '9'"] if unlike else ["del torch.distributed.all_to_all_single"]
    own = changed(tmp_path, lines)
    pythons = {"a": PYTHON if unlike else own, "b": own, "c": own}
    for lines, status in play("alltoall", "abc", python=pythons, netdevs=["lo", "lo"], sizes=[1 << 18]):
        assert (status, [line["t"] for line in lines]) == (0, ["began", "size", "swept"]), lines
        assert lines[-1]["call"] == "isend, irecv"
        # Three blocks on two rails: the most that are of whole numbers of four bytes.
        assert (lines[1]["size_bytes"], lines[1]["wrong"]) == ((1 << 18) // 24 * 24, 0)


@with_torch
def test_sizes_whose_messages_are_mostly_headers_are_not_exchanged():
    for sizes, done in (([16384, 32768], 32768), ([4096], 4096)):
        for lines, _status in play("allgather", sizes=sizes):
            assert [line.get("size_bytes") for line in lines[1:-1]] == [done]


# Three ranks of one process, whose blocks are handed round in a given order. A block has as many numbers as
# the pattern is long, so that only by whose it is a wrong one shows.
HANDED_ROUND = """
import torch
from ansible_collections.railyard.fabric.plugins.module_utils.collective import operations
from ansible_collections.railyard.fabric.plugins.module_utils.collective.group import Group

class Given:
    def wait(self):
        pass

def handed_round(kind, origin):
    calls = []
    def call(got, given, async_op):
        calls.append((got, given if given.dim() == 2 else given.expand(3, -1)))
        return Given()
    torch.distributed.all_gather = torch.distributed.all_to_all_single = call
    ranks = [kind(Group(torch, rank, 3, 1, 2, "cpu"), 4 * 251 * 3 * 2) for rank in range(3)]
    for one in ranks:
        one.fill()
        one.run()
    for place, (got, _given) in enumerate(calls):
        for source in range(3):
            whose, whom, part = origin(place // 2, source, place % 2)
            got[source].copy_(calls[2 * whose + part][1][whom])
    return [one.wrong() for one in ranks]

def right(rank, source, part):
    return source, rank, part

def other_peer(rank, source, part):
    return right(rank, 0 if (rank, source, part) == (1, 2, 0) else source, part)

def other_part(rank, source, part):
    return right(rank, source, 1 - part if rank == 2 else part)

def for_another(rank, source, part):
    return right(0 if (rank, source) == (1, 2) else rank, source, part)

for kind in (operations.AllGather, operations.AllToAll):
    print(*(handed_round(kind, origin) for origin in (right, other_peer, other_part, for_another)))
"""


@with_torch
def test_what_comes_from_a_wrong_peer_or_was_for_another_is_counted():
    path = str(Path(packed.__file__).parents[6])
    ran = subprocess.run(
        [PYTHON, "-c", HANDED_ROUND], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    # What all get alike cannot have been for another.
    one, both, all_six = [0, 251, 0], [0, 2 * 251, 0], [0, 0, 6 * 251]
    assert ran.stdout.splitlines() == [
        f"[0, 0, 0] {one} {all_six} [0, 0, 0]",
        f"[0, 0, 0] {one} {all_six} {both}",
    ]


@with_torch
def test_a_training_job_learns_and_all_ranks_end_alike():
    for lines, status in play("ddp"):
        assert (status, [line["t"] for line in lines]) == (0, ["began", "trained"])
        said = lines[1]
        assert said["loss_last"] < said["loss_first"]
        assert not said["ranks_differ"]
        parameters = (256 * 512 + 512) + (512 * 512 + 512) + (512 + 1)
        assert said["gradient_bytes"] == 4 * parameters
        assert said["moved_bytes"] == 4 * parameters * said["steps"]  # 2(n-1)/n of two is 1
        alone = 2 * said["alone_samples_per_s"]
        assert said["efficiency_percent"] == pytest.approx(100 * said["samples_per_s"] / alone, abs=0.1)
        assert 0 <= said["communication_percent"] < 100


@with_torch
def test_a_node_that_does_not_come_is_named_by_the_others():
    # b still waits when a has waited enough; were a gone then, b would name a.
    (lines, status), (other, other_status) = play(
        "allreduce", "abc", present="ab", waits_s={"a": 12, "b": 16}
    )
    for said in (lines, other):
        assert [(line["kind"], line["nodes"]) for line in said] == [("absent", ["c"])]
    assert (status, other_status) == (1, 1)


def test_a_node_that_is_done_after_the_first_node_has_gone_does_not_name_it(monkeypatch, capsys):
    """The first node waits five seconds for the others when its own part is over."""

    class Gone:
        def get(self, keys, _wait_s):
            return [b"1"] * len(keys)

        def set(self, _key, _value):
            raise store.StoreError("the first node is gone: it hung up")

    torch = SimpleNamespace(set_num_threads=lambda _number: None, distributed=None, __version__="2")
    monkeypatch.setattr(job, "_client", lambda _orders: Gone())
    monkeypatch.setattr(job, "_torch", lambda _backend: torch)
    monkeypatch.setattr(job, "_joined", lambda *_all: contextlib.nullcontext())
    monkeypatch.setattr(job.sweep, "sweep", lambda *_all: {"t": "swept"})
    orders = {"task": "allreduce", "backend": "gloo", "node": "b", "nodes": ["a", "b"], "netdevs": ["lo"],
              "sizes": [4096], "duration_s": 1, "wait_s": 1}  # fmt: skip
    assert job._child(orders, 0) == 0
    assert [line["t"] for line in packed.lines(capsys.readouterr().out)] == ["began", "swept"]


# NCCL connects at the first operation; gloo does so at once, unless it is given a group of its own then.
CONNECTS_LATE = """
all_reduce = torch.distributed.all_reduce
def late(tensor, **more):
    if not hasattr(late, "group"):
        late.group = torch.distributed.new_group()
    return all_reduce(tensor, group=late.group, **more)
torch.distributed.all_reduce = late
"""


@with_torch
def test_the_store_answers_as_long_as_the_job_runs(tmp_path):
    own = changed(tmp_path, CONNECTS_LATE.splitlines())
    for lines, status in play("allreduce", python={"a": own, "b": own}, sizes=[1 << 16]):
        assert (status, [line["t"] for line in lines]) == (0, ["began", "size", "swept"]), lines


def test_the_store_is_held_while_the_job_runs():
    """What torch holds is the C++ half alone: seen on an H100, with torch 2.11 and NCCL 2.28.9."""
    held = []
    distributed = SimpleNamespace(
        Store=object,
        init_process_group=lambda _backend, store, **_more: held.append(weakref.ref(store)),
        destroy_process_group=lambda: None,
    )
    orders = {"backend": "nccl", "limit_s": 1}
    with job._joined(SimpleNamespace(distributed=distributed), None, orders, 0, 1):
        gc.collect()
        assert held[0]() is not None


@with_torch
def test_without_the_first_node_it_is_the_one_that_is_named():
    ((lines, status),) = play("allreduce", present="b", wait_s=1)
    assert [(line["kind"], line["nodes"], status) for line in lines] == [("absent", ["a"], 1)]


def test_an_interpreter_without_torch_says_so(tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", bare], check=True)
    ((lines, status),) = play("allreduce", "a", python=str(bare / "bin" / "python3"))
    assert [(line["kind"], status) for line in lines] == [("no_torch", 1)]
    assert str(bare) in lines[0]["message"]


# As NCCL does, by C's standard output, in a process that ends as a job's do.
LOGS = """
import ctypes, os
from ansible_collections.railyard.fabric.plugins.module_utils.collective import job
job.log_by_lines()
libc = ctypes.CDLL(None)
for number in range(300):
    libc.puts(b"node1:1:1 [0] NCCL INFO Channel %d/64 : 0" % number)
    job._tell({"t": number})
os._exit(0)
"""


def test_a_log_neither_cuts_a_result_nor_loses_its_end(tmp_path):
    """On an H100 the only result of a training job was within a line of NCCL's log, and was lost."""
    path = str(Path(packed.__file__).parents[6])
    with open(tmp_path / "output", "w") as output:
        subprocess.run([PYTHON, "-c", LOGS], stdout=output, check=True, env={"PYTHONPATH": path})
    text = (tmp_path / "output").read_text()
    assert [line["t"] for line in packed.lines(text)] == list(range(300))
    logged = [line for line in text.splitlines() if "NCCL" in line]
    assert logged == [f"node1:1:1 [0] NCCL INFO Channel {number}/64 : 0" for number in range(300)]


def test_railyards_lines_are_found_among_others():
    text = 'warning\nrailyard: {"t": 1}\nrailyard: {cut\nrailyard: [1]\n railyard: {}\nn1:1 NCCL INFO x\n'
    assert packed.lines(text) == [{"t": 1}]


def test_sizes_grow_fourfold_to_the_greatest():
    assert sweep.sizes_up_to(100_000) == [4096, 16384, 65536, 100_000]
    assert sweep.sizes_up_to(4096) == [4096]

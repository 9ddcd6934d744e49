"""`railyard estimate`: the handbook's examples with their arithmetic put right, bounds, and bad input."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from railyard.estimate import arithmetic
from railyard.estimate.job import Job

Call = Callable[..., tuple[int, str, str]]

# 2e9 parameters of 4 bytes are 8 GB of gradients.
MODEL = ("--params", "2e9", "--dtype", "fp32")
ONE_NODE = ("--nodes", "1", "--gpus", "8", "--rails", "1", "--intra-node-gbytes", "300")
# One NIC of 200 Gbit/s is 25 GB/s.
FOUR_NODES = ("--nodes", "4", "--gpus", "8", "--rails", "1", "--inter-node-gbps", "200")
NVLINK = ("--intra-node-gbytes", "300")
COMPUTE = ("--seqlen", "2048", "--peak-tflops", "312", "--mfu", "0.5")


@pytest.fixture
def called(call: Call) -> Call:
    return functools.partial(call, "estimate")


@pytest.fixture
def estimated(called: Call) -> Callable[..., dict[str, Any]]:
    def estimate(*argv: str) -> dict[str, Any]:
        status, out, err = called(*argv, "--json")
        assert status == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    return estimate


def test_one_node_of_the_handbook(estimated: Any) -> None:
    found = estimated(*MODEL, *ONE_NODE, *COMPUTE, "--global-batch", "16", "--recompute")
    # 2 x 8 / 300; the handbook's table says 0.027, which is 8 / 300.
    assert found["rule_of_thumb_s"] == pytest.approx(0.0533, abs=5e-5)
    # 2 x 7/8 x 8 / 300
    assert found["exact_s"] == pytest.approx(14 / 300)
    assert found["hierarchical_s"] == pytest.approx(14 / 300)
    # 4 x 2 x 2e9 x 2048 x 16 = 5.24288e14 operations by 8 x 156e12 a second.
    assert found["compute_s"] == pytest.approx(0.420103, abs=1e-6)
    assert (found["exposed_s"], found["hidden"], found["scaling_efficiency"]) == (0, True, 1)


def test_four_nodes_of_the_handbook(estimated: Any) -> None:
    found = estimated(*MODEL, *FOUR_NODES, *NVLINK, *COMPUTE, "--global-batch", "64", "--recompute")
    assert found["rule_of_thumb_s"] == pytest.approx(0.64)  # 16 / 25
    assert found["exact_s"] == pytest.approx(0.62)  # 2 x 31/32 x 8 / 25
    # In the nodes 2 x 7/8 x 8 / 300 = 0.046667, between them 2 x 3/4 x 8 / 25 = 0.48.
    assert found["hierarchical_s"] == pytest.approx(0.526667, abs=1e-6)
    # Four times the GPUs and four times the batch: compute is as long as on one node.
    assert found["compute_s"] == pytest.approx(0.420103, abs=1e-6)
    assert found["exposed_s"] == pytest.approx(0.199897, abs=1e-6)  # 0.62 - 0.420103
    assert found["hidden"] is False
    assert found["scaling_efficiency"] == pytest.approx(0.677585, abs=1e-6)  # 0.420103 / 0.62
    # The handbook keeps 0.42 s with a global batch of 16; on 32 GPUs that is a quarter.
    small = estimated(*MODEL, *FOUR_NODES, *COMPUTE, "--global-batch", "16", "--recompute")
    assert small["compute_s"] == pytest.approx(0.105026, abs=1e-6)


@pytest.mark.parametrize(
    ("argv", "rule_of_thumb_s"),
    [
        # Of the handbook: at 400 Gbit/s 16 / 50; of its 80 % 16 / 40.
        ((*MODEL, *FOUR_NODES, "--inter-node-gbps", "400"), 0.32),
        ((*MODEL, *FOUR_NODES, "--inter-node-gbps", "400", "--efficiency", "0.8"), 0.4),
        # A node has rails x NIC: 2 x 200 Gbit/s are 50 GB/s as well.
        ((*MODEL, *FOUR_NODES, "--rails", "2"), 0.32),
        # 8 x 400 Gbit/s are 400 GB/s: then the 300 within the node are less.
        ((*MODEL, *FOUR_NODES, "--inter-node-gbps", "400", "--rails", "8", *NVLINK), 16 / 300),
        # Of the course, 70e9 parameters of 2 bytes, 2,240 Gbit: its 28 s and 0.7 s need 8 NICs a node.
        (("--params", "70e9", "--dtype", "fp16", *FOUR_NODES, "--inter-node-gbps", "10"), 224),
        (("--params", "70e9", "--dtype", "fp16", *FOUR_NODES, "--inter-node-gbps", "10", "--rails", "8"), 28),
        (("--params", "70e9", "--dtype", "bf16", *FOUR_NODES, "--inter-node-gbps", "400"), 5.6),
        # A byte each, and the four of fp32 for TF32: 2 x 2e9 / 25e9, and four times that.
        (("--params", "2e9", "--dtype", "fp8", *FOUR_NODES), 0.16),
        (("--params", "2e9", "--dtype", "tf32", *FOUR_NODES), 0.64),
        # One GPU has no peer to send to.
        ((*MODEL, "--gpus", "1"), 0),
    ],
)
def test_the_rule_of_thumb(estimated: Any, argv: tuple[str, ...], rule_of_thumb_s: float) -> None:
    assert estimated(*argv)["rule_of_thumb_s"] == pytest.approx(rule_of_thumb_s)


def test_without_recomputation_three_passes(estimated: Any) -> None:
    found = estimated(*MODEL, *ONE_NODE, *COMPUTE, "--global-batch", "16")
    assert found["compute_s"] == pytest.approx(0.315077, abs=1e-6)  # 3/4 of 0.420103


def test_a_missing_value_is_null_and_named(estimated: Any, called: Call) -> None:
    keys = ("hierarchical_s", "compute_s", "exposed_s", "hidden", "scaling_efficiency")
    argv = (*MODEL, *FOUR_NODES, *COMPUTE)
    found = estimated(*argv)
    assert [found[key] for key in keys] == [None] * 5
    assert found["exact_s"] == pytest.approx(0.62)
    notes = " ".join(found["notes"])
    assert "--intra-node-gbytes" in notes
    assert "--global-batch" in notes
    assert "--seqlen" not in notes
    status, out, _err = called(*argv)
    assert status == 0
    assert out.count("not known") >= 4
    assert "0.620 s" in out


def job(**more: Any) -> Job:
    return Job(**{"params": 1e9, "gpus": 8, "intra_node_gbytes": 300.0, "inter_node_gbps": 400.0, **more})


def test_the_exact_ring_comes_up_to_the_rule_of_thumb_with_the_number_of_gpus() -> None:
    shares = []
    for ranks in (2, 3, 8, 64, 1024):
        found = arithmetic.all_reduce(job(gpus=ranks))
        shares.append(found.exact_s / found.rule_of_thumb_s)
    assert shares == pytest.approx([1 / 2, 2 / 3, 7 / 8, 63 / 64, 1023 / 1024])


@pytest.mark.parametrize("nodes", [1, 2, 3, 16, 500])
@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_steps_by_level_against_the_ring(nodes: int, gpus: int) -> None:
    # Where each GPU has between nodes what it has within (300 GB/s = 2,400 Gbit/s a NIC), and the ring can
    # use no more than that, both send the same: (g-1)/g + (N-1)/(N g) = (N g - 1)/(N g).
    equal = job(nodes=nodes, gpus=gpus, rails=gpus, inter_node_gbps=2400.0)
    found = arithmetic.all_reduce(equal)
    assert found.hierarchical_s == pytest.approx(found.exact_s)
    # Within the node N times as fast as the node's network, or more: never above the ring.
    slow = job(nodes=nodes, gpus=gpus, rails=1, inter_node_gbps=2400.0 / nodes)
    found = arithmetic.all_reduce(slow)
    assert found.hierarchical_s is not None
    assert found.hierarchical_s <= found.exact_s * (1 + 1e-12)


BAD = [
    ("--params", "0"),
    ("--params", "-2e9"),
    ("--params", "inf"),
    ("--params", "nan"),
    ("--params", "1e300"),
    ("--gpus", "0"),
    ("--nodes", "-1"),
    ("--rails", "0"),
    ("--inter-node-gbps", "0"),
    ("--inter-node-gbps", "inf"),
    ("--intra-node-gbytes", "-300"),
    ("--seqlen", "0"),
    ("--global-batch", "-16"),
    ("--peak-tflops", "nan"),
    ("--mfu", "1.01"),
    ("--mfu", "0"),
    ("--efficiency", "1.0001"),
    ("--efficiency", "-0.5"),
    ("--bucket-mbytes", "0"),
    ("--dtype", "int3"),
]


@pytest.mark.parametrize(("option", "value"), BAD)
def test_bad_input_is_named_with_its_fix(called: Call, option: str, value: str) -> None:
    status, out, err = called(*MODEL, *ONE_NODE, *COMPUTE, option, value)
    assert (status, out) == (2, "")
    assert f"1. {option}: " in err
    assert "2. " not in err
    assert "Fix: write" in err


@pytest.mark.parametrize(
    ("argv", "missing"),
    [
        (("--nodes", "2", "--gpus", "1"), "--inter-node-gbps"),
        (("--nodes", "1", "--gpus", "2"), "--intra-node-gbytes"),
    ],
)
def test_a_rate_that_is_needed_is_requested(called: Call, argv: tuple[str, ...], missing: str) -> None:
    status, out, err = called(*MODEL, *argv)
    assert (status, out) == (2, "")
    assert f"1. {missing}: it is missing" in err


def test_all_that_is_wrong_is_reported_at_once(called: Call) -> None:
    status, _out, err = called("--params", "0", "--gpus", "0", "--dtype", "x", "--efficiency", "2")
    assert status == 2
    assert err.startswith("railyard: 4 problems")
    assert [option in err for option in ("--params", "--gpus", "--dtype", "--efficiency")] == [True] * 4

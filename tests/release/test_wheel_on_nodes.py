"""The command of an installed wheel provisions and measures nodes from an empty folder, without the checkout.

Needs root and makes a lab of two containers.
"""

import json
import shutil

import pytest
from e2e.conftest import POLICY
from e2e.support import Cluster, edited, needs_root, write_lab
from support.released import build_release, run_wheel, unpack_wheel


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("wheel_lab"), "wheel")
    write_lab(made, "198.18.9.", "container")
    with edited(made.fabric_file) as variables:
        variables["fabric_policy"] = POLICY
    with made.up():
        yield made


def test_a_wheel_provisions_measures_and_checks_nodes(cluster, tmp_path_factory, tmp_path):
    scratch = tmp_path_factory.mktemp("release")
    wheel = unpack_wheel(build_release(scratch)[".whl"], scratch / "unpacked")
    # An inventory of the user's own: nothing beside it is a checkout.
    inventory = tmp_path / "inventories" / "mine"
    shutil.copytree(cluster.inventory, inventory)
    done = run_wheel(wheel, tmp_path, "site", "-i", str(inventory), timeout_s=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 nodes good: all" in done.stdout
    (verdicts,) = tmp_path.glob("reports/*/2*/verdicts.jsonl")
    outcomes = {json.loads(line)["outcome"] for line in verdicts.read_text().splitlines()}
    assert outcomes == {"pass", "recorded"}
    (page,) = tmp_path.glob("reports/*/2*/index.html")
    assert "gpuserver2" in page.read_text()
    again = run_wheel(wheel, tmp_path, "provision", "-i", str(inventory), timeout_s=900)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("changed=0") == 3, again.stdout
    verified = run_wheel(wheel, tmp_path, "verify", "-i", str(inventory), timeout_s=600)
    assert verified.returncode == 0, verified.stdout + verified.stderr

"""The notes' netplan, written by hand, against what is rendered from the inventory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import render
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan

INVENTORY = Path(__file__).resolve().parents[2] / "inventories" / "v100-pair"
NODES = ("gpuserver1", "gpuserver2")
FILE = "60-railyard-rails.yaml"

# sources/gpu-cluster-notes.md, "Netplan Configuration (Both Servers)": what the owner had by hand.
NOTES = {
    node: {
        "ens6": {"dhcp4": False, "addresses": [f"10.0.1.{number}/24"], "mtu": 9000, "optional": True},
        "ens6d1": {"dhcp4": False, "addresses": [f"10.0.0.{number}/24"], "mtu": 9000, "optional": True},
    }
    for number, node in enumerate(NODES, start=1)
}


def rendered(node: str) -> str:
    source = (INVENTORY / "group_vars" / "all" / "fabric.yml").read_text(encoding="utf-8")
    return render.render(plan.plan_node(yaml.safe_load(source)["fabric"], node))


def golden(node: str) -> str:
    return (INVENTORY / "expected" / node / FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize("node", NODES)
def test_text_is_the_golden_file(node):
    assert rendered(node) == golden(node)


@pytest.mark.parametrize("node", NODES)
def test_golden_says_what_the_notes_say(node):
    ethernets = yaml.safe_load(golden(node))["network"]["ethernets"]
    assert set(ethernets) == set(NOTES[node])
    for netdev, stanza in NOTES[node].items():
        assert {key: ethernets[netdev][key] for key in stanza} == stanza


@pytest.mark.parametrize("node", NODES)
def test_management_is_not_in_the_file(node):
    assert "enp5s0" not in rendered(node)


@pytest.mark.skipif(shutil.which("netplan") is None, reason="netplan.io is not installed on this machine")
@pytest.mark.parametrize("node", NODES)
def test_netplan_takes_the_golden_file(node, tmp_path):
    place = tmp_path / "etc" / "netplan" / FILE
    place.parent.mkdir(parents=True)
    place.write_text(golden(node), encoding="utf-8")
    place.chmod(0o600)
    done = subprocess.run(
        ["netplan", "generate", "--root-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    network = (tmp_path / "run/systemd/network/10-netplan-ens6.network").read_text(encoding="utf-8")
    assert "MTUBytes=9000" in network
    assert f"Address={NOTES[node]['ens6']['addresses'][0]}" in network

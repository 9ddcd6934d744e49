"""The notes' netplan, written by hand, against what is rendered from the inventory."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

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


@pytest.mark.parametrize("node", NODES)
def test_management_is_not_in_the_file(node):
    assert "enp5s0" not in golden(node)


def golden(node: str) -> str:
    return (INVENTORY / "expected" / node / FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize("node", NODES)
def test_golden_says_what_the_notes_say(node):
    ethernets = yaml.safe_load(golden(node))["network"]["ethernets"]
    assert set(ethernets) == set(NOTES[node])
    for netdev, stanza in NOTES[node].items():
        assert {key: ethernets[netdev][key] for key in stanza} == stanza

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node reports is data: it reaches no path, terminal, or structure of YAML and Markdown."""

from __future__ import annotations

import copy
import re
import time

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from railyard.discover.files import render
from railyard.discover.model import Named
from railyard.discover.survey import survey
from railyard.new_inventory import command
from support.discover import nodes

NASTY = [
    "../../etc/passwd",
    "a: {b: c}\n- d",
    "\x1b[31mred\x1b[0m\x07",
    "{{ lookup('pipe', 'id') }}",
    "| a | b |\n\n# heading",
    "\u202ereversed\u200b",
    "x" * 5000,
    "",
    "a\tcolumn\tmore",
    "- !!python/object/apply:os.system ['id']",
]


def pair(nasty):
    """Return two nodes that say one nasty text wherever a text can be."""
    found = []
    for number in (1, 2):
        card = {"card": nasty, "serial": nasty, "wire": nasty, "leaf": nasty}
        ports = [
            {"netdev": "ens1", "pci": "0000:18:00.0", **card},
            {"netdev": nasty or "?", "pci": "0000:40:00.0", "rdma": f"{nasty.replace(':', '')}x", **card},
        ]
        one = nodes.made_up(f"gpu{number}", ports, gpus=nodes.gpus_of(nasty, ["0000:19:00.0"]))
        one |= {
            "hostname": f"{nasty}{number}",
            "product": nasty,
            "nvlink_domain": nasty,
            "bmc_address": nasty,
        }
        one["idle_functions"] = [{"pci": "0000:99:00.0", "pci_id": None, "driver": nasty}]
        found.append(one)
    nodes.wire(found, [[(one["key"], netdev) for one in found] for netdev in ("ens1", nasty or "?")])
    for one in found:
        one["beacons"][0]["error"] = nasty
        sender = {"key": nasty, "netdev": nasty, "mac": "02:00:00:00:00:01"}
        heard = {"netdev": "none", "senders": [sender], "strangers": 9, "raised": False, "error": nasty}
        one["beacons"].append(heard)
    return found


@pytest.mark.parametrize("nasty", NASTY)
def test_a_hostile_text_stays_a_text(tmp_path, nasty):
    found = nodes.discovered(pair(nasty))
    texts = [*found.oddities, *found.not_known, *found.assumed, *(one.text for one in found.questions)]
    assert all(text.isprintable() for text in texts)
    assert found.questions == []
    # The second port has no sound name, and its address on the bus names it.
    assert [rail.selector for rail in found.rails][1] == "pci"
    files = render(found)
    assert set(files) == {
        "hosts.yml", "README.md", "discovered.txt", "group_vars/all/fabric.yml", "group_vars/all/rdma.yml",
        "group_vars/all/gpus.yml",
    }  # fmt: skip
    for name, text in files.items():
        assert all(char.isprintable() or char in "\n\t" for char in text)
        if name.endswith(".yml"):
            yaml.safe_load(text)
    assert files["README.md"].count("\n# ") == 0
    assert [line.count("\t") for line in files["discovered.txt"].splitlines()[3:]] == [11] * 6
    rows = [line for line in files["README.md"].splitlines() if line.startswith("| rail")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in rows] == [7, 7]
    command.write(tmp_path / "inventory", files)


@pytest.mark.parametrize("nasty", NASTY)
def test_a_hostile_name_of_a_node_is_a_question(nasty):
    found = pair("fine")
    named = {one["key"]: Named(one["key"], nasty + one["key"]) for one in found}
    survey_of_two = nodes.discovered(found, **named)
    if nasty in ("", "x" * 5000):
        assert bool(survey_of_two.questions) is (nasty != "")
    else:
        assert len([one for one in survey_of_two.questions if "cannot be a host's name" in one.text]) == 2
    assert all(one.text.isprintable() for one in survey_of_two.questions)


def test_a_hundred_thousand_ports_are_read_in_seconds_and_looked_at_up_to_a_limit():
    many = [{"netdev": f"v{place}", "pci": None, "rdma": None, "gbps": 1} for place in range(100_000)]
    found = [nodes.made_up("gpu1", many), nodes.made_up("gpu2", [{"netdev": "ens1", "pci": "0000:18:00.0"}])]
    begin = time.monotonic()
    read = {one["key"]: bare_node.read(one) for one in found}
    survey_of_two = survey(read, {name: Named(name, name) for name in read})
    assert time.monotonic() - begin < 30
    assert any("gpu1" in text and "only the first 1024" in text for text in survey_of_two.oddities)


def test_no_node_and_nodes_that_say_nothing_are_questions():
    assert survey({}, {}).questions
    empty = nodes.made_up("gpu1", [])
    for part in (empty["facts"], empty):
        part.update({key: [] for key in ("netdevs", "hcas", "ports", "default_route") if key in part})
    empty["login_address"] = None
    assert nodes.discovered([empty, copy.deepcopy({**empty, "key": "gpu2"})]).questions

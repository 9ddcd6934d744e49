# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, their names, GPUs and groups, on the smallest cluster that shows each rule."""

from __future__ import annotations

import pytest
import yaml
from railyard.discover.files import render
from railyard.discover.model import Named
from railyard.discover.survey import survey
from railyard.new_inventory import command
from support.discover import nodes
from support.discover.clusters import cluster, mentions, of_groups, written


def test_a_node_without_an_answer_is_not_known_and_has_no_entry():
    found = {one["key"]: one for one in cluster(3)}
    del found["gpu2"]
    survey_of_two = survey(found, {name: Named(name, name) for name in ("gpu1", "gpu2", "gpu3")})
    assert list(survey_of_two.nodes) == ["gpu1", "gpu3"]
    assert mentions(survey_of_two, "gpu2", "did not answer")
    assert "gpu2" not in render(survey_of_two)["hosts.yml"]


def test_one_machine_that_was_named_twice_is_a_question():
    found = cluster(3)
    found[2]["facts"]["boot_id"] = found[1]["facts"]["boot_id"]
    assert mentions(nodes.discovered(found), "gpu2, gpu3", "one machine (one boot id)")


def test_two_nodes_with_one_host_name_are_named_with_the_fix():
    found = cluster(3)
    found[2]["hostname"] = "gpu1"
    survey_of_three = nodes.discovered(found)
    assert mentions(survey_of_three, "gpu[1,3]", "same host name, gpu1", "hostnamectl")
    assert survey_of_three.questions == []


def test_two_nodes_with_one_name_or_a_name_that_is_none_are_questions():
    found = cluster(3)
    named = {"gpu2": Named("gpu2", "gpu1"), "gpu3": Named("gpu3", "all")}
    questions = [one.text for one in nodes.discovered(found, **named).questions]
    assert any("gpu1, gpu2: all are called gpu1" in text for text in questions)
    assert any("gpu3" in text and "'all' cannot be a host's name" in text for text in questions)


def test_nodes_without_a_number_get_an_index_and_users_of_their_own_are_set_at_the_node(tmp_path):
    found = cluster(2)
    for node, name in zip(found, ("north", "south"), strict=True):
        node["hostname"] = name
    named = {
        "gpu1": Named("gpu1", "north", "198.18.0.1", "me"),
        "gpu2": Named("gpu2", "south", "198.18.0.2", "you"),
    }
    files = render(nodes.discovered(found, **named))
    hosts = yaml.safe_load(files["hosts.yml"])["gpu_nodes"]["hosts"]
    assert hosts["north"] == {"ansible_host": "198.18.0.1", "node_index": 1, "ansible_user": "me"}
    assert hosts["south"] == {"ansible_host": "198.18.0.2", "node_index": 2, "ansible_user": "you"}
    assert "group_vars/all/connection.yml" not in files
    command.write(tmp_path / "inventory", files)


def test_gpus_and_nvlink_domains_that_differ_are_folded_into_groups(tmp_path):
    found = cluster(6, switched=True)
    for number, node in enumerate(found, 1):
        node["facts"]["gpus"] = nodes.gpus_of(
            "NVIDIA H100" if number > 2 else "NVIDIA H200", ["0000:19:00.0"]
        )
        node["nvlink_domain"] = f"rack.{number % 2}"
    files = render(nodes.discovered(found))
    assert yaml.safe_load(files["group_vars/all/gpus.yml"]) == {
        "expected_gpus": {"count": 1, "model": "NVIDIA H100"}
    }
    assert of_groups(files) == {
        (("gpu1", "gpu2"), ("{'count': 1, 'model': 'NVIDIA H200'}",)),
        (("gpu1", "gpu3", "gpu5"), ("rack.1",)),
        (("gpu2", "gpu4", "gpu6"), ("rack.0",)),
    }
    command.write(tmp_path / "inventory", files)


def test_gpus_that_nvidia_smi_did_not_name_are_counted_and_their_model_is_not_known():
    found = cluster(3, switched=True)
    for number, node in enumerate(found, 1):
        node["facts"]["gpus"] = nodes.gpus_of("NVIDIA H100", ["0000:19:00.0"])
        if number > 1:
            why = {"class": "silent", "message": "nvidia-smi gave no answer in 10 s"}
            node["facts"]["gpus"] |= {"rows": [], "errors": {"rows": why, "topology": why}}
    survey_of_three = nodes.discovered(found)
    assert survey_of_three.not_known == ["gpu[2-3]: the GPUs' model: nvidia-smi gave no answer in 10 s"]
    assert of_groups(render(survey_of_three)) == set()
    found[0]["facts"]["gpus"]["near"] = "nonsense"
    assert mentions(nodes.discovered(found), "gpu1", "the GPUs", "gpus.near")


@pytest.mark.parametrize(
    ("addresses", "written", "words"),
    [
        # A GPU that fell off the bus stays expected, so that `validate` fails.
        (["0000:19:00.0"], set(), ("GPUs on the PCI bus: 1, others have 2", "expects as many here")),
        ([], {(("gpu1",), "{'count': 0}")}, ("GPUs on the PCI bus: 0, others have 2",)),
    ],
)
def test_a_node_with_fewer_gpus_is_named_and_a_lost_one_stays_expected(addresses, written, words):
    found = cluster(3, switched=True)
    for number, node in enumerate(found, 1):
        own = addresses if number == 1 else ["0000:19:00.0", "0000:41:00.0"]
        node["facts"]["gpus"] = nodes.gpus_of("NVIDIA H100", own)
    survey_of_three = nodes.discovered(found)
    assert mentions(survey_of_three, "gpu1", *words)
    files = render(survey_of_three)
    assert yaml.safe_load(files["group_vars/all/gpus.yml"])["expected_gpus"]["count"] == 2
    hosts = yaml.safe_load(files["hosts.yml"])["gpu_nodes"]["hosts"]
    own = {((name,), str(one["expected_gpus"])) for name, one in hosts.items() if "expected_gpus" in one}
    assert own == written


def test_gpus_that_cannot_be_read_are_not_declared_to_be_none():
    found = cluster(3, switched=True)
    for node in found:
        node["facts"]["gpus"] = nodes.gpus_of("NVIDIA H100", ["0000:19:00.0"])
    found[0]["facts"]["gpus"]["near"] = "nonsense"
    files = render(nodes.discovered(found))
    assert "expected_gpus" not in files["hosts.yml"]
    assert yaml.safe_load(files["group_vars/all/gpus.yml"])["expected_gpus"]["count"] == 1


def test_equal_overrides_of_several_nodes_are_one_group(tmp_path):
    found = cluster(5, switched=True)
    for node in (found[1], found[3]):
        for part in (node["facts"]["netdevs"], node["ports"], node["facts"]["hcas"]):
            next(one for one in part if one["netdev"] == "ens2").update(netdev="enp27s0", pci="0000:1b:00.0")
        for one in found:
            for heard in one["beacons"]:
                if one is node and heard["netdev"] == "ens2":
                    heard["netdev"] = "enp27s0"
                for sender in heard["senders"]:
                    if (sender["key"], sender["netdev"]) == (node["key"], "ens2"):
                        sender["netdev"] = "enp27s0"
    survey_of_five = nodes.discovered(found)
    override = "{'rail1': {'netdev': 'enp27s0'}}"
    assert of_groups(render(survey_of_five)) == {(("gpu2", "gpu4"), (override,))}
    assert mentions(
        survey_of_five, "gpu[2,4]", "rail1 is enp27s0 (0000:1b:00.0), on most nodes ens2 (0000:40:00.0)"
    )
    written(tmp_path, survey_of_five)

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports become rails, on the smallest cluster that shows each rule."""

from __future__ import annotations

import pytest
import yaml
from railyard.discover.files import render
from railyard.discover.model import Options
from support.discover import nodes
from support.discover.clusters import TWO, cluster, hca, mentions, names, port, row, written


def test_the_kind_that_carries_most_together_is_rails():
    found = cluster(4)
    for node in found:
        extra = nodes.made_up(
            node["key"], [{"netdev": "store0", "pci": "0000:80:00.0", "gbps": 100, "pci_id": "15b3:101d"}]
        )
        for part in ("netdevs", "hcas"):
            node["facts"][part] += [one for one in extra["facts"][part] if one["netdev"] == "store0"]
        node["ports"].append(port(extra, "store0"))
    assert names(nodes.discovered(found)) == ["ens1", "ens2"]


@pytest.mark.parametrize(("others", "gbps", "is_rails"), [(4, 200, True), (6, 25, False)])
def test_neither_the_fastest_nor_the_most_ports_alone_are_rails(others, gbps, is_rails):
    slots = [f"0000:9{place}:00.0" for place in range(others)]
    found = cluster(2, [TWO[0], *slots], wired=False)
    for node in found:
        for place in range(2, others + 2):
            port(node, f"ens{place}")["pci_id"] = "15b3:101b"
            row(node, f"ens{place}")["speed_mbps"] = gbps * 1000
    answer = nodes.discovered(found)
    if is_rails:
        # Faster ports beside as many slow ones: a person must choose.
        assert [one.split(" (")[0] for one in answer.questions[0].candidates] == [
            "4 x 200 Gbit/s ens2 to ens5",
            "1 x 400 Gbit/s ens1",
        ]
    else:
        assert (answer.questions, names(answer)) == ([], ["ens1"])


def test_as_fast_ports_of_another_kind_are_a_question_with_candidates():
    found = cluster(2)
    for node in found:
        port(node, "ens2")["pci_id"] = "14e4:1760"
    open_question = nodes.discovered(found)
    (question,) = open_question.questions
    assert question.key == "rails"
    assert [text.split(" (")[0] for text in question.candidates] == [
        "1 x 400 Gbit/s ens1",
        "1 x 400 Gbit/s ens2",
    ]
    with pytest.raises(ValueError, match="question"):
        render(open_question)
    for text, netdev in zip(question.candidates, ("ens1", "ens2"), strict=True):
        answered = nodes.discovered(found, Options(answers={"rails": text}))
        assert (answered.questions, names(answered)) == ([], [netdev])


def test_where_each_gpu_has_a_port_beside_it_other_ports_of_the_kind_are_no_rails():
    found = cluster(2, [*TWO, "0000:9a:00.0"])
    for node in found:
        node["facts"]["gpus"] = nodes.gpus_of("H100", ["0000:19:00.0", "0000:41:00.0"], TWO)
    survey = nodes.discovered(found)
    assert names(survey) == ["ens1", "ens2"]
    assert mentions(survey, "share a PCIe switch with a GPU")


def test_the_frontend_and_what_carries_it_are_no_rails():
    found = cluster(2, [*TWO, "0000:9a:00.0"])
    for node in found:
        row(node, "eno1")["addresses"] = []
        bond = {**row(node, "eno1"), "netdev": "bond0", "kind": "bond", "pci": None, "hca": None}
        bond["addresses"] = [f"{node['login_address']}/16"]
        row(node, "ens3")["master"] = "bond0"
        node["facts"]["netdevs"].append(bond)
        node["default_route"] = ["bond0"]
    survey = nodes.discovered(found)
    assert (names(survey), survey.frontend) == (["ens1", "ens2"], "bond0")
    assert survey.oddities == []


def test_a_port_with_a_default_route_is_no_rail_though_the_node_is_reached_by_another():
    found = cluster(2)
    for node in found:
        node["default_route"] = ["ens2"]
    survey = nodes.discovered(found)
    assert (names(survey), survey.frontend) == (["ens1"], "eno1")


def test_a_member_of_another_bond_is_no_rail_and_named():
    found = cluster(2, [*TWO, "0000:9a:00.0"])
    for node in found:
        row(node, "ens3")["master"] = "bond1"
    survey = nodes.discovered(found)
    assert names(survey) == ["ens1", "ens2"]
    assert mentions(survey, "gpu[1-2]", "ens3 (0000:9a:00.0) is a member of bond1")


def test_the_port_of_a_vlan_by_which_the_node_is_reached_is_no_rail():
    found = cluster(2)
    for node in found:
        vlan = {**row(node, "ens2"), "netdev": "ens2.7", "kind": "vlan", "pci": None, "hca": None}
        node["facts"]["netdevs"].append({**vlan, "addresses": row(node, "eno1")["addresses"]})
        row(node, "eno1")["addresses"] = []
        node["default_route"] = ["ens2.7"]
    survey = nodes.discovered(found)
    assert (names(survey), survey.frontend) == (["ens1"], "ens2.7")


def test_without_route_and_login_address_the_frontend_is_a_question():
    found = cluster(2)
    for node in found:
        node |= {"default_route": [], "login_address": None}
    (question,) = nodes.discovered(found).questions
    assert (question.key, question.candidates) == ("frontend", ("eno1",))
    answered = nodes.discovered(found, Options(answers={"frontend": "eno1"}))
    assert (answered.questions, answered.frontend) == ([], "eno1")


def test_frontends_that_are_called_differently_are_named_and_not_written(tmp_path):
    found = cluster(3)
    for part in (found[2]["facts"]["netdevs"], found[2]["ports"]):
        next(one for one in part if one["netdev"] == "eno1")["netdev"] = "eno9"
    found[2]["default_route"] = ["eno9"]
    survey = nodes.discovered(found)
    assert mentions(survey, "gpu3", "frontend is not eno1")
    assert "frontend" not in written(tmp_path, survey)


def test_without_any_rdma_the_transport_is_tcp_and_the_rule_the_same(tmp_path):
    found = cluster(2, rdma=None)
    survey = nodes.discovered(found)
    assert (survey.transport, names(survey)) == ("tcp", ["ens1", "ens2"])
    assert written(tmp_path, survey)["transport"] == "tcp"


def test_a_port_that_is_down_on_all_nodes_is_no_rail_and_one_down_here_is_named():
    found = cluster(3, [*TWO, "0000:9a:00.0"])
    for node, netdev in ((found[0], "ens3"), (found[1], "ens3"), (found[2], "ens3"), (found[1], "ens2")):
        row(node, netdev)["carrier"] = False
        row(node, netdev)["speed_mbps"] = None
        hca(node, netdev)["state"] = "DOWN"
    survey = nodes.discovered(found)
    assert names(survey) == ["ens1", "ens2"]
    assert set(survey.rails[1].ports) == {"gpu1", "gpu2", "gpu3"}
    assert survey.oddities == [
        "gpu2: rail1 (ens2 (0000:40:00.0)) has no carrier. Plug in its cable, or replace it"
    ]


def test_a_rail_that_is_administratively_down_on_one_node_has_no_bad_cable():
    found = cluster(3)
    row(found[1], "ens2").update(carrier=None, admin_up=False, speed_mbps=None)
    hca(found[1], "ens2")["state"] = "DOWN"
    survey = nodes.discovered(found)
    assert set(survey.rails[1].ports) == {"gpu1", "gpu2", "gpu3"}
    assert [text for text in survey.oddities if "no carrier" in text] == []
    assert ["administratively down" in text for text in survey.not_known] == [True]


def test_ports_that_are_administratively_down_are_not_known():
    found = cluster(2, [*TWO, "0000:9a:00.0"])
    for node in found:
        row(node, "ens3").update(carrier=None, admin_up=False, speed_mbps=None)
        hca(node, "ens3")["state"] = "DOWN"
    survey = nodes.discovered(found)
    assert survey.not_known == [
        "cabling of gpu[1-2]: ens3 (0000:9a:00.0) is administratively down: `--link-up` "
        "raises it for the time of "
        "the reading"
    ]


def test_virtual_functions_are_named_and_not_taken():
    found = cluster(2)
    for node in found:
        extra = nodes.made_up(
            node["key"], [{"netdev": "ens1v0", "pci": "0000:18:00.2", "vf": True, "pci_id": "15b3:101e"}]
        )
        for part in ("netdevs", "hcas"):
            node["facts"][part] += [one for one in extra["facts"][part] if one["netdev"] == "ens1v0"]
        node["ports"].append(port(extra, "ens1v0"))
    survey = nodes.discovered(found)
    assert (names(survey), survey.questions) == (["ens1", "ens2"], [])
    assert mentions(survey, "gpu[1-2]", "virtual functions (SR-IOV)", "ens1v0", "sriov_numvfs")


def test_a_card_under_vfio_is_named_with_its_node_and_the_fix():
    found = cluster(3)
    for part in ("netdevs", "hcas"):
        found[1]["facts"][part] = [one for one in found[1]["facts"][part] if one["netdev"] != "ens2"]
    found[1]["ports"] = [one for one in found[1]["ports"] if one["netdev"] != "ens2"]
    found[1]["idle_functions"] = [{"pci": TWO[1], "pci_id": "15b3:1021", "driver": "vfio-pci"}]
    survey = nodes.discovered(found)
    assert names(survey) == ["ens1", "ens2"]
    assert mentions(survey, "gpu2", TWO[1], "driver vfio-pci loaded", "driverctl unset-override")
    assert mentions(survey, "gpu2", "1 of 2 rails", "rail1 has none")
    # docs/inventory.md: a rail that a node lacks.
    hosts = yaml.safe_load(render(survey)["hosts.yml"])["gpu_nodes"]["hosts"]
    assert [hosts[name].get("rail_overrides") for name in ("gpu1", "gpu2", "gpu3")] == [
        None,
        {"rail1": "absent"},
        None,
    ]


def test_a_node_without_any_port_for_a_rail_is_left_out_and_named(tmp_path):
    found = cluster(3)
    for part in ("netdevs", "hcas"):
        found[1]["facts"][part] = [one for one in found[1]["facts"][part] if one["netdev"] == "eno1"]
    found[1]["ports"] = [one for one in found[1]["ports"] if one["netdev"] == "eno1"]
    found[1]["idle_functions"] = [{"pci": TWO[1], "pci_id": "15b3:1021", "driver": None}]
    survey = nodes.discovered(found)
    assert mentions(survey, "gpu2", "no port that could be a rail", "no entry for it")
    assert mentions(survey, "gpu2", TWO[1], "no driver loaded")
    assert list(survey.nodes) == ["gpu1", "gpu3"]
    written(tmp_path, survey)


def test_without_any_link_the_question_has_no_list_to_choose_from():
    found = cluster(2, wired=False)
    for node in found:
        for netdev in ("ens1", "ens2"):
            row(node, netdev).update(carrier=False, speed_mbps=None)
            hca(node, netdev)["state"] = "DOWN"
    (question,) = nodes.discovered(found).questions
    assert question.key is None
    assert "no port with a link" in question.text

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule of discovery on the smallest cluster that shows it."""

from __future__ import annotations

import ipaddress

import pytest
import yaml
from railyard.discover.files import render
from railyard.discover.model import Named, Options
from railyard.discover.survey import survey
from railyard.new_inventory import command
from support.discover import nodes

TWO = ["0000:18:00.0", "0000:40:00.0"]


def cluster(count=2, slots=TWO, wired=True, switched=False, **ports):
    """Return equal nodes gpu1, gpu2, … with a port ens1, ens2, … in each slot; `ports` is of every port."""
    found = [
        nodes.made_up(
            f"gpu{number}",
            [{"netdev": f"ens{place}", "pci": slot, **ports} for place, slot in enumerate(slots, 1)],
        )
        for number in range(1, count + 1)
    ]
    if wired:
        netdevs = [f"ens{place}" for place in range(1, len(slots) + 1)]
        nodes.wire(found, [[(one["key"], netdev) for one in found] for netdev in netdevs])
    for one in found if switched else ():
        for place, _slot in enumerate(slots, 1):
            port(one, f"ens{place}")["neighbours"] = [{"switch": f"leaf{place}", "chassis": "x", "port": "1"}]
    return found


def port(node, netdev):
    return next(one for one in node["ports"] if one["netdev"] == netdev)


def row(node, netdev):
    return next(one for one in node["facts"]["netdevs"] if one["netdev"] == netdev)


def hca(node, netdev):
    return next(one for one in node["facts"]["hcas"] if one["netdev"] == netdev)


def names(found):
    return [rail.value for rail in found.rails]


def written(tmp_path, found):
    """Write the inventory, which preflight checks, and return its fabric."""
    files = render(found)
    command.write(tmp_path / "inventory", files)
    return yaml.safe_load(files["group_vars/all/fabric.yml"])["fabric"]


def of_groups(files):
    """Return of each group beside gpu_nodes its nodes and the values of its variables."""
    hosts = yaml.safe_load(files["hosts.yml"])
    return {
        (tuple(group["hosts"]), tuple(map(str, yaml.safe_load(files[f"group_vars/{name}.yml"]).values())))
        for name, group in hosts.items()
        if name != "gpu_nodes"
    }


def said(found, *words):
    """Return whether one sentence has all of the words."""
    texts = [*found.oddities, *found.not_known, *found.assumed, *(one.text for one in found.questions)]
    return any(all(word in text for word in words) for text in texts)


# Which ports are rails


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
    assert said(survey, "share a PCIe switch with a GPU")


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
    assert said(survey, "gpu[1-2]", "ens3 (0000:9a:00.0) is a member of bond1")


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
    assert said(survey, "gpu3", "frontend is not eno1")
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
    assert said(survey, "gpu[1-2]", "virtual functions (SR-IOV)", "ens1v0", "sriov_numvfs")


def test_a_card_under_vfio_is_named_with_its_node_and_the_fix():
    found = cluster(3)
    for part in ("netdevs", "hcas"):
        found[1]["facts"][part] = [one for one in found[1]["facts"][part] if one["netdev"] != "ens2"]
    found[1]["ports"] = [one for one in found[1]["ports"] if one["netdev"] != "ens2"]
    found[1]["idle_functions"] = [{"pci": TWO[1], "pci_id": "15b3:1021", "driver": "vfio-pci"}]
    survey = nodes.discovered(found)
    assert names(survey) == ["ens1", "ens2"]
    assert said(survey, "gpu2", TWO[1], "driver vfio-pci loaded", "driverctl unset-override")
    assert said(survey, "gpu2", "1 of 2 rails", "rail1 has none")
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
    assert said(survey, "gpu2", "no port that could be a rail", "no entry for it")
    assert said(survey, "gpu2", TWO[1], "no driver loaded")
    assert list(survey.nodes) == ["gpu1", "gpu3"]
    written(tmp_path, survey)


def test_nothing_with_a_link_is_a_question_that_nobody_can_answer_from_a_list():
    found = cluster(2, wired=False)
    for node in found:
        for netdev in ("ens1", "ens2"):
            row(node, netdev).update(carrier=False, speed_mbps=None)
            hca(node, netdev)["state"] = "DOWN"
    (question,) = nodes.discovered(found).questions
    assert question.key is None
    assert "no port with a link" in question.text


# Nodes


def test_a_node_without_an_answer_is_not_known_and_has_no_entry():
    found = {one["key"]: one for one in cluster(3)}
    del found["gpu2"]
    survey_of_two = survey(found, {name: Named(name, name) for name in ("gpu1", "gpu2", "gpu3")})
    assert list(survey_of_two.nodes) == ["gpu1", "gpu3"]
    assert said(survey_of_two, "gpu2", "did not answer")
    assert "gpu2" not in render(survey_of_two)["hosts.yml"]


def test_one_machine_that_was_named_twice_is_a_question():
    found = cluster(3)
    found[2]["facts"]["boot_id"] = found[1]["facts"]["boot_id"]
    assert said(nodes.discovered(found), "gpu2, gpu3", "one machine (one boot id)")


def test_two_nodes_with_one_host_name_are_named_with_the_fix():
    found = cluster(3)
    found[2]["hostname"] = "gpu1"
    survey_of_three = nodes.discovered(found)
    assert said(survey_of_three, "gpu[1,3]", "same host name, gpu1", "hostnamectl")
    assert survey_of_three.questions == []


def test_two_nodes_with_one_name_or_a_name_that_is_none_are_questions():
    found = cluster(3)
    named = {"gpu2": Named("gpu2", "gpu1"), "gpu3": Named("gpu3", "all")}
    questions = [one.text for one in nodes.discovered(found, **named).questions]
    assert any("gpu1, gpu2: all are called gpu1" in text for text in questions)
    assert any("gpu3" in text and "'all' cannot be a host's name" in text for text in questions)


def test_nodes_without_a_number_get_an_index_and_users_of_their_own_stand_at_the_node(tmp_path):
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
    assert said(nodes.discovered(found), "gpu1", "the GPUs", "gpus.near")


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
    assert said(survey_of_three, "gpu1", *words)
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
    assert said(
        survey_of_five, "gpu[2,4]", "rail1 is enp27s0 (0000:1b:00.0), on most nodes ens2 (0000:40:00.0)"
    )
    written(tmp_path, survey_of_five)


# Order and cables


def test_rails_are_in_the_order_of_their_switches_where_these_announce_themselves(tmp_path):
    found = cluster(3, switched=True)
    for node in found:
        port(node, "ens1")["neighbours"][0]["switch"] = "leaf10"
        port(node, "ens2")["neighbours"][0]["switch"] = "leaf9"
    survey_of_three = nodes.discovered(found)
    assert survey_of_three.ordered_by == "lldp"
    assert [(rail.value, rail.leaves) for rail in survey_of_three.rails] == [
        ("ens2", {None: "leaf9"}),
        ("ens1", {None: "leaf10"}),
    ]
    assert [rail["leaf"] for rail in written(tmp_path, survey_of_three)["rails"]] == ["leaf9", "leaf10"]


def test_cards_that_all_sit_elsewhere_are_found_by_their_networks():
    found = cluster(4, wired=False)
    for part in (found[3]["facts"]["netdevs"], found[3]["ports"], found[3]["facts"]["hcas"]):
        for netdev, slot in (("ens1", "0000:9b:00.0"), ("ens2", "0000:9a:00.0")):
            next(one for one in part if one["netdev"] == netdev)["pci"] = slot
    nodes.wire(found, [[(one["key"], netdev) for one in found] for netdev in ("ens1", "ens2")])
    survey_of_four = nodes.discovered(found)
    assert [rail.ports["gpu4"].pci for rail in survey_of_four.rails] == ["0000:9b:00.0", "0000:9a:00.0"]
    assert said(survey_of_four, "gpu4", "rail0 is ens1 (0000:9b:00.0)")


def test_lldp_alone_shows_a_crossed_cable():
    found = cluster(4, wired=False, switched=True)
    for netdev, other in (("ens1", "leaf2"), ("ens2", "leaf1")):
        port(found[2], netdev)["neighbours"][0]["switch"] = other
    survey_of_four = nodes.discovered(found)
    assert said(survey_of_four, "crossed cables", "gpu3 ens1", "gpu3 ens2", "Swap")
    assert [rail.leaves for rail in survey_of_four.rails] == [{None: "leaf1"}, {None: "leaf2"}]


def test_leaves_of_scalable_units_are_units_with_subnets_of_their_own(tmp_path):
    found = cluster(4, wired=False, switched=True)
    for node in found[2:]:
        for netdev in ("ens1", "ens2"):
            port(node, netdev)["neighbours"][0]["switch"] = f"leaf-b{netdev[-1]}"
    fabric = written(tmp_path, nodes.discovered(found))
    assert [rail["leaves"] for rail in fabric["rails"]] == [
        {"su1": "leaf1", "su2": "leaf-b1"},
        {"su1": "leaf2", "su2": "leaf-b2"},
    ]
    subnets = [ipaddress.ip_network(text) for rail in fabric["rails"] for text in rail["subnets"].values()]
    assert not any(one.overlaps(other) for place, one in enumerate(subnets) for other in subnets[:place])


def test_crossed_cables_of_two_nodes_are_told_apart():
    found = cluster(9, wired=False)
    # gpu2's cables are crossed, and a cable of gpu1 is where one of gpu3 belongs.
    away = {("gpu2", "ens1"), ("gpu2", "ens2"), ("gpu1", "ens1"), ("gpu3", "ens2")}
    keys = [one["key"] for one in found]
    networks = [
        [(key, netdev) for key in keys if (key, netdev) not in away]
        + [(key, other) for key in keys if (key, other) in away]
        for netdev, other in (("ens1", "ens2"), ("ens2", "ens1"))
    ]
    nodes.wire(found, networks)
    first, second = nodes.discovered(found).oddities
    for words in ("gpu1 ens1", "gpu3 ens2", "Swap the two cables"):
        assert words in first
    for words in ("gpu2 ens1", "gpu2 ens2", "Swap the two cables"):
        assert words in second


def test_two_nodes_whose_cables_join_unlike_ports_follow_the_cables(tmp_path):
    found = cluster(2, wired=False)
    nodes.wire(found, [[("gpu1", "ens1"), ("gpu2", "ens2")], [("gpu1", "ens2"), ("gpu2", "ens1")]])
    survey_of_two = nodes.discovered(found)
    assert [{name: one.netdev for name, one in rail.ports.items()} for rail in survey_of_two.rails] == [
        {"gpu1": "ens1", "gpu2": "ens2"},
        {"gpu1": "ens2", "gpu2": "ens1"},
    ]
    assert said(survey_of_two, "crossed cable", "gpu1 ens1", "gpu2 ens2")
    assert written(tmp_path, survey_of_two)["cabling"] == "back_to_back"


def test_one_cable_between_different_ports_is_one_rail(tmp_path):
    found = cluster(2, wired=False)
    for node, netdev in zip(found, ("ens1", "ens2"), strict=True):
        row(node, netdev).update(carrier=False, speed_mbps=None)
        hca(node, netdev)["state"] = "DOWN"
    nodes.wire(found, [[("gpu1", "ens2"), ("gpu2", "ens1")]])
    survey_of_two = nodes.discovered(found)
    (rail,) = survey_of_two.rails
    assert {name: one.netdev for name, one in rail.ports.items()} == {"gpu1": "ens2", "gpu2": "ens1"}
    written(tmp_path, survey_of_two)


def test_two_nodes_on_switches_that_announce_themselves_are_not_back_to_back():
    assert nodes.discovered(cluster(2, switched=True)).cabling is None


@pytest.mark.parametrize("names_itself", ["gpu{}", "ip-10-0-0-{}.example.org"])
def test_two_nodes_that_hear_each_others_lldp_are_back_to_back(names_itself):
    found = cluster(2)
    for number, (node, other) in enumerate(zip(found, reversed(found), strict=True), 1):
        node["hostname"] = f"ip-10-0-0-{number}.example.org"
        sender = names_itself.format(other["key"][-1])
        port(node, "ens1")["neighbours"] = [{"switch": sender, "chassis": "x", "port": "ens1"}]
    survey_of_two = nodes.discovered(found)
    assert survey_of_two.cabling == "back_to_back"
    assert all(rail.leaves == {} for rail in survey_of_two.rails)


def test_without_slots_and_networks_in_common_the_order_on_the_bus_counts(tmp_path):
    found = cluster(2, wired=False)
    for place, netdev in enumerate(("ens1", "ens2")):
        for part in (found[1]["facts"]["netdevs"], found[1]["ports"], found[1]["facts"]["hcas"]):
            one = next(one for one in part if one["netdev"] == netdev)
            one.update(netdev=f"enp{place}", pci=f"0000:8{place}:00.0")
    survey_of_two = nodes.discovered(found)
    assert [
        (rail.joined_by, rail.ports["gpu1"].netdev, rail.ports["gpu2"].netdev) for rail in survey_of_two.rails
    ] == [
        ("position", "ens1", "enp0"),
        ("position", "ens2", "enp1"),
    ]
    rails = written(tmp_path, survey_of_two)["rails"]
    assert all("hca" not in rail for rail in rails)


def test_ports_that_nothing_else_names_are_named_by_their_rdma_device(tmp_path):
    found = cluster(2, wired=False)
    for node in found:
        # Both ports of a ConnectX-3 in InfiniBand mode, without IPoIB.
        node["facts"]["netdevs"] = [row(node, "eno1")]
        for number, netdev in enumerate(("ens1", "ens2")):
            name = f"mlx4_0:{number + 1}"
            hca(node, netdev).update(
                hca=name, device="mlx4_0", port=number + 1, link_layer="InfiniBand", pci=TWO[0], netdev=None
            )
            port(node, netdev).update(hca=name, dev_port=number, pci=TWO[0], netdev=None)
    survey_of_two = nodes.discovered(found)
    assert survey_of_two.questions == []
    rails = written(tmp_path, survey_of_two)["rails"]
    assert [{key: rail[key] for key in ("name", "hca")} for rail in rails] == [
        {"name": "rail0", "hca": "mlx4_0:1"},
        {"name": "rail1", "hca": "mlx4_0:2"},
    ]


def test_two_ports_at_one_address_are_never_named_by_it(tmp_path):
    found = cluster(2, [TWO[0], TWO[0]])
    for node in found:
        for place, netdev in enumerate(("ens1", "ens2")):
            name = f"mlx4_0:{place + 1}"
            hca(node, netdev).update(hca=name, device="mlx4_0", port=place + 1)
            port(node, netdev).update(hca=name, dev_port=place)
            row(node, netdev)["hca"] = name
    for part in (found[1]["facts"]["netdevs"], found[1]["ports"], found[1]["facts"]["hcas"]):
        for place, netdev in enumerate(("ens1", "ens2")):
            next(one for one in part if one["netdev"] == netdev)["netdev"] = f"enp{place}"
    nodes.wire(found, [[("gpu1", "ens1"), ("gpu2", "enp0")], [("gpu1", "ens2"), ("gpu2", "enp1")]])
    survey_of_two = nodes.discovered(found)
    assert [rail.selector for rail in survey_of_two.rails] == ["netdev", "netdev"]
    assert all("pci" not in rail for rail in written(tmp_path, survey_of_two)["rails"])


def test_two_nodes_on_one_flat_network_are_not_back_to_back():
    found = cluster(2, wired=False)
    nodes.wire(found, [[(one["key"], netdev) for one in found for netdev in ("ens1", "ens2")]])
    survey_of_two = nodes.discovered(found)
    assert survey_of_two.cabling is None
    # One network for all rails tells nothing about them.
    assert {rail.joined_by for rail in survey_of_two.rails} == {"slot"}
    assert survey_of_two.oddities == []


def test_a_rail_whose_network_is_the_frontends_too_is_not_back_to_back():
    found = cluster(2, wired=False)
    nodes.wire(
        found,
        [
            [(one["key"], netdev) for one in found for netdev in ("ens1", "eno1")],
            [(one["key"], "ens2") for one in found],
        ],
    )
    assert nodes.discovered(found).cabling is None


@pytest.mark.parametrize("where", [[], [("gpu2", "ens1"), ("gpu2", "eno1"), ("gpu1", "eno1")]])
def test_a_port_that_is_on_no_rails_network_is_named(where):
    found = cluster(4, wired=False)
    networks = [
        [(one["key"], netdev) for one in found if (one["key"], netdev) != ("gpu2", "ens1")]
        for netdev in ("ens1", "ens2")
    ]
    nodes.wire(found, [*networks, where])
    (text,) = nodes.discovered(found).oddities
    for words in ("gpu2: rail0 (ens1 (0000:18:00.0))", "not on one network", "VLAN"):
        assert words in text


def test_a_port_on_a_network_that_two_other_rails_share_is_named_without_a_guess():
    found = cluster(4, [*TWO, "0000:9a:00.0"], wired=False)
    shared = [(one["key"], netdev) for one in found for netdev in ("ens2", "ens3")]
    own = [(one["key"], "ens1") for one in found[:3]]
    nodes.wire(found, [own, [*shared, ("gpu4", "ens1")]])
    (text,) = nodes.discovered(found).oddities
    assert "gpu4: rail0 (ens1 (0000:18:00.0)) is not on one network" in text


def test_a_port_that_did_not_listen_is_not_known_and_nothing_odd():
    found = cluster(4, wired=False)
    nodes.wire(
        found,
        [
            [(one["key"], netdev) for one in found if (one["key"], netdev) != ("gpu2", "ens1")]
            for netdev in ("ens1", "ens2")
        ],
    )
    next(one for one in found[1]["beacons"] if one["netdev"] == "ens1")["error"] = "no packet sockets"
    survey_of_four = nodes.discovered(found)
    assert survey_of_four.not_known == ["cabling of gpu2: ens1 heard nobody: no packet sockets"]
    assert survey_of_four.oddities == []


def down(node, netdev):
    """Let a port be administratively down."""
    row(node, netdev).update(carrier=None, admin_up=False, speed_mbps=None)
    hca(node, netdev).update(state="DOWN", rate_gbps=40)


def test_ports_that_are_all_down_are_a_question_that_names_link_up():
    found = cluster(2, wired=False)
    for node in found:
        down(node, "ens1")
        down(node, "ens2")
    (question,) = nodes.discovered(found).questions
    assert "gpu[1-2] are administratively down. Discover with --link-up" in question.text


def test_ports_that_were_raised_are_rails_with_the_rate_that_they_had_then(tmp_path):
    found = cluster(2)
    for node in found:
        for netdev in ("ens1", "ens2"):
            down(node, netdev)
            heard = next(one for one in node["beacons"] if one["netdev"] == netdev)
            heard.update(raised=True, speed_mbps=200_000)
    survey_of_two = nodes.discovered(found)
    assert (survey_of_two.not_known, survey_of_two.oddities) == ([], [])
    assert [rail["rate_gbps"] for rail in written(tmp_path, survey_of_two)["rails"]] == [200, 200]


def test_the_rate_of_a_port_without_a_link_is_nobodys():
    found = cluster(2)
    for node in found:
        for netdev in ("ens1", "ens2"):
            down(node, netdev)
            next(one for one in node["beacons"] if one["netdev"] == netdev).update(
                raised=True, speed_mbps=None
            )
    assert [rail.rate_gbps for rail in nodes.discovered(found).rails] == [None, None]


def test_a_port_that_was_raised_and_has_no_carrier_is_no_rail():
    found = cluster(2)
    for node in found:
        down(node, "ens2")
        heard = next(one for one in node["beacons"] if one["netdev"] == "ens2")
        heard.update(raised=True, speed_mbps=None, senders=[], error="it has no carrier")
        for one in node["beacons"]:
            one["senders"] = [sender for sender in one["senders"] if sender["netdev"] != "ens2"]
    survey_of_two = nodes.discovered(found)
    assert (names(survey_of_two), survey_of_two.not_known) == (["ens1"], [])


def test_without_rdma_ports_that_are_down_are_not_known_either():
    found = cluster(2, [*TWO, "0000:9a:00.0"], rdma=None)
    for node in found:
        row(node, "ens3").update(carrier=None, admin_up=False, speed_mbps=None)
    assert said(nodes.discovered(found), "gpu[1-2]", "ens3 (0000:9a:00.0) is administratively down")


def test_a_node_that_nobody_hears_is_named():
    found = cluster(4)
    nodes.wire(found, [[(one["key"], netdev) for one in found[:3]] for netdev in ("ens1", "ens2")])
    assert said(nodes.discovered(found), "gpu4", "no other node was heard on any rail")


def test_why_a_port_did_not_listen_is_not_known():
    found = cluster(2)
    for one in found[0]["beacons"]:
        one["error"] = "no permission: not root"
    assert said(nodes.discovered(found), "cabling of gpu1: ens1 heard nobody: no permission: not root")


def on_one_wire(found):
    """Make ens1 and ens2 two functions on one wire."""
    for node in found:
        for netdev in ("ens1", "ens2"):
            port(node, netdev)["physical_port"] = f"card-of-{node['key']} p0"
    nodes.wire(found, [[(one["key"], netdev) for one in found for netdev in ("ens1", "ens2")]])


def test_a_node_does_not_lack_one_of_two_functions_on_a_wire():
    found = cluster(4, [*TWO, "0000:9a:00.0"])
    on_one_wire(found)
    for part in ("netdevs", "hcas"):
        found[1]["facts"][part] = [
            one for one in found[1]["facts"][part] if one["netdev"] not in ("ens2", "ens3")
        ]
    found[1]["ports"] = [one for one in found[1]["ports"] if one["netdev"] not in ("ens2", "ens3")]
    survey_of_four = nodes.discovered(found)
    assert survey_of_four.rails[0].shares_wire_with == "rail1"
    assert survey_of_four.nodes["gpu2"].overrides == {"rail2": "absent"}
    assert said(survey_of_four, "gpu2", "rail1, rail2 have none")


def test_two_functions_on_one_wire_are_two_rails_that_share_it(tmp_path):
    found = cluster(2, gbps=200)
    on_one_wire(found)
    fabric = written(tmp_path, nodes.discovered(found))
    assert fabric["rails"][0]["shares_wire_with"] == "rail1"
    assert [rail["rate_gbps"] for rail in fabric["rails"]] == [200, 200]


def test_a_port_in_another_infiniband_subnet_and_one_without_a_subnet_manager_are_named():
    found = cluster(3, wired=False)
    for node in found:
        for netdev in ("ens1", "ens2"):
            gid = {"index": 0, "type": "IB/RoCE v1", "netdev": None, "address": None}
            hca(node, netdev).update(
                link_layer="InfiniBand",
                sm_lid=1,
                gids=[{**gid, "gid": "fe80:0000:0000:0000:0000:0000:0000:0001"}],
            )
            row(node, netdev).update(kind="ipoib")
    hca(found[2], "ens1")["gids"][0]["gid"] = "fe80:0000:0000:0001:0000:0000:0000:0001"
    hca(found[1], "ens2")["state"] = "INIT"
    survey_of_three = nodes.discovered(found)
    assert survey_of_three.transport == "infiniband"
    assert said(survey_of_three, "gpu3", "rail0", "InfiniBand subnet fe80:0000:0000:0001", "most nodes")
    hca(found[2], "ens1")["gids"][0]["gid"] = "fe80:0000:0000:0000:0000:0000:0000:0001"
    hca(found[2], "ens1")["sm_lid"] = 7
    assert said(nodes.discovered(found), "gpu3", "rail0", "subnet manager at LID 7", "most nodes", "at LID 1")
    assert said(survey_of_three, "gpu2", "rail1", "INIT", "subnet manager")


# Rates, cards, addresses


def test_a_slower_link_is_reported_and_not_written(tmp_path):
    found = cluster(4)
    row(found[1], "ens2")["speed_mbps"] = 200_000
    survey_of_four = nodes.discovered(found)
    assert said(survey_of_four, "gpu2", "rail1", "runs at 200 Gbit/s", "most nodes at 400")
    assert [rail["rate_gbps"] for rail in written(tmp_path, survey_of_four)["rails"]] == [400, 400]


def test_a_slower_link_between_cards_that_can_do_more_is_said():
    assert said(nodes.discovered(cluster(4, gbps=200, max_gbps=400)), "200 Gbit/s", "can do 400")


def test_another_card_in_a_rails_slot_is_its_port_and_named():
    found = cluster(4, card="MCX75310AAS")
    port(found[2], "ens2").update(model="MCX653105A", pci_id="15b3:101b")
    row(found[2], "ens2")["speed_mbps"] = 200_000
    survey_of_four = nodes.discovered(found)
    assert survey_of_four.rails[1].ports["gpu3"].netdev == "ens2"
    assert said(survey_of_four, "gpu3", "rail1", "card MCX653105A", "MCX75310AAS")


def test_new_subnets_overlap_no_network_of_the_nodes(tmp_path):
    found = cluster(3)
    for number, node in enumerate(found, 1):
        row(node, "eno1")["addresses"] += [f"10.224.0.{number}/16", f"10.208.0.{number}/16"]
    fabric = written(tmp_path, nodes.discovered(found))
    assert [rail["subnet"] for rail in fabric["rails"]] == ["10.192.0.0/24", "10.192.1.0/24"]


def test_addresses_are_kept_with_an_offset_or_as_overrides(tmp_path):
    found = cluster(3, mtu_bytes=4200)
    for number, node in enumerate(found, 1):
        row(node, "ens1")["addresses"] = [f"10.1.0.{number + 10}/24"]
        row(node, "ens2")["addresses"] = [f"10.2.0.{number + 10}/24"]
    fabric = written(tmp_path / "one", nodes.discovered(found, Options(keep_addresses=True)))
    assert (fabric["host_offset"], fabric["mtu"]) == (10, 4200)
    assert [rail["subnet"] for rail in fabric["rails"]] == ["10.1.0.0/24", "10.2.0.0/24"]
    row(found[1], "ens2")["addresses"] = ["10.2.0.77/24"]
    hosts = yaml.safe_load(render(nodes.discovered(found, Options(keep_addresses=True)))["hosts.yml"])[
        "gpu_nodes"
    ]["hosts"]
    assert [hosts[name]["node_index"] for name in ("gpu1", "gpu2", "gpu3")] == [11, 12, 13]
    assert hosts["gpu2"]["rail_overrides"] == {"rail1": {"address": "10.2.0.77/24"}}


def test_a_cable_whose_two_ends_are_a_network_of_their_own_is_kept(tmp_path):
    found = cluster(2)
    for number, node in enumerate(found):
        row(node, "ens1")["addresses"] = [f"10.1.0.{number}/31"]
        row(node, "ens2")["addresses"] = [f"10.1.0.{number + 2}/31"]
    fabric = written(tmp_path, nodes.discovered(found, Options(keep_addresses=True)))
    assert [rail["subnet"] for rail in fabric["rails"]] == ["10.1.0.0/31", "10.1.0.2/31"]
    assert fabric["host_offset"] == -1


@pytest.mark.parametrize(
    "change",
    [
        {"gpu2": []},
        {"gpu2": ["10.9.0.2/24"]},
        {"gpu1": ["198.18.3.1/16"], "gpu2": ["198.18.3.2/16"], "gpu3": ["198.18.3.3/16"]},
        {"gpu2": ["10.1.0.2/24", "10.7.0.2/24"]},
        {"gpu2": ["10.1.0.1/24"]},
    ],
)
def test_addresses_that_are_no_network_of_a_rail_are_not_kept_and_that_is_said(tmp_path, change):
    found = cluster(3)
    for number, node in enumerate(found, 1):
        row(node, "ens1")["addresses"] = change.get(node["key"], [f"10.1.0.{number}/24"])
        row(node, "ens2")["addresses"] = [f"10.2.0.{number}/24"]
    survey_of_three = nodes.discovered(found, Options(keep_addresses=True))
    assert said(survey_of_three, "addresses are not kept")
    assert [rail["subnet"] for rail in written(tmp_path, survey_of_three)["rails"]] == [
        "10.224.0.0/24",
        "10.224.1.0/24",
    ]


def test_a_network_beside_the_rails_is_written_and_left_alone(tmp_path):
    found = cluster(3)
    for number, node in enumerate(found, 1):
        extra = nodes.made_up(
            node["key"], [{"netdev": "eno2", "pci": "0000:01:00.1", "gbps": 25, "rdma": None}]
        )
        node["facts"]["netdevs"].append({**row(extra, "eno2"), "addresses": [f"10.8.0.{number}/24"]})
        node["ports"].append(port(extra, "eno2"))
    assert written(tmp_path, nodes.discovered(found))["networks"] == [
        {"name": "eno2", "purpose": "other", "netdev": "eno2", "subnet": "10.8.0.0/24", "manage": False}
    ]


def test_two_bmcs_with_one_address_are_named_and_not_written():
    found = cluster(2)
    for node in found:
        node["bmc_address"] = "10.5.0.1"
    survey_of_two = nodes.discovered(found)
    assert said(survey_of_two, "gpu[1-2]", "10.5.0.1")
    assert all(node.bmc_address is None for node in survey_of_two.nodes.values())


def test_the_mtu_is_no_more_than_the_cards_take(tmp_path):
    found = cluster(2)
    row(found[1], "ens1")["mtu_max_bytes"] = 4096
    assert written(tmp_path, nodes.discovered(found))["mtu"] == 4096


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        ("Dell Inc. PowerEdge XE9680", "hardware"),
        ("QEMU Standard PC (Q35 + ICH9, 2009)", "virtual"),
        ("Microsoft Corporation Virtual Machine", "virtual"),
        ("Amazon EC2 p5.48xlarge", "virtual"),
        ("Amazon EC2 c7gn.metal", "hardware"),
        (None, "hardware"),
    ],
)
def test_a_guest_is_told_from_a_server_by_its_product(product, kind):
    found = cluster(2)
    for node in found:
        node["product"] = product
    assert nodes.discovered(found).node_class == kind

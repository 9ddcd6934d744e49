# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers of ibstat, ibstatus, ibv_devinfo and rdma link."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures
from support.captures import failed, one, parse_valid, shows

FILES = {
    "ibstat": "dual_port.txt",
    "ibstatus": "two.txt",
    "ibv_devinfo": "verbose.txt",
    "rdma-link": "text.txt",
}


def read(tool: str, name: str | None = None) -> str:
    return captures.read(tool, name or FILES[tool])


def devices(tool: str) -> list[dict[str, Any]]:
    return one(tool, read(tool))["devices"]


def test_ibstat_of_two_ports_and_blank_fields():
    card, soft = devices("ibstat")
    assert (card["name"], card["ca_type"], card["firmware"]) == ("mlx4_0", "MT4099", "2.42.5000")
    assert [(port["port"], port["state"], port["physical_state"]) for port in card["ports"]] == [
        (1, "Active", "LinkUp"),
        (2, "Down", "Disabled"),
    ]
    shows(card["ports"][0], rate_gbps=40.0, lid=0, link_layer="Ethernet")
    assert (soft["ca_type"], soft["firmware"], soft["ports"][0]["rate_gbps"]) == (None, None, 2.5)


def test_ibstat_warns_of_a_rate_that_means_nothing_and_of_a_missing_subnet_manager():
    text = read("ibstat")
    assert registry.parse("ibstat", text)["warnings"] == [
        "mlx4_0 port 2: the rate of a port that is down means nothing"
    ]
    alone = registry.parse("ibstat", text.replace("Physical state: Disabled", "Physical state: LinkUp"))
    assert "no subnet manager" in alone["warnings"][0]


def test_ibstatus_has_hexadecimal_lids():
    first, second = devices("ibstatus")
    assert first["ports"] == [
        {
            "port": 1,
            "state": "ACTIVE",
            "physical_state": "LinkUp",
            "rate_gbps": 100.0,
            "lid": 27,
            "sm_lid": 1,
            "link_layer": "InfiniBand",
            "active_mtu_bytes": None,
            "max_mtu_bytes": None,
        }
    ]
    assert (second["ports"][0]["state"], second["ports"][0]["lid"]) == ("INIT", 65535)


def test_ibv_devinfo_keeps_the_words_and_calculates_the_rate():
    (device,) = devices("ibv_devinfo")
    (port,) = device.pop("ports")
    assert device == {
        "name": "mlx5_0",
        "ca_type": None,
        "firmware": "28.39.1002",
        "board_id": "MT_0000000838",
        "vendor_part_id": "4129",
        "transport": "InfiniBand",
    }
    shows(port, state="PORT_ACTIVE", physical_state="LINK_UP", link_layer="Ethernet")
    assert (port["active_mtu_bytes"], port["max_mtu_bytes"], port["lid"]) == (1024, 4096, 0)
    assert port["rate_gbps"] == 400.0


def test_ibv_devinfo_without_v_states_no_rate():
    brief = "\n".join(line for line in read("ibv_devinfo").splitlines() if "active_width" not in line)
    (output,) = registry.parse("ibv_devinfo", brief)["outputs"]
    assert output["devices"][0]["ports"][0]["rate_gbps"] is None


def test_rdma_link_of_both_ages_and_json():
    (output,) = registry.parse("rdma-link", read("rdma-link"))["outputs"]
    infiniband, soft, old = output["links"]
    shows(infiniband, device="mlx5_0", lid=27, sm_lid=1, netdev=None)
    shows(soft, state="ACTIVE", physical_state="LINK_UP", netdev="ens6", lid=None)
    assert (old["device"], old["port"], old["state"], old["netdev"]) == ("mlx5_5", 1, "DOWN", "ens7")
    (as_json,) = registry.parse("rdma-link", read("rdma-link", "json.txt"))["outputs"]
    assert as_json["links"] == [infiniband, soft]
    # Two nodes' lists in one file, the second one whole and cut.
    text = read("rdma-link", "json.txt")
    assert parse_valid("rdma-link", text + text) == [as_json, as_json]
    assert failed("rdma-link", text + text[:-20] + "\n") == "truncated"
    assert failed("rdma-link", text.replace('"ACTIVE"', "true")) == "truncated"


@pytest.mark.parametrize(
    ("tool", "text", "kind"),
    [
        (
            "ibstat",
            "ibpanic: [1400444] main: stat of IB device 'mlx5_8' failed: No such file or directory\n",
            "tool_error",
        ),
        ("ibv_devinfo", "No IB devices found\n", "no_device"),
        ("ibv_devinfo", "Failed to get IB devices list: Function not implemented\n", "no_rdma"),
        ("rdma-link", "Failed to open NETLINK_RDMA socket\n", "no_rdma"),
        ("rdma-link", "[]\n", "no_device"),
    ],
)
def test_the_tools_own_failures_are_understood(tool, text, kind):
    found = registry.parse(tool, text)
    assert (found["valid"], found["error"]["class"], found["outputs"]) == (False, kind, [])


def test_a_panic_behind_good_devices_spoils_the_output():
    found = registry.parse(
        "ibstat", read("ibstat") + "ibpanic: [1] main: stat of IB device 'mlx5_8' failed\n"
    )
    assert found["valid"] is False
    assert len(found["outputs"][0]["devices"]) == 2


def test_ibstat_of_one_port():
    """`ibstat DEVICE PORT` has a colon behind CA and no fields of the device."""
    text = (
        "CA: 'mlx5_0'\nPort 1:\nState: Initializing\nPhysical state: LinkUp\nRate: 100\nBase lid: 65535\n"
        "LMC: 0\nSM lid: 0\nPort GUID: 0x0000000000000001\nLink layer: InfiniBand\n"
    )
    outputs = parse_valid("ibstat", text)
    (port,) = outputs[0]["devices"][0]["ports"]
    shows(port, state="Initializing", rate_gbps=100.0, lid=65535, sm_lid=0)


def test_debug_lines_of_ibstat_are_no_error():
    text = "ibwarn: [168988] umad_init: umad_init\n" + read("ibstat")
    assert registry.parse("ibstat", text)["valid"] is True


def test_ibv_devinfo_of_soft_roce():
    outputs = parse_valid("ibv_devinfo", read("ibv_devinfo", "rxe_verbose.txt"))
    (device,) = outputs[0]["devices"]
    assert (device["name"], device["firmware"], device["transport"]) == ("rxe0", "0.0.0", "InfiniBand")
    assert device["ports"] == [
        {
            "port": 1,
            "state": "PORT_ACTIVE",
            "physical_state": "LINK_UP",
            "rate_gbps": 2.5,
            "lid": 0,
            "sm_lid": 0,
            "link_layer": "Ethernet",
            "active_mtu_bytes": 4096,
            "max_mtu_bytes": 4096,
        }
    ]


def test_verbose_port_that_ends_with_its_link_layer_was_cut():
    cut = read("ibv_devinfo").split("\t\t\tactive_width")[0]
    assert failed("ibv_devinfo", cut) == "truncated"


def test_list_of_device_names():
    outputs = parse_valid("ibv_devinfo", "2 HCAs found:\n\tmlx5_0\n\tmlx5_1\n\n")
    assert [one["name"] for one in outputs[0]["devices"]] == ["mlx5_0", "mlx5_1"]
    assert failed("ibv_devinfo", "2 HCAs found:\n\tmlx5_0\n") == "truncated"
    assert failed("ibv_devinfo", "0 HCAs found:\n") == "no_device"


def test_details_of_rdma_link():
    outputs = parse_valid("rdma-link", read("rdma-link", "rxe_details.txt"))
    links = outputs[0]["links"]
    assert [(one["device"], one["netdev"]) for one in links] == [("rxe0", "ens6"), ("rxe1", "ens6d1")]


LINK = "link rxe0/1 state ACTIVE physical_state LINK_UP"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{LINK} netdev\n", "truncated"),
        (f"link rx\n\n{LINK}\n", "truncated"),
        (f"link rxe0/1\n\n{LINK}\n", "truncated"),
        (LINK.removesuffix("_UP") + "\n", "truncated"),
        (LINK.replace("LINK_UP", "P") + "\n", "truncated"),
        (f"{LINK} netdev ens6\n".replace("ACTIVE ", ""), "garbled"),
        (f"{LINK} netdev ens6\n".replace("LINK_UP ", ""), "garbled"),
    ],
)
def test_a_link_of_which_a_word_is_missing(text, kind):
    assert parse_valid("rdma-link", f"{LINK}\n") != []
    assert parse_valid("rdma-link", f"{LINK} netdev ens6\n") != []
    assert failed("rdma-link", text) == kind


def test_half_a_number_is_no_mtu():
    text = captures.read("ibv_devinfo", "verbose.txt")
    found = captures.parse_failed("ibv_devinfo", text.replace("4096 (5)", "40", 1), "garbled")
    assert found["outputs"][0]["devices"][0]["ports"][0]["max_mtu_bytes"] is None


def test_gid_types_in_the_kernels_words():
    text = captures.read("show_gids", "mixed.txt")
    spoken = text.replace("\tv2\t", "\tRoCE v2\t").replace("\tv1\t", "\tIB/RoCE v1\t")
    assert spoken != text
    assert registry.parse("show_gids", spoken) == registry.parse("show_gids", text)


def test_gids_of_a_node_with_a_further_device():
    text = captures.read("show_gids", "mixed.txt")
    more = text.replace("mlx4_0", "bond_0")
    outputs = parse_valid("show_gids", text + "\n" + more)
    names = [{row["device"] for row in output["gids"]} for output in outputs]
    assert (len(names), "bond_0" in names[0]) == (2, False)


@pytest.mark.parametrize(
    ("tool", "first", "second", "form"),
    [
        ("rdma-link", "text.txt", read("rdma-link", "json.txt"), "JSON"),
        ("ibv_devinfo", "verbose.txt", "2 HCAs found:\n\tmlx5_0\n\tmlx5_1\n", "list"),
    ],
)
def test_second_form_in_a_file_is_reported(tool, first, second, form):
    alone = registry.parse(tool, read(tool, first))
    found = registry.parse(tool, read(tool, first) + second)
    assert (found["valid"], found["outputs"]) == (True, alone["outputs"])
    assert form in found["warnings"][-1]

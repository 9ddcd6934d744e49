# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE QoS set by each tool, read back, kept for the next boot, and refused where it cannot be."""

from __future__ import annotations

import errno
import json
import os
import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.qos import settings
from ansible_collections.railyard.fabric.plugins.module_utils.qos.settings import QosError
from ansible_collections.railyard.fabric.plugins.module_utils.qos.tools import Answer
from support.nodes.qos_node import DEFAULTS, QosNode

TOOLS = [("mlnx_qos", "ethtool"), ("dcb", "ethtool")]
PFC_ON_3 = [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.fixture
def node(tmp_path):
    """Two ports with the vendor's driver and tools."""
    return QosNode(tmp_path, TOOLS[0]).vendor()


@pytest.fixture(params=TOOLS, ids=lambda tools: tools[0])
def each(tmp_path, request):
    """The same, set by either tool."""
    return QosNode(tmp_path, request.param).vendor()


def test_traffic_class_carries_dscp_and_ect():
    # RFC 2474 and 3168: six bits of DSCP, then 10 for ECT(0).
    assert settings.traffic_class(26) == 0b011010_10 == 106
    assert settings.traffic_class(0) == 0b000000_10


@pytest.mark.parametrize("tools", TOOLS)
def test_a_fresh_port_gets_all_of_it_and_a_second_run_nothing(tmp_path, tools):
    node = QosNode(tmp_path, tools).vendor()
    done = node.hold()
    assert done["changed"]
    assert done["tool"] == tools[0]
    for number, netdev in enumerate(("ens1", "ens2")):
        port = node.port(netdev)
        assert port["pfc"] == PFC_ON_3
        assert [port["dscp"][one] for one in ("26", "48", "63")] == [3, 6, 7]
        assert len(port["dscp"]) == 64
        assert (port["pause"]["rx"], port["pause"]["tx"]) == (False, False)
        assert port["dcbx"] == ["cee", "host", "ieee"]
        assert node.text(f"class/net/{netdev}/ecn/roce_np/enable/3") == "1"
        assert node.text(f"class/net/{netdev}/ecn/roce_rp/enable/3") == "1"
        assert node.text(f"class/net/{netdev}/ecn/roce_np/enable/4") == "0"
        assert node.text(f"class/net/{netdev}/ecn/roce_np/cnp_dscp") == "48"
        assert node.text(f"class/net/{netdev}/ecn/roce_np/cnp_802p_prio") == "6"
        assert node.text(f"class/infiniband/mlx5_{number}/tc/1/traffic_class") == "Global tclass=106"
        assert node.text(f"kernel/config/rdma_cm/mlx5_{number}/ports/1/default_roce_tos") == "106"
    node.calls()
    for check_mode in (True, False):
        again = node.hold(check_mode)
        assert not again["changed"]
        assert again["diff"]["before"] == again["diff"]["after"] == ""
    assert node.calls() == []


def test_check_mode_tells_the_same_and_changes_nothing(each, tmp_path):
    checked = each.hold(check_mode=True)
    assert each.calls() == []
    assert each.text("class/net/ens1/ecn/roce_np/cnp_dscp") == "0"
    assert not (tmp_path / "var").exists()
    done = each.hold()
    assert (checked["changed"], checked["diff"]) == (done["changed"], done["diff"])
    assert [one["changed"] for one in checked["ports"]] == [one["changed"] for one in done["ports"]]
    assert "rail0 pfc: 0 0 0 0 0 0 0 0\n" in done["diff"]["before"]
    assert "rail1 traffic_class: 106\n" in done["diff"]["after"]


def test_other_values_are_set_and_only_what_differs(each):
    each.hold()
    each.calls()
    done = each.hold(
        dscp=24,
        priority=5,
        cnp_dscp=26,
        cnp_priority=3,
        buffer_of_priority=[0, 0, 0, 0, 0, 1, 0, 0],
        buffers_bytes=[20352, 131072, 0, 0, 0, 0, 0, 0],
    )
    port = each.port("ens2")
    assert (port["dscp"]["24"], port["dscp"]["26"], port["dscp"]["0"]) == (5, 3, 0)
    assert port["pfc"] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert (port["places"], port["buffers"][1]) == ([0, 0, 0, 0, 0, 1, 0, 0], 131072)
    assert each.text("class/infiniband/mlx5_1/tc/1/traffic_class") == "Global tclass=98"
    assert "trust" not in done["ports"][0]["changed"]
    assert not [call for call in each.calls() if call.startswith("ethtool -A")]


def test_a_tool_that_reports_success_and_changes_nothing_is_caught(each, tmp_path):
    each.state["lies"] = True
    each.keep()
    with pytest.raises(QosError, match=r"rail0 \(ens1\): not read back as set") as caught:
        each.hold()
    assert "pfc was set to 0 0 0 1 0 0 0 0 and reads 0 0 0 0 0 0 0 0" in str(caught.value)
    assert "trust was set to dscp and reads pcp" in str(caught.value)
    assert not (tmp_path / "var").exists()


def refuse_to_open(monkeypatch, pattern):
    """Have the kernel refuse files as it does under lockdown: they are there, and cannot be opened."""

    def refuse(path):
        if re.search(pattern, str(path)):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    real_open, real_os_open = open, os.open
    monkeypatch.setattr("builtins.open", lambda path, *a, **k: (refuse(path), real_open(path, *a, **k))[1])
    monkeypatch.setattr(os, "open", lambda path, *a, **k: (refuse(path), real_os_open(path, *a, **k))[1])


@pytest.mark.parametrize("check_mode", [True, False])
def test_files_that_secure_boot_closes_are_no_way_and_nothing_is_changed(tmp_path, monkeypatch, check_mode):
    node = QosNode(tmp_path, TOOLS[1])
    for number in range(2):
        for name in ("np_cnp_dscp", "np_cnp_prio"):
            node.tree.write(f"sys/kernel/debug/mlx5/0000:1{number}:00.0/cc_params/{name}", 0)
    refuse_to_open(monkeypatch, "cc_params/")
    with pytest.raises(QosError) as caught:
        node.hold(check_mode, not_asked=["ecn", "traffic_class", "connection_manager_tos"])
    text = str(caught.value)
    assert "rail0 (ens1, mlx5_core): no way to set cnp_dscp, cnp_priority (" in text
    assert "rail1 (ens2, mlx5_core): no way to set cnp_dscp, cnp_priority (" in text
    assert "0000:11:00.0/cc_params/np_cnp_dscp: Operation not permitted, as under Secure Boot" in text
    assert node.calls() == []
    assert node.port("ens1")["pfc"] == [0] * 8
    # The printed list replaces the one that was declared, so it is enough for the next run.
    fixes = set(re.findall(r"roce_qos_not_asked: \[(.*?)\]", text))
    assert fixes == {"ecn, cnp, traffic_class, connection_manager_tos"}
    assert node.hold(check_mode, not_asked=fixes.pop().split(", "))["changed"]


def test_another_file_serves_where_the_first_cannot_be_opened(tmp_path):
    node = QosNode(tmp_path, TOOLS[1]).vendor()
    for number, netdev in enumerate(("ens1", "ens2")):
        file = tmp_path / f"sys/class/net/{netdev}/ecn/roce_np/cnp_dscp"
        file.unlink()
        file.mkdir()  # is there, and can be neither read nor written
        node.tree.write(f"sys/kernel/debug/mlx5/0000:1{number}:00.0/cc_params/np_cnp_dscp", 0)
    assert node.hold()["ports"][1]["settings"]["cnp_dscp"] == 48
    assert node.text("kernel/debug/mlx5/0000:11:00.0/cc_params/np_cnp_dscp") == "48"


@pytest.mark.parametrize("trusted", [{}, {str(dscp): dscp >> 3 for dscp in range(64)}])
def test_all_ports_are_as_they_were_where_one_refuses_in_the_middle(each, tmp_path, trusted):
    each.run(["ethtool", "-a", "ens1"])  # the recorder fills in what a port has by default
    each.run(["ethtool", "-a", "ens2"])
    each.state = json.loads((each.bin / "state.json").read_text())
    for port in each.state["ports"].values():
        port["dscp"], port["pfc"] = dict(trusted), [0, 0, 0, 0, 0, 1, 0, 0]
        port["pause"] = {**port["pause"], "rx": True, "tx": True}
    each.keep()
    before = each.port("ens1"), each.port("ens2")
    cnp = tmp_path / "sys/class/net/ens2/ecn/roce_np/cnp_802p_prio"
    cnp.unlink()
    cnp.symlink_to("/dev/full")  # can be opened; what is written is refused
    with pytest.raises(QosError, match=r"rail1 \(ens2\).*No space left") as caught:
        each.hold(not_asked=["traffic_class"])
    assert "What was changed before is set back as it was" in str(caught.value)
    for was, now in zip(before, (each.port("ens1"), each.port("ens2")), strict=True):
        for name in ("pfc", "dscp", "pause", "dcbx", "places", "buffers"):
            assert now[name] == was[name], name
    assert each.text("class/net/ens1/ecn/roce_np/cnp_dscp") == "0"
    assert each.text("class/net/ens2/ecn/roce_np/enable/3") == "0"
    assert not (tmp_path / "var").exists()


def test_ports_are_as_they_were_where_the_values_cannot_be_kept_for_the_next_boot(tmp_path):
    node = QosNode(tmp_path, TOOLS[1]).vendor()
    folder = tmp_path / "var/lib/railyard/roce_qos"
    (folder / ".replay.py.railyard").mkdir(parents=True)  # record.json can be written, and this cannot
    before = {
        name: node.text(f"class/net/ens1/ecn/{name}") for name in ("roce_np/cnp_dscp", "roce_rp/enable/3")
    }
    with pytest.raises(QosError, match="What was changed before is set back as it was") as caught:
        node.hold(not_asked=["traffic_class"])
    assert "replay.py" in str(caught.value)
    assert {name: node.text(f"class/net/ens1/ecn/{name}") for name in before} == before
    assert node.port("ens1")["pfc"] == node.port("ens2")["pfc"] == [0] * 8
    # What would set them at the next boot all the same.
    assert not (folder / "record.json").exists()


def test_a_file_that_takes_the_value_and_drops_it_is_caught(node, tmp_path):
    (tmp_path / "sys/class/net/ens1/ecn/roce_np/cnp_dscp").unlink()
    (tmp_path / "sys/class/net/ens1/ecn/roce_np/cnp_dscp").symlink_to("/dev/null")
    with pytest.raises(QosError, match="cnp_dscp was set to 48 and reads none"):
        node.hold()


@pytest.mark.parametrize("text", ["", "N/A", "-1", "\x00\x7f", "7" * 5000, "0x" + "f" * 5000])
def test_a_file_that_holds_no_number_is_set_like_one_that_holds_another(node, text):
    """5,000 digits are more than Python turns into a number (sys.int_info.default_max_str_digits)."""
    node.tree.write("sys/class/net/ens1/ecn/roce_np/cnp_dscp", text)
    node.hold()
    assert node.text("class/net/ens1/ecn/roce_np/cnp_dscp") == "48"


def test_a_word_in_place_of_the_netdevs_port_is_the_first_port(node, tmp_path):
    for file in tmp_path.glob("sys/class/infiniband/*/ports/1/gid_attrs/ndevs/0"):
        file.unlink()
    node.tree.write("sys/class/net/ens1/dev_port", "N/A")
    assert node.hold()["changed"]


def test_the_order_of_tools_is_fixed(tmp_path):
    node = QosNode(tmp_path, ("dcb", "mlnx_qos", "ethtool")).vendor()
    assert node.hold()["tool"] == "mlnx_qos"
    assert not [call for call in node.calls() if call.startswith("dcb")]


def test_all_that_has_no_way_is_named_for_all_ports_before_anything_is_changed(tmp_path):
    node = QosNode(tmp_path, TOOLS[1])
    with pytest.raises(QosError) as caught:
        node.hold()
    text = str(caught.value)
    for rail in ("rail0 (ens1, mlx5_core)", "rail1 (ens2, mlx5_core)"):
        assert f"{rail}: no way to set cnp_dscp, cnp_priority, connection_manager_tos, ecn_" in text
    assert "roce_qos_not_asked: [ecn, cnp, traffic_class, connection_manager_tos]" in text
    assert node.calls() == []


def test_buffers_are_refused_where_the_driver_has_none(tmp_path):
    node = QosNode(tmp_path, TOOLS[1]).vendor()
    node.state["without"] = ["buffer"]
    node.keep()
    with pytest.raises(QosError, match="no way to set buffers_bytes"):
        node.hold(buffers_bytes=[20352] * 8)


def test_the_kernels_own_driver_has_what_is_left_and_cnp_in_debugfs(tmp_path):
    node = QosNode(tmp_path, TOOLS[1])
    for number in range(2):
        control = f"sys/kernel/debug/mlx5/0000:1{number}:00.0/cc_params"
        node.tree.write(f"{control}/np_cnp_dscp", 0)
        node.tree.write(f"{control}/np_cnp_prio", 0)
    done = node.hold(not_asked=["ecn", "traffic_class", "connection_manager_tos"])
    assert node.text("kernel/debug/mlx5/0000:11:00.0/cc_params/np_cnp_dscp") == "48"
    assert "traffic_class" not in done["ports"][0]["settings"]
    assert done["ports"][0]["settings"]["pfc"] == PFC_ON_3


def test_no_tool_at_all_is_reported_with_what_to_install(tmp_path):
    with pytest.raises(QosError, match=r"rail0: ens1: the node has neither mlnx_qos .* install iproute2"):
        QosNode(tmp_path, ("ethtool",)).vendor().hold()


def test_vendor_sysfs_alone_has_no_pfc(tmp_path):
    node = QosNode(tmp_path, ("ethtool",)).vendor()
    for netdev in ("ens1", "ens2"):
        node.tree.write(f"sys/class/net/{netdev}/qos/trust", "pcp")
        table = "dscp\tprio\n" + "".join(f"{dscp}\t{dscp >> 3}\n" for dscp in range(64))
        node.tree.write(f"sys/class/net/{netdev}/qos/dscp2prio", table)
    with pytest.raises(
        QosError,
        match=r"rail0 \(ens1, mlx5_core\): no way to set pfc\. Fix: for pfc install mlnx-tools or iproute2",
    ):
        node.hold()


def test_pfc_that_is_not_wanted_is_switched_off(node):
    node.hold()
    node.hold(pfc=False)
    assert node.port("ens1")["pfc"] == [0] * 8
    assert not node.port("ens1")["pause"]["rx"]


def test_a_driver_without_dcbx_and_pause_needs_none_set(tmp_path):
    node = QosNode(tmp_path, TOOLS[1]).vendor()
    node.state["without"] = ["dcbx", "buffer"]
    for port in node.state["ports"].values():
        port["pause"] = None
    node.keep()
    assert node.hold()["changed"]
    assert not node.hold()["changed"]
    assert node.port("ens1")["pfc"] == PFC_ON_3


def test_the_folder_of_rdma_cm_is_made_for_the_while_it_is_needed(node, tmp_path, monkeypatch):
    """In configfs a new folder has its files at once, and takes them with it; the test does so here."""
    aside = tmp_path / "aside"
    (tmp_path / "sys/kernel/config/rdma_cm").rename(aside)
    parent = tmp_path / "sys/kernel/config/rdma_cm"
    parent.mkdir()

    def make(path, mode=0o777):
        (aside / path.rpartition("/")[2]).rename(path)

    def remove(path):
        (parent / path.rpartition("/")[2]).rename(aside / path.rpartition("/")[2])

    real_mkdir = __import__("os").mkdir
    monkeypatch.setattr(
        "os.mkdir", lambda path, mode=0o777: make(path) if "rdma_cm/" in str(path) else real_mkdir(path, mode)
    )
    monkeypatch.setattr("os.rmdir", remove)
    assert node.hold()["changed"]
    assert not node.hold()["changed"]
    assert (aside / "mlx5_1/ports/1/default_roce_tos").read_text().strip() == "106"
    assert list(parent.iterdir()) == []


def test_what_was_kept_brings_a_port_back_that_came_new(each):
    each.hold(buffer_of_priority=[0, 0, 0, 1, 0, 0, 0, 0], buffers_bytes=[20352, 131072, 0, 0, 0, 0, 0, 0])
    before = each.port("ens1")
    # As after a boot: card and files have their defaults.
    each.keep()
    each.vendor()
    assert each.replay("ens1").returncode == 0
    assert each.port("ens1") == before
    assert "pfc" not in each.port("ens2") or each.port("ens2")["pfc"] == [0] * 8
    assert each.text("class/net/ens1/ecn/roce_np/cnp_dscp") == "0"
    assert each.replay("mlx5_0").returncode == 0
    assert each.text("class/net/ens1/ecn/roce_np/cnp_dscp") == "48"
    assert each.text("class/infiniband/mlx5_0/tc/1/traffic_class") == "Global tclass=106"
    # Twice is no harm: the netdev comes, gets its name, and comes again.
    assert each.replay("ens1").returncode == 0
    assert each.replay("eth7").returncode == 0


def rename(root, was, name):
    (root / "sys/class/infiniband" / was).rename(root / "sys/class/infiniband" / name)
    (root / "sys/devices/pci0000:00/0000:10:00.0/infiniband" / was).rename(
        root / "sys/devices/pci0000:00/0000:10:00.0/infiniband" / name
    )
    aside = root / "sys/kernel/config/rdma_cm" / was
    if aside.exists():
        aside.rename(aside.with_name(name))


def test_a_device_that_the_boot_has_renamed_gets_what_its_port_had(node, tmp_path):
    """rdma-core's rule renames on `add`: the record says mlx5_0, the device that comes is rocep16s0."""
    node.hold()
    node.keep()
    node.vendor()
    rename(tmp_path, "mlx5_0", "rocep16s0")
    # The event of the kernel's own name, for a device that has another by now, has nothing to do.
    assert node.replay("mlx5_0").returncode == 0
    assert node.text("class/infiniband/rocep16s0/tc/1/traffic_class") != "Global tclass=106"
    assert node.replay("rocep16s0").returncode == 0
    assert node.text("class/infiniband/rocep16s0/tc/1/traffic_class") == "Global tclass=106"
    assert node.replay("mlx5_bond_0").returncode == 0
    assert node.replay("ens1").returncode == 0
    # The role's next run finds all of it set, and keeps the present name.
    done = node.hold()
    assert [port["device"] for port in done["ports"]] == ["rocep16s0", "mlx5_1"]
    assert done["ports"][0]["changed"] == []


def test_a_name_that_the_inventory_gives_and_the_node_does_not_is_refused_with_the_present_one(
    node, tmp_path
):
    node.rails[0]["hca"] = "mlx5_0:1"
    rename(tmp_path, "mlx5_0", "rocep16s0")
    words = r"rail0: there is no HCA port mlx5_0:1: the port of ens1 is called rocep16s0:1 now"
    with pytest.raises(QosError, match=words):
        node.hold()


def test_a_replay_that_fails_says_what_and_goes_on(node, tmp_path):
    node.hold()
    (tmp_path / "sys/class/net/ens1/ecn/roce_np/cnp_dscp").unlink()
    node.vendor()
    (tmp_path / "sys/class/net/ens1/ecn/roce_np/enable/3").unlink()
    done = node.replay("mlx5_0")
    assert done.returncode == 1
    assert "ecn/roce_np/enable/3" in done.stderr
    assert not (tmp_path / "sys/class/net/ens1/ecn/roce_np/enable/3").exists()
    assert node.text("class/net/ens1/ecn/roce_np/cnp_dscp") == "48"


def test_a_rival_is_named(node):
    assert node.hold()["rival"] is None
    node.state["lldpad"] = True
    node.keep()
    assert node.hold()["rival"] == "lldpad"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dscp": 64}, "dscp 64 is not within 0 to 63"),
        ({"priority": 8}, "priority 8 is not within 0 to 7"),
        ({"cnp_priority": -1}, "cnp_priority -1 is not"),
        ({"cnp_dscp": 26}, "are both 26, and their priorities differ"),
        ({"buffers_bytes": [1, 2]}, "buffers_bytes has 2 values instead of 8"),
        ({"buffers_bytes": [-1] * 8}, "-1 is negative"),
        ({"buffer_of_priority": [9] * 8}, "buffer_of_priority 9 is not within 0 to 7"),
        (
            {"buffer_of_priority": [0, 0, 0, 1, 0, 0, 0, 0], "buffers_bytes": [20352, 0, 0, 0, 0, 0, 0, 0]},
            "priority 3 is in buffer 1, whose size is 0 bytes",
        ),
    ],
)
def test_a_wrong_declaration_is_named(options, message):
    with pytest.raises(QosError, match=message):
        settings.check({**DEFAULTS, **options})


def test_all_wrong_declarations_come_at_once():
    with pytest.raises(QosError) as caught:
        settings.check({**DEFAULTS, "dscp": 99, "cnp_priority": 11})
    assert "dscp 99" in str(caught.value)
    assert "cnp_priority 11" in str(caught.value)


def test_a_rail_that_is_no_card_is_refused(node):
    node.tree.netdev("veth0")
    node.rails.append({"name": "rail2", "netdev": "veth0"})
    node.rails.append({"name": "rail3", "netdev": "gone0"})
    with pytest.raises(
        QosError, match=r"rail2: veth0 is a software link.*rail3: netdev gone0 does not exist"
    ):
        node.hold()
    assert node.calls() == []


def test_a_tool_that_crashes_is_quoted(node):
    node.run = lambda argv: Answer(1, "", "OSError: [Errno 95] Operation not supported\n")
    with pytest.raises(QosError, match=r"rail0: mlnx_qos -i ens1: .*Errno 95.* \(exit status 1\)"):
        node.hold()


def test_answer_of_two_interfaces_is_none(node):
    ask = node.run
    node.run = lambda argv: ask(argv)._replace(out=ask(argv).out * 2)
    with pytest.raises(QosError, match=r"mlnx_qos -i ens1: no PFC configuration of one interface"):
        node.hold()


class TestMlx4:
    """ConnectX-3: flow control alone, by one of two means."""

    @pytest.fixture
    def node(self, tmp_path):
        node = QosNode(tmp_path, ("ethtool",), "mlx4_core")
        for name in ("pfctx", "pfcrx"):
            node.tree.write(f"sys/module/mlx4_en/parameters/{name}", 0)
        return node

    def load(self, node, mask):
        """Do what a boot does with the options of the module (mlx4_en_get_profile)."""
        for name in ("pfctx", "pfcrx"):
            node.tree.write(f"sys/module/mlx4_en/parameters/{name}", mask)
        for port in node.state["ports"].values():
            port["pause"] = {"autoneg": False, "rx": not mask, "tx": not mask}
        node.keep()

    def test_global_pause_needs_no_other_tool_and_no_reboot(self, node):
        node.state["ports"]["ens2"]["pause"] = {"autoneg": False, "rx": True, "tx": False}
        node.keep()
        done = node.hold()
        assert node.calls() == ["ethtool -A ens2 rx on tx on"]
        assert [one["waits_for_reboot"] for one in done["ports"]] == [[], []]
        assert (done["tool"], done["module_options"]) == (None, "")
        assert not node.hold()["changed"]

    def test_pfc_waits_for_a_reboot_and_leaves_the_pause_until_then(self, node):
        done = node.hold(mlx4_flow_control="pfc")
        assert done["module_options"] == "options mlx4_en pfctx=0x08 pfcrx=0x08"
        assert done["ports"][0]["waits_for_reboot"] == ["module_pfc"]
        assert node.calls() == []
        self.load(node, 8)
        done = node.hold(mlx4_flow_control="pfc")
        assert done["ports"][0]["waits_for_reboot"] == []
        assert done["ports"][0]["settings"]["global_pause"] == {"rx": False, "tx": False}

    def test_never_both(self, node):
        self.load(node, 8)
        node.state["ports"]["ens1"]["pause"] = {"autoneg": False, "rx": True, "tx": True}
        node.keep()
        node.hold(mlx4_flow_control="pfc")
        assert node.calls() == ["ethtool -A ens1 rx off tx off"]

    def test_back_to_global_pause_waits_for_a_reboot_too(self, node):
        self.load(node, 8)
        done = node.hold()
        assert done["ports"][1]["waits_for_reboot"] == ["module_pfc"]
        assert node.calls() == []

    def test_options_of_others_that_say_another_thing_are_named(self, node):
        node.tree.write("etc/modprobe.d/mlx4.conf", "options mlx4_core log_num_mgm_entry_size=-1\n")
        node.tree.write("etc/modprobe.d/60-railyard-mlx4.conf", "options mlx4_en pfctx=0x08 pfcrx=0x08\n")
        node.hold()
        node.tree.write("etc/modprobe.d/mlx4.conf", "options mlx4_en pfctx=0x10 pfcrx=0x10\n")
        for mode in ("pfc", "global_pause"):
            with pytest.raises(QosError, match=r"etc/modprobe.d/mlx4.conf gives mlx4_en another PFC"):
                node.hold(mlx4_flow_control=mode)
        node.tree.write("etc/modprobe.d/mlx4.conf", "options mlx4_en pfctx=8 pfcrx=0x8\n")
        node.hold(mlx4_flow_control="pfc")


def test_the_record_holds_argv_lists_and_paths_only(node, tmp_path):
    node.hold()
    record = json.loads((tmp_path / "var/lib/railyard/roce_qos/record.json").read_text())
    assert record["schema"] == 1
    assert [(port["netdev"], port["device"]) for port in record["ports"]] == [
        ("ens1", "mlx5_0"),
        ("ens2", "mlx5_1"),
    ]
    assert {"argv": ["mlnx_qos", "-i", "ens1", "--pfc", "0,0,0,1,0,0,0,0"], "ok": [0]} in record["ports"][0][
        "actions"
    ]

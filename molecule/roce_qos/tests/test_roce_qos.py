"""What a port has, read from the tools that stand in for the card, and what comes back after it was lost."""

import json
import re

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

UNIT = "railyard-roce-qos@"
SYS = "/opt/qos/root/sys"


def settings(host, netdev):
    text = host.check_output(f"mlnx_qos -i {netdev}")
    return (
        re.search(r"Priority trust state: (\w+)", text).group(1),
        re.search(r"enabled +([01 ]+)", text).group(1).split(),
    )


@pytest.mark.parametrize("netdev", ["ens6", "ens6d1"])
def test_port_trusts_dscp_and_is_lossless_on_one_priority(host, is_configured, netdev):
    if is_configured:
        assert settings(host, netdev) == ("dscp", ["0", "0", "0", "1", "0", "0", "0", "0"])
        assert re.findall(r"[RT]X:\s+(\w+)", host.check_output(f"ethtool -a {netdev}")) == ["off", "off"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("class/net/ens6d1/ecn/roce_np/enable/3", "1"),
        ("class/net/ens6d1/ecn/roce_rp/enable/3", "1"),
        ("class/net/ens6d1/ecn/roce_np/cnp_dscp", "48"),
        ("class/net/ens6d1/ecn/roce_np/cnp_802p_prio", "6"),
        ("class/infiniband/mlx5_1/tc/1/traffic_class", "Global tclass=106"),
        ("kernel/config/rdma_cm/mlx5_1/ports/1/default_roce_tos", "106"),
    ],
)
def test_kernel_has_the_value(host, is_configured, path, value):
    if is_configured:
        assert host.check_output(f"cat {SYS}/{path}").strip() == value


def test_unit_brings_a_port_back_that_came_new(host, is_configured):
    if not is_configured:
        return
    state = {"sys_root": SYS, "ports": {"ens6": {}, "ens6d1": {}}}
    # As after a boot; another port is left as it came, since it did not come.
    host.check_output("echo %s > /opt/qos/state.json", json.dumps(state))
    host.check_output(f"echo 0 > {SYS}/class/net/ens6/ecn/roce_np/cnp_dscp")
    host.check_output(f"systemctl start {UNIT}ens6.service {UNIT}mlx5_0.service")
    assert settings(host, "ens6")[0] == "dscp"
    assert settings(host, "ens6d1")[0] == "pcp"
    assert host.check_output(f"cat {SYS}/class/net/ens6/ecn/roce_np/cnp_dscp").strip() == "48"
    host.check_output(f"systemctl start {UNIT}ens6d1.service")
    assert settings(host, "ens6d1")[0] == "dscp"


def test_udev_starts_it_for_each_netdev_and_for_rdma_devices_of_any_name(host, is_configured):
    if is_configured:
        rules = host.file("/etc/udev/rules.d/60-railyard-roce-qos.rules").content_string
        assert re.findall(r'KERNEL=="(\w+)"', rules) == ["ens6", "ens6d1"]
        assert rules.count('SUBSYSTEM=="infiniband"') == 1
        assert host.run(f"systemd-analyze verify {UNIT}ens6.service").rc == 0


def test_nothing_is_left_on_a_node_that_is_not_asked(host, is_configured):
    for path in (
        "/var/lib/railyard/roce_qos",
        f"/etc/systemd/system/{UNIT}.service",
        "/etc/udev/rules.d/60-railyard-roce-qos.rules",
        "/etc/modprobe.d/60-railyard-mlx4.conf",
    ):
        assert host.file(path).exists == (is_configured and "modprobe" not in path), path

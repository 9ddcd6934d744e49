"""The end-state checks of tuning: each must fail on a node that is not as the inventory says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from end_state import expect, expect_tuning, test_tuning
from end_state.fixtures import UnknownError

THP = "/sys/kernel/mm/transparent_hugepage/"

# ethtool 6.1 of Debian 12.
RINGS = (
    "Ring parameters for ens6:\nPre-set maximums:\n"
    "RX:\t\t\t1024\nRX Mini:\t\tn/a\nRX Jumbo:\t\tn/a\nTX:\t\t\t512\n"
    "Current hardware settings:\nRX:\t\t\t256\nRX Mini:\t\tn/a\nRX Jumbo:\t\tn/a\nTX:\t\t\t512\n"
    "RX Buf Len:\t\tn/a\nCQE Size:\t\tn/a\nTX Push:\toff\n"
)


def setting(value, settable=True):
    return {"value": value, "settable": settable}


@pytest.fixture
def reading():
    """A node with one key of the role's own and one of an inventory's, both as they should be."""
    return {
        "sysctl": {"net.ipv4.tcp_rmem": setting("4096\t131072\t134217728"), "vm.swappiness": setting("1")},
        "sysctl_at_boot": {"net.ipv4.tcp_rmem": "4096 131072 134217728", "vm.swappiness": "1"},
        "lacks_fq": False,
        "hugepage": {
            "enabled": setting("[always] madvise never"),
            "defrag": setting("always defer defer+madvise [madvise] never"),
        },
        "tmpfiles": [
            ["w", THP + "enabled", "-", "-", "-", "-", "always"],
            ["w", THP + "defrag", "-", "-", "-", "-", "madvise"],
        ],
        "governors": ["powersave"],
        "cpufreq_driver": "intel_pstate",
        "energy_preferences": ["balance_power"],
        "governor_unit": "ExecStart=/bin/sh -c 'echo balance_power | tee /sys/x'\n",
        "idle_states": [["state0", "0", ["0"]], ["state1", "2", ["0"]], ["state2", "133", ["1"]]],
        "netdevs": {},
        "hcas": {},
        "addresses": [],
        "numa_nodes": "0-1",
        "interrupts": {
            "ens6": {"node": "1", "cpus": "8-15,24-31", "served": {"41": "9", "42": "8-15,24-31"}}
        },
        "irq_rules": 'ACTION=="add|move", SUBSYSTEM=="net", KERNEL=="ens6", TAG+="systemd"\n',
        "rings": {"ens6": RINGS},
        "ring_rules": 'ACTION=="add|move", SUBSYSTEM=="net", KERNEL=="ens6", TAG+="systemd"\n',
        "ring_unit": "ExecStart=/usr/bin/python3 /x/rings.py %i rx 256 tx max\n",
        "login_nofile": ["1048576", "1048576"],
        "service_nofile": "DefaultLimitNOFILE=1048576",
    }


def test_a_tuned_node_has_no_problem(reading):
    assert expect_tuning.sysctl({}, reading) == []
    assert expect_tuning.sysctl({"node_tuning_sysctl": {"vm.swappiness": 1}}, reading) == []
    assert expect_tuning.hugepage({}, reading) == []
    assert expect_tuning.nofile({}, "hardware", reading) == []


@pytest.mark.parametrize(
    ("driver", "governor", "fine"),
    [
        ("intel_pstate", "powersave", True),
        ("amd-pstate-epp", "powersave", True),
        ("acpi-cpufreq", "powersave", False),
        ("acpi-cpufreq", "ondemand", True),
        ("intel_cpufreq", "schedutil", True),
        ("intel_cpufreq", "performance", False),
    ],
)
def test_a_clock_that_may_sink_is_known_by_its_driver(driver, governor, fine):
    reading = {"governors": [governor], "cpufreq_driver": driver}
    assert (expect.governor("saving", reading) == []) is fine


def test_the_energy_preference_is_as_wanted_now_and_at_boot(reading):
    assert expect_tuning.energy_preference("balance_power", reading) == []
    assert len(expect_tuning.energy_preference("power", reading)) == 2
    reading["governors"] = ["performance"]
    assert expect_tuning.energy_preference("performance", reading) == []


@pytest.mark.parametrize(
    ("profile", "node_class", "options", "wanted"),
    [
        ("training", "hardware", {}, ""),
        ("powersave", "hardware", {}, "balance_power"),
        ("powersave", "virtual", {}, ""),
        ("training", "hardware", {"node_tuning_energy_preference": "power"}, "power"),
    ],
)
def test_the_energy_preference_is_required_as_the_inventory_says(profile, node_class, options, wanted):
    assert expect_tuning.energy_preference_wanted(profile, node_class, options) == wanted


def test_idle_states_that_take_too_long_are_disabled_now_and_at_boot(reading):
    limit = {"node_tuning_idle_limit_us": 10}
    path = "/sys/devices/system/cpu/cpu*/cpuidle/state2/disable"
    reading["tmpfiles"].append(["w", path, "-", "-", "-", "-", "1"])
    assert expect_tuning.idle_states(limit, reading) == []
    reading["idle_states"][2][2] = ["0", "1"]
    [problem] = expect_tuning.idle_states(limit, reading)
    assert "state2, which takes 133 us to leave, is not disabled on all CPUs" in problem
    assert len(expect_tuning.idle_states({"node_tuning_idle_limit_us": 1}, reading)) == 3
    reading["idle_states"][2][2] = ["only shown"]
    assert expect_tuning.idle_states(limit, reading) == []


@pytest.mark.parametrize(
    ("node_class", "raised"), [("hardware", UnknownError), ("virtual", pytest.skip.Exception)]
)
def test_idle_states_that_the_kernel_does_not_show_are_not_known_on_hardware(reading, node_class, raised):
    node = SimpleNamespace(
        name="gpu7",
        node_class=node_class,
        options={"node_tuning_idle_limit_us": 10},
        state={**reading, "idle_states": []},
    )
    with pytest.raises((UnknownError, pytest.skip.Exception)) as told:
        test_tuning.test_idle_states_that_take_long_to_leave_are_disabled(node)
    assert told.type is raised


def test_interrupts_are_served_near_their_port_now_and_after_a_boot(reading):
    rail = {"netdev": "ens6", "vlan": 7}  # a VLAN's packets come by its port
    assert expect_tuning.interrupts(rail, reading) == []
    reading["interrupts"]["ens6"]["served"]["41"] = "0-15"
    [problem] = expect_tuning.interrupts(rail, reading)
    assert "interrupt 41 of ens6 may be served by CPUs 0-15, its NUMA node has 8-15,24-31" in problem
    reading["irq_rules"] = ""
    assert "a boot loses it" in expect_tuning.interrupts(rail, reading)[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"numa_nodes": "0"},
        {"interrupts": {}},
        {"interrupts": {"ens6": {"node": "-1", "cpus": "0-31", "served": {"41": "0-31"}}}},
    ],
)
def test_interrupts_without_near_and_far_are_not_required(reading, changes):
    assert expect_tuning.interrupts_of({"netdev": "ens6"}, {**reading, **changes}) is None


def test_rings_have_their_size_now_and_after_a_boot(reading):
    rail, asked = {"netdev": "ens6", "vlan": 7}, {"node_tuning_ring_sizes": {"rx": "256", "tx": "max"}}
    assert expect_tuning.rings(rail, asked, reading) == []
    now, boot = expect_tuning.rings(rail, {"node_tuning_ring_sizes": {"rx": "max"}}, reading)
    assert "the rx ring of ens6 has 256 descriptors, wanted are 1024" in now
    assert "a boot loses it" in boot
    reading["ring_rules"] = reading["ring_rules"].replace("ens6", "ens7")
    assert len(expect_tuning.rings(rail, asked, reading)) == 2


def test_rings_of_which_ethtool_tells_nothing_are_not_known(reading):
    node = SimpleNamespace(
        name="gpu7",
        options={"node_tuning_ring_sizes": {"rx": "max"}},
        state={**reading, "rings": {"ens6": None}},
    )
    with pytest.raises(UnknownError, match=r"gpu7.*rail0.*Fix: "):
        test_tuning.test_rings_of_the_rail_have_the_configured_size(node, {"name": "rail0", "netdev": "ens6"})


def test_a_sysctl_that_is_another_now_or_at_boot_is_named(reading):
    reading["sysctl"]["net.ipv4.tcp_rmem"]["value"] = "4096 131072 6291456"
    assert (
        "net.ipv4.tcp_rmem is 4096 131072 6291456, wanted is 4096 131072 134217728"
        in expect_tuning.sysctl({}, reading)
    )
    del reading["sysctl_at_boot"]["vm.swappiness"]
    [problem] = expect_tuning.sysctl({"node_tuning_sysctl": {"vm.swappiness": "1"}}, reading)
    assert "a boot loses it" in problem


def test_what_cannot_be_set_here_is_not_required(reading):
    reading["sysctl"]["net.ipv4.tcp_rmem"] = setting("1 2 3", settable=False)
    reading["sysctl"]["net.core.default_qdisc"] = setting("fq_codel")
    reading["lacks_fq"] = True
    reading["hugepage"] = {"enabled": setting("[madvise] never", settable=False), "defrag": None}
    assert expect_tuning.sysctl({}, reading) == []
    assert expect_tuning.hugepage({}, reading) == []


def test_a_kernel_that_has_fq_and_not_set_it_is_a_problem(reading):
    reading["sysctl"]["net.core.default_qdisc"] = setting("fq_codel")
    assert "net.core.default_qdisc is fq_codel, wanted is fq" in expect_tuning.sysctl({}, reading)


def test_a_key_of_the_inventory_of_which_nothing_is_found_is_not_known(reading):
    node = SimpleNamespace(name="gpu7", options={"node_tuning_sysctl": {"net.none": "1"}}, state=reading)
    with pytest.raises(UnknownError, match=r"gpu7.*net\.none.*Fix: "):
        test_tuning.test_sysctls_are_set_now_and_at_boot(node)


@pytest.mark.parametrize("name", ["enabled", "defrag"])
def test_huge_pages_that_are_others_now_or_at_boot_are_named(reading, name):
    reading["hugepage"][name] = setting("[never] always madvise")
    reading["tmpfiles"] = [line for line in reading["tmpfiles"] if not line[1].endswith(name)]
    problems = expect_tuning.hugepage({}, reading)
    assert [THP + name in problem for problem in problems] == [True, True]
    variable = "node_tuning_transparent_hugepage" + ("_defrag" if name == "defrag" else "")
    assert expect_tuning.hugepage({variable: ""}, reading) == []


@pytest.mark.parametrize(
    ("limits", "node_class", "fine"),
    [
        (["1024", "1048576"], "hardware", False),
        (["65536", "65536"], "hardware", False),
        (["65536", "65536"], "container", True),
        (["1024", "65536"], "container", False),
        ([], "container", False),
    ],
)
def test_a_limit_on_open_files_is_as_wanted_or_all_that_a_container_has(reading, limits, node_class, fine):
    reading["login_nofile"] = limits
    assert (expect_tuning.nofile({}, node_class, reading) == []) is fine


def test_services_are_held_to_the_same_limit(reading):
    reading["service_nofile"] = "DefaultLimitNOFILE=524288"
    [problem] = expect_tuning.nofile({}, "hardware", reading)
    assert "524288" in problem
    assert expect_tuning.nofile({"node_tuning_nofile": 524288}, "hardware", reading) != []


def test_profiling_is_required_of_the_kernel_only_where_the_inventory_says_so(reading):
    reading["sysctl"] |= {"kernel.perf_event_paranoid": setting("3"), "kernel.kptr_restrict": setting("1")}
    assert expect_tuning.sysctl({}, reading) == []
    problems = expect_tuning.sysctl({"node_tuning_profiling": True}, reading)
    assert {one.split(" ")[0] for one in problems} >= {"kernel.perf_event_paranoid", "kernel.kptr_restrict"}
    reading["sysctl"] |= {"kernel.perf_event_paranoid": setting("1"), "kernel.kptr_restrict": setting("0")}
    reading["sysctl_at_boot"] |= {"kernel.perf_event_paranoid": "1", "kernel.kptr_restrict": "0"}
    assert expect_tuning.sysctl({"node_tuning_profiling": True}, reading) == []
    # A value of the inventory's own wins.
    own = {"node_tuning_profiling": True, "node_tuning_sysctl": {"kernel.kptr_restrict": "1"}}
    assert any("wanted is 1" in one for one in expect_tuning.sysctl(own, reading))


def test_an_iommu_that_a_boot_has_not_set_yet_is_named(reading):
    line = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu.passthrough=1"\n'
    reading |= {"command_line": ["ro", "iommu.passthrough=1"], "iommu_file": line}
    assert expect_tuning.iommu(reading) == []
    assert [
        "waits for a reboot" in one for one in expect_tuning.iommu(reading | {"command_line": ["ro"]})
    ] == [True]
    assert len(expect_tuning.iommu(reading | {"iommu_file": ""})) == 1
    assert expect_tuning.is_passthrough_asked({"node_tuning_iommu": "passthrough"})
    assert not expect_tuning.is_passthrough_asked({})

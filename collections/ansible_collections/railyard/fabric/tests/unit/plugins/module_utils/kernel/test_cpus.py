"""A role's wishes under each driver; what a driver does and refuses is by the kernel's own pages on it."""

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import cpus
from ansible_collections.railyard.fabric.plugins.module_utils.kernel.settings import Wanted
from support.nodes import held_kernel

PREFERENCES = "default performance balance_performance balance_power power"


@pytest.fixture
def node(tmp_path):
    """Makes a root with cpu2 and cpu10 under a driver, each with idle states of 0, 2 and 133 us."""

    def make(driver, governors, preference=None, now="powersave"):
        for cpu in ("cpu10", "cpu2"):
            folder = tmp_path / cpus.CPUS / cpu
            (folder / "cpufreq").mkdir(parents=True)
            values = {"driver": driver, "governor": now, "available_governors": governors}
            for name, value in values.items():
                (folder / "cpufreq" / f"scaling_{name}").write_text(f"{value}\n")
            if preference:
                (folder / "cpufreq/energy_performance_preference").write_text(f"{preference}\n")
                (folder / "cpufreq/energy_performance_available_preferences").write_text(f"{PREFERENCES} \n")
            for number, latency_us in enumerate((0, 2, 133)):
                state = folder / f"cpuidle/state{number}"
                state.mkdir(parents=True)
                (state / "latency").write_text(f"{latency_us}\n")
                (state / "disable").write_text("0\n")
        (tmp_path / cpus.CPUS / "cpuidle").mkdir()
        return tmp_path

    return make


def hold(root, record, **wanted):
    """Do as the module does; return the record, and what was written as (file, value)."""
    record, writes = held_kernel.hold(root, record, Wanted(**wanted))
    return record, [
        (write.path.rpartition("/")[2], write.after) for write in writes if "/cpu2/" in write.path
    ]


def test_reads_cpus_in_order(node):
    state = cpus.read(str(node("intel_pstate", "performance powersave", "balance_performance")))
    assert list(state["governors"].items()) == [("cpu2", "powersave"), ("cpu10", "powersave")]
    assert state["available_governors"] == ["performance", "powersave"]
    assert state["cpufreq_driver"] == "intel_pstate"
    assert state["energy_preferences"] == dict.fromkeys(("cpu2", "cpu10"), "balance_performance")
    assert state["idle_latency_us"]["cpu10/state2"] == 133


def test_nothing_is_read_on_a_node_without_cpufreq(tmp_path):
    assert hold(tmp_path, None, governor="performance", energy_preference="power", idle_limit_us=10) == (
        None,
        [],
    )
    assert cpus.read(str(tmp_path))["cpufreq_driver"] is None


@pytest.mark.parametrize(
    ("driver", "offered", "governor"),
    [
        ("intel_pstate", "performance powersave", "powersave"),
        ("amd-pstate-epp", "performance powersave", "powersave"),
        ("intel_cpufreq", "conservative ondemand userspace powersave performance schedutil", "schedutil"),
        ("amd-pstate", "conservative ondemand userspace powersave performance schedutil", "schedutil"),
        ("acpi-cpufreq", "conservative ondemand userspace powersave performance", "ondemand"),
        ("pcc-cpufreq", "userspace powersave performance", "powersave"),
    ],
)
def test_a_clock_that_may_sink_is_no_lowest_clock_where_the_driver_has_another(
    node, driver, offered, governor
):
    assert cpus.governor(cpus.read(str(node(driver, offered))), cpus.SAVING) == governor


def test_governor_that_the_driver_lacks_is_refused_with_the_reason(node):
    state = cpus.read(str(node("intel_pstate", "performance powersave")))
    with pytest.raises(
        cpus.CpuError, match=r"schedutil.*performance powersave.*intel_pstate is in active mode"
    ):
        cpus.governor(state, "schedutil")


def test_a_governor_that_is_a_module_is_offered_though_it_is_not_listed_before_it_is_loaded(node):
    root = node("acpi-cpufreq", "performance")
    (root / "lib/modules" / os.uname().release).mkdir(parents=True)
    names = ("acpi-cpufreq", "cpufreq_ondemand", "cpufreq_powersave")
    lines = "".join(f"kernel/drivers/cpufreq/{name}.ko.xz:\n" for name in names)
    (root / "lib/modules" / os.uname().release / "modules.dep").write_text(lines)
    state = cpus.read(str(root))
    assert state["available_governors"] == ["performance", "ondemand", "powersave"]
    assert cpus.governor(state, cpus.SAVING) == "ondemand"
    # A driver in active mode has two of its own, and takes no other.
    (root / cpus.governor_path("cpu2")).with_name("scaling_driver").write_text("intel_pstate\n")
    assert cpus.read(str(root))["available_governors"] == ["performance"]


def test_driver_that_lists_no_governors_is_not_refused(node):
    assert cpus.governor(cpus.read(str(node("odd", ""))), "schedutil") == "schedutil"


def test_a_preference_that_is_not_offered_is_refused_with_those_that_are(node):
    root = node("intel_pstate", "performance powersave", "power")
    with pytest.raises(cpus.CpuError, match=f"turbo is not offered, there are: {PREFERENCES}"):
        hold(root, None, energy_preference="turbo")


def test_under_performance_a_driver_in_active_mode_takes_no_other_preference(node):
    root = node("amd-pstate-epp", "performance powersave", "balance_performance")
    with pytest.raises(cpus.CpuError, match="balance_power is refused by amd-pstate-epp"):
        hold(root, None, governor="performance", energy_preference="balance_power")
    # The one that it takes it has by itself.
    written = hold(root, None, governor="performance", energy_preference="performance")[1]
    assert written == [("scaling_governor", "performance")]


def test_a_driver_in_passive_mode_takes_any_preference_under_performance(node):
    root = node("intel_cpufreq", "performance schedutil", "balance_performance")
    written = hold(root, None, governor="performance", energy_preference="power")[1]
    assert sorted(written) == [
        ("energy_performance_preference", "power"),
        ("scaling_governor", "performance"),
    ]


def test_the_preference_of_before_the_first_governor_comes_back_after_it(node):
    root = node("intel_pstate", "performance powersave", "balance_performance")
    record, written = hold(root, None, governor="performance")
    assert written == [("scaling_governor", "performance")]
    # As the kernel shows it from now on.
    for path in root.rglob("energy_performance_preference"):
        path.write_text("performance\n")
    assert hold(root, record, governor="performance") == (record, [])
    record, written = hold(root, record, governor="powersave", energy_preference="balance_power")
    assert written == [("scaling_governor", "powersave"), ("energy_performance_preference", "balance_power")]
    assert hold(root, record) == (None, [("energy_performance_preference", "balance_performance")])


def test_a_preference_is_given_back_before_the_governor_that_refuses_it(node):
    root = node("amd-pstate-epp", "performance powersave", "balance_performance", now="performance")
    record = hold(root, None, governor="powersave", energy_preference="balance_power")[0]
    assert hold(root, record) == (
        None,
        [("energy_performance_preference", "balance_performance"), ("scaling_governor", "performance")],
    )


def test_a_preference_that_only_a_profile_wanted_goes_back_under_the_next_one(node):
    root = node("intel_cpufreq", "performance schedutil", "balance_performance")
    record = hold(root, None, governor="schedutil", energy_preference="power")[0]
    back = ("energy_performance_preference", "balance_performance")
    assert back in hold(root, record, governor="performance")[1]


def test_what_a_governor_of_before_made_of_the_preference_is_not_taken_for_an_original(node):
    root = node("intel_pstate", "performance powersave", "performance", now="performance")
    recorded = {"schema": 1, "governors": {"cpu2": "powersave", "cpu10": "powersave"}}
    assert hold(root, recorded, governor="performance") == (recorded, [])


def test_idle_states_that_take_long_to_leave_are_disabled_and_come_back(node):
    root = node("intel_pstate", "performance powersave")
    switches = [root / cpus.idle_path(f"cpu2/state{number}") for number in range(3)]
    switches[1].write_text("1\n")  # the administrator's own wish
    record, written = hold(root, None, idle_limit_us=10)
    assert (written, [one.read_text().strip() for one in switches]) == ([("disable", "1")], ["0", "1", "1"])
    assert record["idle_states"] == {"cpu2/state2": "0", "cpu10/state2": "0"}
    assert hold(root, record, idle_limit_us=10) == (record, [])
    record, written = hold(root, record, idle_limit_us=133)
    assert (record, [one.read_text().strip() for one in switches]) == (None, ["0", "1", "0"])


def test_an_idle_state_is_one_pattern_where_all_cpus_have_it_disabled():
    state = {"idle_states": dict.fromkeys(("cpu0/state1", "cpu0/state2", "cpu1/state1", "cpu1/state2"), "0")}
    assert cpus.idle_globs(state, ("cpu0/state2", "cpu1/state2", "cpu1/state1")) == [
        "/sys/devices/system/cpu/cpu*/cpuidle/state2/disable",
        "/sys/devices/system/cpu/cpu1/cpuidle/state1/disable",
    ]

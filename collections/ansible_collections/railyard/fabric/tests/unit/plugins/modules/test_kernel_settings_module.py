from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel.settings import KernelSettingsError
from ansible_collections.railyard.fabric.plugins.modules import kernel_settings
from support.nodes.module import FakeModule


def hold(check_mode=False, active=(), **params):
    def run(argv):
        states = ["active" if unit in active else "inactive" for unit in argv[2:]]
        return 3, "\n".join(states) + "\n", ""

    names = ("governor", "energy_preference", "idle_limit_us", "irq_affinity", "irq_program", "nofile")
    names += ("ring_program", "allow_ring_resize", "boot_parameter")
    empty = {"rails": [], "rivals": [], **{name: {} for name in ("ring_sizes", "sysctl", "sysfs")}}
    unset = {**dict.fromkeys(names), **empty}
    return kernel_settings.hold(FakeModule({**unset, **params}, run, check_mode))


@pytest.fixture
def governor(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_settings, "ROOT", f"{tmp_path}/")
    folder = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    path = folder / "scaling_governor"
    path.write_text("powersave\n")
    return path


@pytest.fixture
def record(tmp_path):
    return tmp_path / "var/originals.json"


def test_check_real_check_real(governor, record):
    wanted = {"governor": "performance", "originals": str(record)}
    checked = hold(check_mode=True, **wanted)
    assert checked["changed"]
    assert governor.read_text().strip() == "powersave"
    assert not record.exists()
    done = hold(**wanted)
    assert done["changed"]
    assert done["diff"] == checked["diff"]
    assert governor.read_text().strip() == "performance"
    assert record.exists()
    for check_mode in (True, False):
        again = hold(check_mode=check_mode, **wanted)
        assert not again["changed"]
        assert again["diff"] == []


def test_drift_is_changed_back_and_not_recorded(governor, record):
    wanted = {"governor": "performance", "originals": str(record)}
    hold(**wanted)
    recorded = record.read_text()
    governor.write_text("ondemand\n")
    assert hold(**wanted)["changed"]
    assert governor.read_text().strip() == "performance"
    assert record.read_text() == recorded


def test_what_this_node_lacks_is_reported(governor, record):
    wanted = {"sysctl": {"net.none": "1"}, "sysfs": {"kernel/none": "1"}, "originals": str(record)}
    done = hold(**wanted)
    assert (done["absent_sysctl"], done["absent_sysfs"]) == (["net.none"], ["kernel/none"])
    assert done["absent_cpu"] == []
    assert not done["changed"]


def test_a_limit_on_open_files_is_tried_and_what_cannot_be_is_the_one_that_is(governor, record, monkeypatch):
    given = []

    def setrlimit(which, limits):
        given.append(limits)
        if limits[0] > 4096:
            raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(kernel_settings.limits.resource, "setrlimit", setrlimit)
    monkeypatch.setattr(kernel_settings.limits.resource, "getrlimit", lambda which: (1024, 4096))
    assert hold(originals=str(record), nofile=4096)["nofile_possible"] == 4096
    assert (4096, 4096) in given
    assert hold(originals=str(record), nofile=8192)["nofile_possible"] == 4096


def test_an_active_rival_is_named_and_nothing_is_touched(governor, record):
    wanted = {"governor": "performance", "originals": str(record), "active": ["tuned.service"]}
    with pytest.raises(KernelSettingsError, match=r"^tuned\.service is active"):
        hold(rivals=["cpupower.service", "tuned.service"], **wanted)
    assert governor.read_text().strip() == "powersave"
    assert not record.exists()


def test_what_the_cpus_lack_is_reported(governor, record):
    done = hold(energy_preference="power", idle_limit_us=10, originals=str(record))
    assert done["absent_cpu"] == ["energy_performance_preference", "idle states (cpuidle)"]
    assert done["energy_preference"] is None


@pytest.mark.parametrize("wanted", [{"energy_preference": "power"}, {"idle_limit_us": 10}])
def test_a_rival_sets_preference_and_idle_states_too(governor, record, wanted):
    with pytest.raises(KernelSettingsError, match=r"^tuned\.service is active"):
        hold(originals=str(record), rivals=["tuned.service"], active=["tuned.service"], **wanted)


def test_a_rival_is_no_matter_when_the_governor_is_left_to_it(governor, record):
    hold(originals=str(record), rivals=["tuned.service"], active=["tuned.service"])
    assert governor.read_text().strip() == "powersave"


def test_a_governor_that_no_one_asks_for_any_more_goes_back(governor, record):
    hold(governor="performance", originals=str(record))
    checked = hold(check_mode=True, originals=str(record))
    assert checked["changed"]
    assert checked["diff"][0]["before"].endswith("scaling_governor = performance\n")
    assert checked["diff"][0]["after"].endswith("scaling_governor = powersave\n")
    assert hold(originals=str(record))["diff"] == checked["diff"]
    assert governor.read_text().strip() == "powersave"
    assert not record.exists()
    assert not hold(originals=str(record))["changed"]


def test_a_governor_that_is_now_a_rivals_is_left_to_it(governor, record):
    hold(governor="performance", originals=str(record))
    governor.write_text("schedutil\n")
    hold(originals=str(record), rivals=["tuned.service"], active=["tuned.service"])
    assert governor.read_text().strip() == "schedutil"
    assert not record.exists()


def test_interrupts_of_the_rails_are_held_and_a_program_lies_there_for_the_next_boot(
    tmp_path, governor, record
):
    device = tmp_path / "sys/devices/pci0000:3a/0000:3b:00.0"
    files = {
        tmp_path / "sys/devices/system/node/online": "0-1",
        device / "numa_node": "1",
        device / "local_cpulist": "8-15",
        device / "msi_irqs/41": "msix",
        tmp_path / "sys/kernel/irq/41/actions": "comp0",
        tmp_path / "proc/irq/41/smp_affinity_list": "0-15",
        tmp_path / "sys/class/net/ens6/address": "02:00:00:00:00:01",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "sys/class/net/ens6/device").symlink_to("../../../devices/pci0000:3a/0000:3b:00.0")
    program = tmp_path / "var/irq_affinity.py"
    rails = [{"name": "rail0", "netdev": "ens6"}, {"name": "rail1", "netdev": "ens7"}]
    wanted = {"rails": rails, "irq_affinity": True, "irq_program": str(program), "originals": str(record)}
    checked = hold(check_mode=True, **wanted)
    assert (checked["changed"], program.exists()) == (True, False)
    done = hold(**wanted)
    assert done["diff"] == checked["diff"]
    assert done["irq_ports"] == {"ens6": "0000:3b:00.0"}
    assert done["pcie_findings"] == []
    assert "rail1: netdev ens7 does not exist" in done["irq_unknown"][0]
    assert (tmp_path / "proc/irq/41/smp_affinity_list").read_text() == "8-15\n"
    assert subprocess.run([sys.executable, program], check=False).returncode == 0
    assert not hold(**wanted)["changed"]
    hold(originals=str(record), irq_program=str(program))
    assert (tmp_path / "proc/irq/41/smp_affinity_list").read_text() == "0-15\n"
    assert not program.exists()


@pytest.fixture
def rings_of(tmp_path, monkeypatch):
    """Netdev → its rings; rail0's port is ens6. What is written to them is what they are."""
    now = {"ens6": "rx 1024 tx 512"}
    monkeypatch.setattr(kernel_settings, "ROOT", f"{tmp_path}/")
    for netdev in ("ens6", "bond0"):
        folder = tmp_path / "sys/class/net" / netdev
        folder.mkdir(parents=True)
        (folder / "address").write_text("02:00:00:00:00:01\n")

    def read(netdevs):
        there = {name: now[name] for name in netdevs if name in now}
        return {"rings": there, "ring_most": dict.fromkeys(there, "rx 8192 tx 4096")}

    monkeypatch.setattr(kernel_settings.rings, "read", read)
    monkeypatch.setattr(kernel_settings.rings, "write", now.__setitem__)
    return now


def test_rings_wait_for_confirmation_recorded_since_a_boot_will_set_them(tmp_path, rings_of, record):
    wanted = {
        "rails": [{"name": "rail0", "netdev": "ens6"}, {"name": "rail1", "netdev": "bond0"}],
        "ring_sizes": {"rx": "max", "tx": None},
        "ring_program": str(tmp_path / "var/rings.py"),
        "originals": str(record),
    }
    done = hold(**wanted)
    assert rings_of == {"ens6": "rx 1024 tx 512"}
    assert done["rings_waiting"] == ["ethtool -G ens6 rx 8192 tx 512"]
    assert (done["rings"], done["absent_rings"]) == ({"ens6": "rx 8192 tx 512"}, ["bond0"])
    assert '"ens6": "rx 1024 tx 512"' in record.read_text()
    assert not hold(**wanted)["changed"]
    checked = hold(check_mode=True, allow_ring_resize=True, **wanted)
    done = hold(allow_ring_resize=True, **wanted)
    assert done["diff"] == checked["diff"]
    assert done["diff"][0]["after"] == "ethtool -G ens6 = rx 8192 tx 512\n"
    assert rings_of == {"ens6": "rx 8192 tx 512"}
    assert (tmp_path / "var/rings.py").exists()


def test_rings_that_no_one_asks_for_any_more_stay_on_record_until_they_are_back(rings_of, record):
    wanted = {"rails": [{"name": "rail0", "netdev": "ens6"}], "ring_sizes": {"rx": "max"}}
    hold(allow_ring_resize=True, originals=str(record), **wanted)
    assert hold(originals=str(record))["rings_waiting"] == ["ethtool -G ens6 rx 1024 tx 512"]
    assert rings_of == {"ens6": "rx 8192 tx 512"}
    assert record.exists()
    hold(originals=str(record), allow_ring_resize=True)
    assert rings_of == {"ens6": "rx 1024 tx 512"}
    assert not record.exists()


def test_a_parameter_of_the_command_line_is_looked_for_and_never_set(governor, record, tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("ro iommu.passthrough=1\n")
    done = hold(originals=str(record), boot_parameter="iommu.passthrough=1")
    assert done["boot_parameter"] == {"runs": True, "in_menu": False, "can_write": False}
    assert not done["changed"]
    assert hold(originals=str(record))["boot_parameter"] is None

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import settings

RMEM = "net.ipv4.tcp_rmem"


@pytest.fixture
def node(tmp_path):
    """A root with two CPUs under powersave (10 and 2, to see them in order) and two sysctls."""
    for cpu in ("cpu10", "cpu2"):
        folder = tmp_path / "sys/devices/system/cpu" / cpu / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("powersave\n")
        (folder / "scaling_available_governors").write_text("performance powersave\n")
        (folder / "scaling_driver").write_text("intel_pstate\n")
    (tmp_path / "sys/devices/system/cpu/intel_pstate").mkdir()
    (tmp_path / "sys/devices/system/cpu/intel_pstate/status").write_text("active\n")
    (tmp_path / "sys/devices/system/cpu/cpuidle").mkdir()
    (tmp_path / "proc/sys/net/ipv4/conf/eth0.100").mkdir(parents=True)
    (tmp_path / "proc/sys/net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
    (tmp_path / "proc/sys/net/ipv4/conf/eth0.100/rp_filter").write_text("1\n")
    return tmp_path


def read(node, keys=(RMEM,)):
    return settings.read_state(str(node), keys)


def record(recorded, state, governor, keys=(RMEM,)):
    """Ask for `governor` and `keys`; return what is on record then."""
    return settings.merge_originals(
        settings.split_released(recorded, governor, keys)[0], state, governor, keys
    )


def test_reads_cpus_in_order_and_sysctls_as_they_are(node):
    state = read(node, [RMEM, "net/ipv4/conf/eth0.100/rp_filter", "net.core.rmem_max"])
    assert list(state["governors"].items()) == [("cpu2", "powersave"), ("cpu10", "powersave")]
    assert state["available_governors"] == ["performance", "powersave"]
    assert state["cpufreq_driver"] == "intel_pstate"
    assert state["sysctl"] == {
        RMEM: "4096\t131072\t6291456",
        "net/ipv4/conf/eth0.100/rp_filter": "1",
        "net.core.rmem_max": None,
    }


def test_a_sysctl_that_is_only_shown_counts_as_absent(node):
    (node / "proc/sys/net/ipv4/tcp_rmem").chmod(0o444)
    state = read(node)
    assert settings.plan_present(state, None, {RMEM: "1 2 3"}) == ([], [RMEM])
    assert record(None, state, None) is None


def test_node_without_cpufreq(tmp_path):
    state = read(tmp_path)
    assert (state["governors"], state["available_governors"], state["cpufreq_driver"]) == ({}, [], None)
    assert settings.plan_present(state, "performance", {}) == ([], [])


def test_plan_writes_what_differs_and_names_what_is_absent(node):
    state = read(node, [RMEM, "net.core.rmem_max"])
    writes, absent = settings.plan_present(
        state, "performance", {RMEM: "4096 131072 134217728", "net.core.rmem_max": "1"}
    )
    assert [(write.path, write.before, write.after) for write in writes] == [
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave", "performance"),
        ("sys/devices/system/cpu/cpu10/cpufreq/scaling_governor", "powersave", "performance"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456", "4096 131072 134217728"),
    ]
    assert absent == ["net.core.rmem_max"]


def test_plan_is_empty_when_all_is_so_already_whatever_the_blanks(node):
    assert settings.plan_present(read(node), "powersave", {RMEM: "4096 131072  6291456"}) == ([], [])


def test_no_governor_asked_leaves_the_governors_alone(node):
    assert settings.plan_present(read(node), None, {}) == ([], [])


def test_governor_that_the_driver_lacks_is_refused_with_the_reason(node):
    with pytest.raises(
        settings.KernelSettingsError, match=r"(?s)schedutil.*performance powersave.*intel_pstate"
    ):
        settings.plan_present(read(node), "schedutil", {})


def test_driver_that_lists_no_governors_is_not_refused(node):
    for path in node.glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_available_governors"):
        path.unlink()
    assert len(settings.plan_present(read(node), "schedutil", {})[0]) == 2


def test_what_was_recorded_once_stays(node):
    first = record(None, read(node), "performance")
    settings.apply(str(node), settings.plan_present(read(node), "performance", {RMEM: "1 2 3"})[0])
    assert record(first, read(node), "performance") == first


def test_a_key_asked_for_later_is_added_to_the_record(node):
    first = record(None, read(node, []), "performance", [])
    assert first == {"schema": 1, "governors": {"cpu2": "powersave", "cpu10": "powersave"}, "sysctl": {}}
    later = record(first, read(node), "performance")
    assert later == {**first, "sysctl": {RMEM: "4096\t131072\t6291456"}}


def test_what_is_no_longer_asked_for_is_released_and_the_rest_kept(node):
    held = record(None, read(node), "performance")
    kept, released = settings.split_released(held, None, [RMEM])
    assert (kept["governors"], released["sysctl"]) == ({}, {})
    assert released["governors"] == {"cpu2": "powersave", "cpu10": "powersave"}
    kept, released = settings.split_released(held, "performance", [])
    assert (kept["sysctl"], released["governors"]) == ({}, {})
    assert released["sysctl"] == {RMEM: "4096\t131072\t6291456"}


def test_while_values_are_written_the_record_has_both_the_held_and_the_released():
    before = {"schema": 1, "governors": {"cpu0": "powersave"}, "sysctl": {"a": "1"}}
    after = {"schema": 1, "governors": {}, "sysctl": {"a": "9", "b": "2"}}
    assert settings.union(before, after) == {**before, "sysctl": {"a": "1", "b": "2"}}
    assert settings.union(None, after) == after
    assert settings.union(before, None) == before
    assert settings.union(None, None) is None


def test_there_and_back_again(node):
    before = {path: path.read_text().split() for path in node.rglob("*") if path.is_file()}
    originals = record(None, read(node), "performance")
    settings.apply(str(node), settings.plan_present(read(node), "performance", {RMEM: "1 2 3"})[0])
    assert read(node)["sysctl"][RMEM] == "1 2 3"
    settings.apply(str(node), settings.plan_restored(read(node), originals))
    assert {path: path.read_text().split() for path in node.rglob("*") if path.is_file()} == before
    assert settings.plan_restored(read(node), originals) == []


def test_restore_passes_over_a_cpu_that_is_gone(node):
    originals = {"schema": 1, "governors": {"cpu99": "powersave"}, "sysctl": {"net.gone": "1"}}
    assert settings.plan_restored(read(node, ["net.gone"]), originals) == []


def test_all_refusals_come_at_once(node):
    writes = [settings.Write(f"proc/sys/none/{name}", "1", "2") for name in ("first", "second")]
    with pytest.raises(settings.KernelSettingsError, match=r"none/first = 2.*none/second = 2"):
        settings.apply(str(node), writes)


def test_record_survives_the_disk(tmp_path):
    path = tmp_path / "deep/originals.json"
    document = {"schema": 1, "governors": {"cpu0": "powersave"}, "sysctl": {}}
    assert settings.load_originals(str(path)) is None
    settings.store_originals(str(path), document)
    assert settings.load_originals(str(path)) == document
    assert [entry.name for entry in path.parent.iterdir()] == ["originals.json"]
    settings.remove_originals(str(path))
    assert settings.load_originals(str(path)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"schema": 2})])
def test_a_broken_record_is_no_absent_record(tmp_path, text):
    path = tmp_path / "originals.json"
    path.write_text(text)
    with pytest.raises(settings.KernelSettingsError, match=r"originals\.json.*repair or remove"):
        settings.load_originals(str(path))

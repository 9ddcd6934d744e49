from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import originals, settings
from ansible_collections.railyard.fabric.plugins.module_utils.kernel.settings import Wanted
from support.nodes.held_kernel import hold

RMEM = "net.ipv4.tcp_rmem"
QDISC = "net.core.default_qdisc"
THP = "kernel/mm/transparent_hugepage/enabled"


@pytest.fixture
def node(tmp_path):
    """A root with two CPUs under powersave (10 and 2, to see them in order), two sysctls and a switch."""
    for cpu in ("cpu10", "cpu2"):
        folder = tmp_path / "sys/devices/system/cpu" / cpu / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("powersave\n")
    (tmp_path / "proc/sys/net/ipv4/conf/eth0.100").mkdir(parents=True)
    (tmp_path / "proc/sys/net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
    (tmp_path / "proc/sys/net/ipv4/conf/eth0.100/rp_filter").write_text("1\n")
    (tmp_path / "sys" / THP).parent.mkdir(parents=True)
    (tmp_path / "sys" / THP).write_text("always [madvise] never\n")
    return tmp_path


def read(node, **wanted):
    return settings.read(str(node), Wanted(**wanted), None)


def plan(node, **wanted):
    """Return what is written for a request, where no request came before."""
    return hold(node, None, Wanted(**wanted))[1]


def test_reads_sysctls_as_they_are(node):
    keys = [RMEM, "net/ipv4/conf/eth0.100/rp_filter", "net.core.rmem_max"]
    assert read(node, sysctl=dict.fromkeys(keys, ""))["sysctl"] == {
        RMEM: "4096\t131072\t6291456",
        "net/ipv4/conf/eth0.100/rp_filter": "1",
        "net.core.rmem_max": None,
    }


def test_a_sysctl_that_is_only_shown_is_neither_held_nor_recorded(node):
    (node / "proc/sys/net/ipv4/tcp_rmem").chmod(0o444)
    assert hold(node, None, Wanted(sysctl={RMEM: "1 2 3"})) == (None, [])


def test_what_a_container_has_mounted_to_be_read_only_is_not_held(node, monkeypatch):
    monkeypatch.setattr(settings.os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert plan(node, sysctl={RMEM: "1 2 3"}, sysfs={THP: "always"}) == []


def test_plan_writes_what_differs(node):
    writes = plan(
        node,
        governor="performance",
        sysctl={RMEM: "4096 131072 134217728", "net.core.rmem_max": "1"},
        sysfs={THP: "always", "kernel/mm/none": "1"},
    )
    assert [(write.path, write.before, write.after) for write in writes] == [
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave", "performance"),
        ("sys/devices/system/cpu/cpu10/cpufreq/scaling_governor", "powersave", "performance"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456", "4096 131072 134217728"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "madvise", "always"),
    ]


def test_plan_is_empty_when_all_is_so_already_whatever_the_blanks(node):
    assert (
        plan(node, governor="powersave", sysctl={RMEM: "4096 131072  6291456"}, sysfs={THP: "madvise"}) == []
    )


def test_an_empty_request_changes_nothing(node):
    assert plan(node) == []


def test_a_word_that_a_switch_lacks_is_refused_with_those_it_has(node):
    with pytest.raises(settings.KernelSettingsError, match=r"does not offer sometimes.*always madvise never"):
        plan(node, sysfs={THP: "sometimes"})


@pytest.mark.parametrize(
    ("there", "written"),
    [
        (None, False),
        ("sys/module/sch_fq/refcnt", True),
        ("lib/modules/{release}/modules.dep", True),
    ],
)
def test_a_queueing_discipline_is_queried_from_a_kernel_that_has_it(node, there, written):
    (node / "proc/sys/net/core").mkdir()
    (node / "proc/sys/net/core/default_qdisc").write_text("fq_codel\n")
    if there:
        path = node / there.format(release=os.uname().release)
        path.parent.mkdir(parents=True)
        path.write_text("kernel/net/sched/sch_fq.ko.xz:\nkernel/net/sched/sch_cake.ko.xz:\n")
    assert [write.after for write in plan(node, sysctl={QDISC: "fq"})] == (["fq"] if written else [])


def test_there_and_back_again(node):
    before = {path: path.read_text().split() for path in node.rglob("*") if path.is_file()}
    record, _writes = hold(node, None, Wanted("performance", sysctl={RMEM: "1 2 3"}))
    assert read(node, sysctl={RMEM: ""})["sysctl"][RMEM] == "1 2 3"
    hold(node, record, Wanted())
    assert {path: path.read_text().split() for path in node.rglob("*") if path.is_file()} == before


def test_restore_passes_over_a_cpu_that_is_gone(node):
    gone = {"governors": {"cpu99": "powersave"}, "sysctl": {"net.gone": "1"}}
    record = {**{section: {} for section in originals.SECTIONS}, **gone}
    assert settings.plan(settings.read(str(node), Wanted(), record), record) == []


def test_all_refusals_come_at_once(node):
    writes = [settings.Write(f"proc/sys/none/{name}", "1", "2") for name in ("first", "second")]
    with pytest.raises(settings.KernelSettingsError, match=r"none/first = 2.*none/second = 2"):
        settings.apply(str(node), writes)

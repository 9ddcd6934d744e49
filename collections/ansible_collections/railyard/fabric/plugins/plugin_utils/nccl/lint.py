# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with settings of NCCL: each by itself here, in pairs in pairs.py, on rails in fabric.py."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.nccl import device_list as names
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import (
    catalogue,
    environments,
    fabric,
    other_names,
    pairs,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.catalogue import Variable
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.findings import (
    ERROR,
    NOTE,
    SEVERITIES,
    UNKNOWN,
    WARNING,
    Finding,
    about,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import (
    CONF,
    DOCKER,
    ENV,
    Setting,
    Settings,
)

Nodes = Sequence[fabric.Node]
Release = tuple[int, ...]
# The first release that finds the GID itself.
_GID_BY_ITSELF = (2, 21)
# The fallback message.
_GENERAL = ("default", "debugging", "internal")
# A whole name ends in its number; mlx5 is what the names of all such cards begin with.
_WHOLE = re.compile(r"(?!(mlx[45]|hfi1)$).*\d$")
# mlx5_1 and mlx5_10 are both names; mlx5_0 begins no other.
_BEGINS_ANOTHER = re.compile(r".*[1-9]\d*$")
# NVIDIA documents them for experiments; when they are right, their own rule says.
_EXPLAINED = ("NCCL_IB_QPS_PER_CONNECTION",)
# 4.096 us, doubled so often: what a packet waits for its answer.
_TIMEOUT_UNIT_S = 4.096e-6
_TIMEOUT_LATE, _RETRIES = 20, 7


def lint(found: Settings, nodes: Nodes = (), nccl: str = catalogue.NEWEST) -> list[Finding]:
    """Return the findings about a file's settings, in the order of its lines.

    Args:
        found: what was read.
        nodes: the fabric that they are for; none where it is unknown.
        nccl: the version that reads them.
    """
    version = catalogue.release(nccl)
    reported = list(_of_form(found)) + list(_not_read(found))
    if found.form in (CONF, ENV):
        reported += _of_settings(found.settings, found.counting(), version, nodes)
    for setting in found.settings:
        if not setting.exported:
            reported += _not_exported(setting, found.form)
    for program in found.environments:
        reported += environments.check(program, lambda one: _of_settings(one.values(), one, version, nodes))
    for file in found.files:
        reported += lint(file, nodes, nccl)
    return sorted(
        environments.distinct([one for one in reported if not _is_own(one, found.own)]),
        key=lambda one: (one.line or 0, one.variable, SEVERITIES.index(one.severity), one.code),
    )


def _is_own(one: Finding, own: frozenset[str]) -> bool:
    """Tell whether a finding is about a variable that the file has for a use of its own."""
    name = one.variable
    return name in own and catalogue.find(name) is None and _misspelt(name) is None


def _of_settings(
    settings: Iterable[Setting], counting: Mapping[str, Setting], nccl: Release, nodes: Nodes
) -> list[Finding]:
    """Return the findings about settings, each alone and those that count together."""
    found: list[Finding] = []
    for setting in settings:
        found += _of_one(setting, nccl, nodes)
    known = {name: one for name, one in counting.items() if one.value}
    found += pairs.check(known)
    if nodes:
        found += fabric.check(known, nodes)
    # NCCL does not start with a network that is off: no data goes by TCP either.
    failing = {(one.line, one.variable) for one in found if one.code == "contradiction"}
    found = [one for one in found if one.code != "no_rdma" or (one.line, one.variable) not in failing]
    told = {(one.line, one.variable) for one in found if one.severity != NOTE and one.code not in _GENERAL}
    return [one for one in found if one.code not in _GENERAL or (one.line, one.variable) not in told]


def _not_read(found: Settings) -> Iterator[Finding]:
    for one in found.unread:
        severity = NOTE if one.harmless else UNKNOWN
        yield Finding(one.line, one.name, "", severity, "not_read", one.why, environments.FIX)


def _not_exported(setting: Setting, form: str) -> Iterator[Finding]:
    row = catalogue.find(setting.name)
    if row is not None and row.use in ("system", "debugging", "ucx"):
        why = "it is not exported, and no program sees it"
        word = "ENV" if form == DOCKER else "export"
        yield about(setting, WARNING, "not_exported", why, f"write {word} {setting.name}={setting.text}")


def _of_form(found: Settings) -> Iterator[Finding]:
    """What the reader of a file takes otherwise than it was meant."""
    for setting, why in found.odd:
        sure = found.form == CONF
        fix = "write NAME=VALUE and no more: no export, blanks or quotes, # as the first character of a line"
        yield about(setting, ERROR if sure else WARNING, "form", why, fix)
    for line in found.lost:
        why = "the line is no NAME=VALUE, and is passed over without a word"
        yield Finding(line, "", "", ERROR, "form", why, "write NAME=VALUE, or # before a comment")
    if found.form not in (CONF, ENV):
        return
    first: dict[str, Setting] = {}
    for setting in found.settings:
        before = first.setdefault(setting.name, setting)
        if before is not setting and before.value != setting.value:
            why = (
                f"line {before.line} says {before.text}: NCCL takes the first of its own file, and systemd, "
                "docker and a shell take the last"
            )
            yield about(setting, ERROR, "twice", why, "leave one of them")


def _of_one(setting: Setting, nccl: Release, nodes: Nodes) -> Iterator[Finding]:
    if setting.listed and "," in (setting.value or ""):
        why = "Slurm's --export ends a value at its first comma"
        yield about(setting, WARNING, "comma", why, "set it in the script, and pass its name alone")
    row = catalogue.find(setting.name)
    if row is None:
        if setting.name.lower().startswith("nccl_") and not other_names.is_of_others(setting.name):
            yield _unknown(setting)
        return
    if row.use == "other":
        yield from _of_others(setting, row)
        return
    yield from _of_version(setting, row, nccl)
    if row.until and catalogue.release(row.until) <= nccl:
        return
    if setting.value is None:
        why = "the file alone does not tell its value"
        fix = "lint the environment of a job: env | railyard lint-nccl -"
        yield about(setting, UNKNOWN, "not_told", why, fix)
        return
    if not setting.value:
        return  # as if it were not set
    wrong = catalogue.wrong_value(row, setting.value)
    if wrong:
        can = f"write one of: {row.values}" if row.values and "<" not in row.values else f"it is {row.why}"
        yield about(setting, ERROR, "value", f"{setting.value} {wrong}", can)
        return
    yield from _of_use(setting, row)
    for rule in _RULES.get(setting.name, ()):
        yield from rule(setting, setting.value, nccl, nodes)


# A file may have a name many times, and each look takes a millisecond.
_near = functools.lru_cache(maxsize=4096)(catalogue.near)
_misspelt = functools.lru_cache(maxsize=4096)(catalogue.misspelt)


def _unknown(setting: Setting) -> Finding:
    why = catalogue.describe_unknown(setting.name)
    if meant := _misspelt(setting.name):
        return about(setting, ERROR, "unknown", why, f"write {meant}")
    # It may be a newer release's: nothing here says that it is wrong.
    near = _near(setting.name)
    fix = f"did you mean {near}? If not, " if near else ""
    fix += "look it up in the documentation of the NCCL or the plugin that is to read it"
    return about(setting, UNKNOWN, "unknown", f"{why}; a newer NCCL may", fix)


def _of_others(setting: Setting, row: Variable) -> Iterator[Finding]:
    if row.instead:
        why = f"{row.why}, not by NCCL, under its old name"
        yield about(setting, WARNING, "renamed", why, f"use {row.instead}")
    if row.left_over:
        yield about(setting, WARNING, "left_over", f"{row.why}; {row.left_over}", "take it out")


def _of_version(setting: Setting, row: Variable, nccl: Release) -> Iterator[Finding]:
    shown = ".".join(str(part) for part in nccl)
    instead = f"use {row.instead}" if row.instead else "take it out"
    if row.until and catalogue.release(row.until) <= nccl:
        was = f": {row.why}" if row.why else ""
        why = f"NCCL has not read it since {row.until}{was}"
        fix = f"take it out; {row.instead} replaces it" if row.instead else instead
        yield about(setting, ERROR, "obsolete", why, fix)
    elif row.since and catalogue.release(row.since) > nccl:
        why = f"NCCL {shown} does not read it: it came with {row.since}"
        yield about(setting, ERROR, "too_new", why, "take it out, or update NCCL")
    elif row.deprecated and catalogue.release(row.deprecated) <= nccl:
        yield about(setting, WARNING, "deprecated", f"deprecated since {row.deprecated}: {row.why}", instead)


def _of_use(setting: Setting, row: Variable) -> Iterator[Finding]:
    if setting.value == row.default:
        yield about(setting, NOTE, "default", "it is what NCCL does without it", "take it out")
    elif row.use == "debugging" and not row.deprecated and setting.name not in _EXPLAINED:
        why = f"NVIDIA documents it for debugging and experiments, not to be kept: {row.why}"
        fix = "take it out, unless a measurement of yours shows the gain"
        yield about(setting, WARNING, "debugging", why, fix)
    elif row.use == "internal":
        why = "it is not documented, and may change with any release"
        yield about(setting, NOTE, "internal", why, "take it out, unless NVIDIA support wants it")


_Rule = Callable[[Setting, str, Release, Nodes], Iterable[Finding]]


def _hcas(setting: Setting, value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    read = names.parse(value)
    whole = [one.name for one in read.entries if _WHOLE.match(one.name)]
    trap = next(filter(_BEGINS_ANOTHER.match, whole), None)
    if read.exact or not read.entries:
        return
    meant = f"{'^' if read.excludes else ''}={','.join(str(one) for one in read.entries)}"
    does = "leaves out" if read.excludes else "takes"
    if trap:
        why = f"without = these are prefixes: {trap} {does} {trap}0 to {trap}9 too"
        yield about(setting, WARNING, "prefix", why, f"write {setting.name}={meant}")
    elif len(whole) == len(read.entries):
        why = "without = these are prefixes, though as such they take no more today"
        yield about(setting, NOTE, "prefix", why, f"write {setting.name}={meant}")
    else:
        why = f"it {does} every port whose name begins so, those of storage too"
        yield about(setting, NOTE, "prefix", why, "name the rails' ports, = first")


def _netdevs(setting: Setting, value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    read = names.parse(value)
    if read.exact or read.excludes or not read.entries:
        return
    why = f"without = these are prefixes: {read.entries[0].name} takes all that begins so"
    meant = ",".join(str(one) for one in read.entries)
    yield about(setting, NOTE, "prefix", why, f"write {setting.name}=={meant} for whole names")


def _gid_index(setting: Setting, value: str, nccl: Release, nodes: Nodes) -> Iterator[Finding]:
    if value == "-1":
        return
    table = "each port has a GID table of its own, whose indices move when addresses come and go"
    check = "compare the tables of all nodes and ports (`show_gids`, or `railyard collect`)"
    if nodes and all(node.transport == "infiniband" for node in nodes):
        why = "it chooses among the GIDs of RoCE, and these rails are InfiniBand, where NCCL needs none"
        yield about(setting, WARNING, "gid_index", why, "set it on RoCE nodes only")
    elif nccl >= _GID_BY_ITSELF:
        why = (
            f"it is right where index {value} is the RoCE v2 address of every rail, as some sites and audits "
            f"(ClusterMAX: 3) ask for; {table}, and NCCL 2.21 and newer finds the GID itself"
        )
        fix = (
            f"keep it where your site asks for it, and {check}; otherwise leave it to NCCL, and use "
            "NCCL_IB_ROCE_VERSION_NUM or NCCL_IB_ADDR_RANGE to choose"
        )
        yield about(setting, NOTE, "gid_index", why, fix)
    else:
        why = f"NCCL before 2.21 needs it for RoCE v2; {table}"
        yield about(setting, NOTE, "gid_index", why, check)


def _queue_pairs(setting: Setting, value: str, _nccl: object, nodes: Nodes) -> Iterator[Finding]:
    if catalogue.number(value)[0] == 1:
        return
    if nodes and all(node.transport == "infiniband" for node in nodes):
        why = (
            "more queue pairs spread data over the paths that switches choose by hashing (ECMP, on RoCE); "
            "InfiniBand goes by the destination's LID or adaptive routing, so that no gain is expected"
        )
    else:
        why = (
            "more queue pairs spread data over the equal paths of a fabric with several tiers of switches, "
            "which choose by hashing (ECMP); with one tier there is one path. Audits (ClusterMAX: 2) ask "
            "for it"
        )
    fix = "keep it where your site asks for it, or all_reduce_perf gains by it: compare 1, 2 and 4"
    yield about(setting, NOTE, "queue_pairs", why, fix)


def _no_rdma(setting: Setting, value: str, _nccl: object, nodes: Nodes) -> Iterator[Finding]:
    read = catalogue.number(value)[0]
    if not (read == 1 if setting.name == "NCCL_IB_DISABLE" else value.lower() == "socket"):
        return
    if not nodes:
        why = "NCCL's data goes by TCP sockets: where there is RDMA, it is not used"
        yield about(setting, WARNING, "no_rdma", why, "take it out where there is RDMA")
        return
    transports = sorted({node.transport for node in nodes if node.transport != "tcp"})
    if transports:
        why = f"the rails are {' and '.join(transports)}, and NCCL's data goes by TCP sockets instead"
        yield about(setting, ERROR, "no_rdma", why, "take it out")


def _other_net(setting: Setting, value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    if value.lower() not in ("ib", "socket"):
        why = f"{value} is none of NCCL's own networks (IB, Socket): without a plugin of that name NCCL fails"
        fix = f"look for `Using network {value}` in the log (NCCL_DEBUG=INFO)"
        yield about(setting, NOTE, "plugin", why, fix)


def _switched_off(setting: Setting, value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    if value in ("1", "LOC"):
        why = "the GPUs of a node no longer reach each other by NVLink or PCIe, but through the CPUs' memory"
        fix = "take it out; only GPUs without working peer access need it"
        yield about(setting, ERROR, "no_p2p", why, fix)


def _levels(setting: Setting, value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    means = catalogue.level(value)
    if value[:1].isdigit() and means:
        why = f"a number is the old spelling, and {value} means {means}"
        yield about(setting, WARNING, "old_level", why, f"write {means}, if that is what you want")
    if setting.name == "NCCL_NET_GDR_LEVEL" and means == "SYS":
        why = "GPUDirect RDMA across CPU sockets is often slower than by way of the CPU's memory"
        fix = "take it out: NCCL chooses by the topology; or measure both"
        yield about(setting, WARNING, "gdr_far", why, fix)
    if setting.name == "NCCL_NET_GDR_LEVEL" and means == "LOC":
        yield about(setting, ERROR, "gdr_off", "GPUDirect RDMA is never used", "take it out")


def _debug(setting: Setting, value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    if setting.name != "NCCL_DEBUG" or value.upper() in ("INFO", "TRACE"):
        why = "it is for the search of a fault: every rank of every job writes"
        yield about(setting, WARNING, "debug", why, "take it out; NCCL_DEBUG=WARN may stay")


def _timeout(setting: Setting, value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    read = catalogue.number(value)[0]
    if read == 0:
        yield about(setting, ERROR, "hangs", "a lost peer is waited for without end", "take it out")
    elif read > _TIMEOUT_LATE:
        waits = _TIMEOUT_UNIT_S * 2**read * _RETRIES
        why = (
            f"a lost peer is noticed after about {waits:.0f} s ({_TIMEOUT_UNIT_S * 2**read:.1f} s, "
            f"{_RETRIES} times); by default after {_TIMEOUT_UNIT_S * 2**_TIMEOUT_LATE * _RETRIES:.0f}"
        )
        yield about(setting, NOTE, "timeout", why, "keep it only for a fabric that loses links for so long")


def _cap(setting: Setting, _value: str, _nccl: object, _nodes: object) -> Iterator[Finding]:
    why = "it is the most that NCCL may use, and makes no more of them"
    yield about(setting, WARNING, "cap", why, "take it out; NCCL chooses how many")


_RULES: dict[str, tuple[_Rule, ...]] = {
    "NCCL_IB_HCA": (_hcas,),
    "NCCL_OOB_NET_IFNAME": (_hcas,),
    "NCCL_SOCKET_IFNAME": (_netdevs,),
    "NCCL_IB_GID_INDEX": (_gid_index,),
    "NCCL_IB_QPS_PER_CONNECTION": (_queue_pairs,),
    "NCCL_IB_DISABLE": (_no_rdma,),
    "NCCL_NET": (_no_rdma, _other_net),
    "NCCL_P2P_DISABLE": (_switched_off,),
    "NCCL_P2P_LEVEL": (_switched_off, _levels),
    "NCCL_NET_GDR_LEVEL": (_levels,),
    "NCCL_DEBUG": (_debug,),
    "NCCL_DEBUG_FILE": (_debug,),
    "NCCL_DEBUG_SUBSYS": (_debug,),
    "NCCL_TOPO_DUMP_FILE": (_debug,),
    "NCCL_GRAPH_DUMP_FILE": (_debug,),
    "NCCL_IB_TIMEOUT": (_timeout,),
    "NCCL_MAX_NCHANNELS": (_cap,),
    "NCCL_MAX_CTAS": (_cap,),
}

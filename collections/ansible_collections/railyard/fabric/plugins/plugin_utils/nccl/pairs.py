# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of NCCL that contradict each other, or of which one has no effect beside the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue, findings
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import Setting

# Helper threads times sockets of each.
_SOCKETS_MOST = 64
_BY_RDMA = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_ROCE_VERSION_NUM")
_GID_BY = ("NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE")
_LEAST_AND_MOST = (("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"), ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"))
# How the names begin that only plugins read.
_OF_PLUGINS = ("NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "OFI_NCCL_")
#: a setting, its value; another, its value: what the first does not do; both contradict each other.
_EITHER = (
    ("NCCL_NET_GDR_READ", "1", "NCCL_NET_GDR_LEVEL", "LOC", "GPUDirect RDMA is off"),
    ("NCCL_PXN_DISABLE", "1", "NCCL_P2P_PXN_LEVEL", "2", "PXN is off"),
    ("NCCL_PXN_DISABLE", "1", "NCCL_P2P_PXN_LEVEL", "1", "PXN is off"),
    ("NCCL_COLLNET_ENABLE", "1", "NCCL_NET_PLUGIN", "none", "CollNet is a plugin's, and none is loaded"),
    ("NCCL_GRAPH_STREAM_ORDERING", "0", "NCCL_GRAPH_MIXING_SUPPORT", "1", "NCCL does not support both"),
    ("NCCL_MNNVL_ENABLE", "1", "NCCL_CUMEM_ENABLE", "0", "NVLink between nodes needs cuMem"),
)


def check(settings: Mapping[str, Setting]) -> Iterator[findings.Finding]:
    """Yield what is wrong with settings together; they are those that count, by name, none empty."""
    yield from _without_rdma(settings)
    yield from _gid(settings)
    yield from _numbers(settings)
    yield from _alone(settings)
    yield from _without_plugin(settings)
    for one, value, other, otherwise, why in _EITHER:
        if _is(settings, one, value) and _is(settings, other, otherwise):
            yield _both(settings[one], settings[other], why)


def _is(settings: Mapping[str, Setting], name: str, value: str) -> bool:
    return name in settings and str(settings[name].value).lower() == value.lower()


def _both(one: Setting, other: Setting, why: str) -> findings.Finding:
    text = f"it contradicts {other.name}={other.text} in line {other.line}: {why}"
    return findings.about(one, findings.ERROR, "contradiction", text, "leave one of them")


def _without_rdma(settings: Mapping[str, Setting]) -> Iterator[findings.Finding]:
    disabled = settings.get("NCCL_IB_DISABLE") if _is(settings, "NCCL_IB_DISABLE", "1") else None
    if disabled and _is(settings, "NCCL_NET", "IB"):
        why = "NCCL fails, since the only network that it may use is off"
        yield _both(disabled, settings["NCCL_NET"], why)
    sockets = disabled or (settings["NCCL_NET"] if _is(settings, "NCCL_NET", "Socket") else None)
    for name in _BY_RDMA if sockets else ():
        if name in settings and sockets:
            yield _both(settings[name], sockets, "without RDMA nothing reads it")


def _without_plugin(settings: Mapping[str, Setting]) -> Iterator[findings.Finding]:
    own = settings.get("NCCL_NET")
    none = settings.get("NCCL_NET_PLUGIN") if _is(settings, "NCCL_NET_PLUGIN", "none") else None
    if own and str(own.value).lower() not in ("ib", "socket"):
        if none:
            yield _both(own, none, "that network is a plugin's, and none is loaded")
        own = None
    for name, one in settings.items():
        if (without := none or own) and name.startswith(_OF_PLUGINS):
            yield _both(one, without, "without its plugin nothing reads it")


def _gid(settings: Mapping[str, Setting]) -> Iterator[findings.Finding]:
    index = settings.get("NCCL_IB_GID_INDEX")
    if index is None or index.value == "-1":
        return
    for name in _GID_BY:
        if name in settings:
            yield _both(settings[name], index, "it chooses a GID only where no index is set")


def _numbers(settings: Mapping[str, Setting]) -> Iterator[findings.Finding]:
    def read(name: str, otherwise: int) -> int:
        return catalogue.number(str(settings[name].value))[0] if name in settings else otherwise

    for least, most in _LEAST_AND_MOST:
        if least in settings and most in settings and read(least, 0) > read(most, 0):
            yield _both(settings[least], settings[most], "the least is above the most")
    threads, sockets = "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"
    if threads in settings and sockets in settings and read(threads, 1) * read(sockets, 1) > _SOCKETS_MOST:
        product = read(threads, 1) * read(sockets, 1)
        yield _both(settings[threads], settings[sockets], f"{product} sockets, and NCCL has {_SOCKETS_MOST}")
    split = "NCCL_IB_SPLIT_DATA_ON_QPS"
    if _is(settings, split, "1") and read("NCCL_IB_QPS_PER_CONNECTION", 1) <= 1:
        why = "with one queue pair per connection, the default, there is nothing to split over"
        yield findings.about(settings[split], findings.WARNING, "no_effect", why, "take it out")


def _alone(settings: Mapping[str, Setting]) -> Iterator[findings.Finding]:
    """What needs another setting to say anything."""
    verbose = any(_is(settings, "NCCL_DEBUG", word) for word in ("INFO", "TRACE"))
    if "NCCL_DEBUG_SUBSYS" in settings and not verbose:
        why = "it parts what NCCL_DEBUG=INFO writes, and that is not set"
        yield findings.about(settings["NCCL_DEBUG_SUBSYS"], findings.WARNING, "no_effect", why, "take it out")
    if "NCCL_OOB_NET_IFNAME" in settings and not _is(settings, "NCCL_OOB_NET_ENABLE", "1"):
        why = "without NCCL_OOB_NET_ENABLE=1 nothing reads it"
        fix = "take it out"
        yield findings.about(settings["NCCL_OOB_NET_IFNAME"], findings.WARNING, "no_effect", why, fix)

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's log (NCCL_DEBUG=INFO): which network each rank used; two ranks may share one line.

The formats are those of NCCL's source, 2.4 to 2.30, and the levels those of 2.32.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .. import common
from ..common import error
from .log_lines import Message, messages

_OURS = re.compile(r"NCCL (?:INFO|ATTN|WARN|version) ")
_VERSION = re.compile(r"NCCL version ([0-9][\w.+-]{0,40})")
# The next rank's line may begin right behind the name: the known names are taken as far as they go.
_NETWORK = re.compile(r"Using network (IBext(?:_v[0-9]{1,2})?|IB|Socket|[A-Za-z][\w /.-]{0,40}?(?=\s*$))")
_USING = re.compile(r"NET/(IB|Socket) : Using((?: ?\[[0-9]{1,3}\]\S{1,80})+)")
# Since 2.30 the port may be followed by the ids of rail and plane: mlx5_0:1:0:1/RoCE.
_HCA = re.compile(r"\[([0-9]{1,3})\]([\w.-]{1,40}:[0-9]{1,3})(?::[0-9]{0,5}){0,2}/(RoCE|IB)")
_SOCKET = re.compile(r"\[[0-9]{1,3}\]([\w.@-]{1,40}):")
_VIRTUAL = re.compile(r"NET/IB : Made virtual device \[([0-9]{1,3})\] name=([\w.+-]{1,200}) ")
# "Ring" up to 2.4. The number in parentheses is the rank whose GPU is in between (PXN).
_CHANNEL = re.compile(
    r"(?:Channel|Ring|CollNet) [0-9]{1,5}(?:/[0-9]{1,3})? : .{1,60}? via "
    r"(?:((?:COLL)?NET)/([A-Za-z][\w ]{0,30})/([0-9]{1,3})(?:\([0-9]{1,6}\))?((?:/[A-Za-z]+)*)|(P2P|SHM)/)"
)
_OPTIONS = {"", "GDRDMA", "Shared"}
# IbDev since 2.12; before that a line has Dev alone. InfiniBand has a LID in the GID's place.
_GID = re.compile(r"NET/IB: .{0,60}?(?:IbDev|Dev) [0-9]{1,3} Port .{1,300}? GID ([0-9]{1,3}) \(")
_RANK = re.compile(r"\brank ([0-9]{1,6}) n[rR]anks ([0-9]{1,6})\b")
# By the name of its network up to 2.26, by its library since.
_PLUGIN = re.compile(
    r"NET/Plugin ?: Loaded net plugin (\S.{0,60}?) \(v[0-9]{1,2}\)"
    r"|Successfully loaded external (?:network )?plugin (\S{1,200})"
)
# aws-ofi-nccl's line, with a capital in older ones, of which the oldest end behind the name.
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;.-]{1,60}?)(?=[, ]|\s*$)")
_NO_RDMA = re.compile(r"NET/IB : No device found|Failed to open libibverbs")
_REQUESTED_HCA = re.compile(r"NCCL_IB_HCA set to (\S{1,200})")
# Up to 2.8 a warning, and in all versions only the way to sockets.
_NO_LIBRARY = re.compile(r"Failed to open libibverbs")
_FATAL = re.compile(
    r"with error|unhandled|failed|failure|timed? ?out|abort|mismatch|invalid|refused|no route"
    r"|duplicate gpu|no socket interface|no usable|network \S+ not found|status=[1-9]",
    re.I,
)
# How a call that fails leaves NCCL; 7 is "in progress".
_LEFT_BY_ERROR = re.compile(r"(?:src/)?(?:init|group|enqueue)\.cc:[0-9]{1,6} -> [1-6]\b")


def _agreed(values: set[bool]) -> bool | None:
    return next(iter(values)) if len(values) == 1 else None


class _Rank:
    """The log of one process on one GPU."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.ranks = 0
        self.network: str | None = None
        self.devices: set[int] = set()
        self.gids: set[int] = set()
        self.direct: set[bool] = set()
        self.channels: Counter[str] = Counter()

    def take(self, text: str) -> None:
        # A log has millions of lines: searching for a substring before each pattern is much faster.
        number = _RANK.search(text) if "anks " in text else None
        channel = _CHANNEL.search(text) if " via " in text else None
        network, gid = _NETWORK.search(text), _GID.search(text)
        # The largest of several communicators is the job's; others number their ranks from 0 again.
        if number and int(number.group(2)) > self.ranks:
            self.rank, self.ranks = int(number.group(1)), int(number.group(2))
        if network:
            self.network = network.group(1).strip()
        if gid:
            self.gids.add(int(gid.group(1)))
        if channel and channel.group(5):
            self.channels[channel.group(5)] += 1
        elif channel:
            kind, name, device, options, _local = channel.groups()
            self.channels[f"{kind}/{name}"] += 1
            if kind == "NET":
                self.network = self.network or name
                # Another program's message that interrupts the line follows without a blank.
                is_whole = set(options.split("/")) <= _OPTIONS and not text[channel.end() :][:1].strip()
                if is_whole or "/GDRDMA" in options:
                    self.direct.add("/GDRDMA" in options)
                if name != "Socket" and (is_whole or text[channel.end(3)] in "/("):
                    self.devices.add(int(device))


class _Log:
    """The log of all processes."""

    def __init__(self) -> None:
        self.ranks: dict[tuple[str, int, int], _Rank] = {}
        self.unnamed = _Rank()
        self.networks: list[str] = []
        self.hcas: dict[str, None] = {}
        self.sockets: dict[str, None] = {}
        self.layers: set[str] = set()
        self.names: dict[tuple[str | None, int], str] = {}
        self.warned: list[str] = []
        self.left_by_error: str | None = None
        self.no_rdma = False
        self.requested_hca: str | None = None
        self.plugin: str | None = None
        self.provider: str | None = None

    def take(self, message: Message) -> None:
        text = message.text
        rank = self.unnamed
        if message.host is not None and message.pid is not None and message.gpu is not None:
            rank = self.ranks.setdefault((message.host, message.pid, message.gpu), _Rank())
        rank.take(text)
        self.networks += [name.strip() for name in _NETWORK.findall(text)]
        for kind, using in _USING.findall(text):
            if kind == "Socket":
                self.sockets.update(dict.fromkeys(_SOCKET.findall(using)))
            for index, hca, layer in _HCA.findall(using):
                self.layers.add(layer)
                self.hcas[hca] = None
                self.names[message.host, int(index)] = hca
        virtual, requested = _VIRTUAL.search(text), _REQUESTED_HCA.search(text)
        if virtual:
            self.names.setdefault((message.host, int(virtual.group(1))), virtual.group(2))
        self.requested_hca = requested.group(1) if requested else self.requested_hca
        plugin, provider = _PLUGIN.search(text), _PROVIDER.search(text)
        self.plugin = self.plugin or (plugin.group(1) or plugin.group(2) if plugin else None)
        self.provider = self.provider or (provider.group(1) if provider else None)
        self.no_rdma = self.no_rdma or bool(_NO_RDMA.search(text))
        if message.level == "WARN" and text.strip() and not _NO_LIBRARY.search(text):
            self.warned.append(text.strip()[:300])
        left = _LEFT_BY_ERROR.match(text)
        self.left_by_error = self.left_by_error or (left.group(0) if left else None)

    def everyone(self) -> list[_Rank]:
        return [*self.ranks.values(), self.unnamed]

    def network(self) -> str | None:
        # Up to 2.4 only the channels show it.
        return next(iter(self.networks), None) or next(
            (one.network for one in self.everyone() if one.network), None
        )

    def transport(self) -> str | None:
        network = self.network()
        if network is None or not re.match(r"IB(?:ext|\Z)", network):
            return network
        # NCCL calls RoCE "IB", too, and the plugin of HPC-X "IBext".
        return next(iter(self.layers)) if len(self.layers) == 1 else "RDMA"

    def rows(self) -> list[dict[str, Any]]:
        ports: dict[str, str] = {}
        for hca in self.hcas:
            ports.setdefault(hca.rpartition(":")[0], hca)

        def hca_of(host: str, device: int) -> str:
            name = self.names.get((host, device), f"device {device}")
            return ports.get(name, name)

        return [
            {
                "host": host,
                "pid": pid,
                "gpu": gpu,
                "rank": one.rank,
                "network": one.network,
                "hcas": sorted({hca_of(host, device) for device in one.devices}),
                "gid_indexes": sorted(one.gids),
                "gdr": _agreed(one.direct),
                "channels": dict(sorted(one.channels.items())),
            }
            for (host, pid, gpu), one in sorted(self.ranks.items())
            if one.rank is not None or one.network or one.channels
        ]


def _problem(log: _Log, channels: Counter[str]) -> dict[str, str] | None:
    fatal = next((line for line in log.warned if _FATAL.search(line)), None)
    if fatal or log.left_by_error:
        return error("nccl_error", fatal or next(iter(log.warned), log.left_by_error or ""))
    # The network that a rank reports, and those of its channels.
    networks = {*log.networks, *(kind[len("NET/") :] for kind in channels if kind.startswith("NET/"))}
    if len(networks) > 1:
        return error("inconsistent", f"ranks use different networks: {', '.join(sorted(networks))}")
    return error("truncated", "no line shows which network is used") if log.network() is None else None


def _remarks(log: _Log, channels: Counter[str], direct: set[bool]) -> list[str]:
    reported = []
    if len(direct) > 1:
        reported.append("some channels use GPUDirect RDMA and some do not")
    if channels and not any("NET/" in kind for kind in channels):
        reported.append("no channel uses a network: this run does not test the fabric")
    if log.network() == "Socket":
        over = f" over {', '.join(log.sockets)}" if log.sockets else ""
        requested = f"; NCCL_IB_HCA is {log.requested_hca}" if log.requested_hca and log.no_rdma else ""
        passed_over = f"; the plugin {log.plugin} was loaded and is not used" if log.plugin else ""
        reported.append(f"NCCL uses TCP{over}, not RDMA{requested}{passed_over}")
    return reported


def parse(text: str) -> dict[str, Any]:
    """Parse NCCL's log.

    Args:
        text: Lines of one or all ranks, other programs' lines in between.

    Returns:
        The common object with one output. `transport` is `RoCE`, `IB`, `RDMA` where the log does not show
        which of the two, `Socket`, or a plugin's name. `plugin` is the loaded one, by its network's or its
        library's name, used or not; `provider` is libfabric's, where the plugin is aws-ofi-nccl. `gdr` is
        what the channels use (None when the log has no channel, or when they differ): "Enabled for HCA" only
        means that GPUDirect is possible. `hcas` are those that NCCL may use, a rank's `hcas` those of its
        channels. `socket_fallback` is True where the log reports that no RDMA device or library was found,
        None where sockets were used for no stated reason. `ranks` has a row for each process and GPU;
        `gid_indexes` needs NCCL_DEBUG_SUBSYS with NET.

    Raises:
        NotThisTool: No line is NCCL's.
    """
    lines = common.split_lines(text)
    if not any(_OURS.search(line) for line in lines):
        raise common.refusal("no line of NCCL (NCCL INFO ...)", lines)
    log = _Log()
    for message in messages(lines):
        log.take(message)
    channels: Counter[str] = Counter()
    for one in log.everyone():
        channels.update(one.channels)
    direct = {value for one in log.everyone() for value in one.direct}
    network = log.network()
    fallback = (log.no_rdma or None) if network == "Socket" else None if network is None else False
    output = {
        "nccl_version": next((found.group(1) for found in map(_VERSION.search, lines) if found), None),
        "transport": log.transport(),
        "plugin": log.plugin,
        "provider": log.provider,
        "hcas": list(log.hcas),
        "sockets": list(log.sockets) if network == "Socket" else [],
        "gdr": _agreed(direct),
        "socket_fallback": fallback,
        "channels": dict(sorted(channels.items())),
        "ranks": log.rows(),
        "warnings": list(dict.fromkeys(log.warned)),
    }
    return common.result("nccl-log", [output], _problem(log, channels), _remarks(log, channels, direct))

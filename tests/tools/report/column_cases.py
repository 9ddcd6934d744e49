"""One case for each rule of the columns: what is changed in a sound sweep, and what becomes of its test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from tools.report.one_change import (
    BEGIN_MS,
    BOTH,
    CLIENT,
    DIGITS,
    KINDS,
    LAST_MS,
    PATH,
    PORT,
    RATE,
    SERVER,
    Change,
    Edit,
    beside,
    both,
    fixed,
    framed,
    grow,
    least,
    most,
    nothing,
    of_other_rail,
    out,
    put,
    value,
    window,
)

#: The columns let it pass; they leave it to single rows, which do; neither does.
PLAIN, LEFT, REFUSED = "plain", "left", "refused"

Case = tuple[str, int, Change, Edit, str]


def crossing() -> Iterator[tuple[str, Case]]:
    """Yield what crossed the rail, next to its bounds."""
    for kind, factor, near in (("tcp", 1.15, 1e-6), ("roce", 1.15, 1e-6), ("soft", 4.0, 1e-6)):
        for at, counter in ((CLIENT, "tx_bytes"), (SERVER, "rx_bytes")):
            name = PORT[counter] if kind == "roce" else counter
            for way, of in (("least", least), ("most", partial(most, factor))):
                for times in (1 - near, 1 + near):
                    good = (times > 1) == (way == "least")
                    change = grow(at, name, of(times))
                    if kind == "soft" and way == "most":
                        # As many packets as these bytes are in.
                        packets = "hw_sent_pkts" if at == CLIENT else "hw_rcvd_pkts"
                        change = both(change, grow(at, packets, 10**9))
                    yield f"{kind} {name} {way} {times:g}", (
                        kind, RATE, change, nothing, PLAIN if good else REFUSED
                    )  # fmt: skip
    for at, way in itertools.product((CLIENT, SERVER), ("tx", "rx")):
        for idle, what, by, word in (
            (200_000, "bytes", 8999, REFUSED), (200_000, "bytes", 9001, PLAIN),
            (200_000, "packets", 4, REFUSED), (200_000, "packets", 5, PLAIN),
            (100, "bytes", 219_001, REFUSED), (100, "bytes", 218_999, PLAIN),
            (100, "packets", 438, REFUSED), (100, "packets", 437, PLAIN),
        ):  # fmt: skip
            change = both(put(at, "idle_bytes_per_s", idle), grow(at, f"{way}_{what}", by))
            yield f"path {way} {by} {what} at {at[0]}", ("tcp", PATH, change, nothing, word)


def impossible() -> Iterator[tuple[str, Case]]:
    """Yield numbers of a row's own that cannot be, or just can."""
    for kind, names in (("roce", (*PORT.values(), "port_xmit_packets", "port_rcv_packets")),
                        ("soft", ("hw_sent_pkts", "hw_rcvd_pkts"))):  # fmt: skip
        for at, name in itertools.product((CLIENT, SERVER), names):
            yield f"{name} stands still at {at[0]}", (kind, RATE, grow(at, name, 0), nothing, REFUSED)
    for at, (moved, packets, word) in itertools.product(
        (CLIENT, SERVER),
        ((13 * 8, 8, REFUSED), (14 * 8, 8, PLAIN), (1, 0, REFUSED), (100, 0, REFUSED), (0, 0, PLAIN),
         (0, 1, REFUSED), (-1, 8, REFUSED), (100, -1, REFUSED)),
    ):  # fmt: skip
        for way in ("rx", "tx"):
            change = both(grow(at, f"{way}_bytes", moved), grow(at, f"{way}_packets", packets))
            yield f"{way} {moved} bytes in {packets} at {at[0]}", ("roce", RATE, change, nothing, word)
    for at, way, kind in ((CLIENT, "rx", "tcp"), (SERVER, "tx", "tcp")):
        change = grow(at, f"{way}_bytes {way}_packets", 0)
        yield f"nothing came back, {way}", (kind, RATE, change, nothing, REFUSED)
        change = both(grow(at, f"{way}_bytes", 60), grow(at, f"{way}_packets", 1))
        yield f"one packet came back, {way}", (kind, RATE, change, nothing, PLAIN)
    for counter in ("rx_bytes", "port_rcv_packets"):
        ending = put(SERVER, f"counters.{counter}", lambda span: [2**32 - 1 - (span[1] - span[0]), 2**32 - 1])
        yield f"{counter} is full", ("roce", RATE, ending, nothing, REFUSED)
        short = put(SERVER, f"counters.{counter}", lambda span: [2**32 - 2 - (span[1] - span[0]), 2**32 - 2])
        yield f"{counter} is nearly full", ("roce", RATE, short, nothing, PLAIN)
    huge = put(SERVER, "counters.rx_packets", [2**61, 2**61 + 8])
    yield "a counter beyond what adds up", ("roce", RATE, huge, nothing, LEFT)
    yield "a counter below nothing", (
        "roce", RATE, put(SERVER, "counters.rx_packets", [-9, -1]), nothing, REFUSED)  # fmt: skip
    yield "a counter from nothing on", (
        "roce", RATE, put(SERVER, "counters.rx_packets", [0, 8]), nothing, PLAIN)  # fmt: skip
    for metric, kind, new, word in (
        ("bandwidth_gbps", "tcp", 0.0, REFUSED), ("message_rate_mpps", "roce", -1.0, REFUSED),
        ("sent_gbps", "tcp", 0.0, REFUSED), ("cpu_percent", "tcp", 101.0, PLAIN),
        ("cpu_percent", "tcp", None, PLAIN), ("jitter_us", "tcp", 1.5, LEFT),
    ):  # fmt: skip
        yield f"{metric} is {new}", (kind, RATE, put(CLIENT, f"metrics.{metric}", new), nothing, word)
    # Windows; what crosses is as much as they need.
    for kind, begin_s, end_s, word in (
        ("tcp", -0.4, 3.6, PLAIN), ("tcp", -0.5, 3.5, PLAIN), ("tcp", -0.6, 3.4, REFUSED),
        ("tcp", 1.0, 1.0, REFUSED), ("tcp", 1.0, 2.99, REFUSED), ("tcp", 1.0, 3.01, PLAIN),
        ("tcp", 1.0, 124.9, PLAIN), ("tcp", 1.0, 125.1, REFUSED), ("tcp", 4154.0, 4158.1, REFUSED),
        ("tcp", 4000.0, 4004.0, PLAIN),
        ("roce", 1.0, 1.99, REFUSED), ("roce", 1.0, 2.01, PLAIN), ("roce", 1.0, 4.99, PLAIN),
        ("roce", 1.0, 5.1, REFUSED),
    ):  # fmt: skip
        for at in (CLIENT, SERVER):
            change = window(at, begin_s, end_s)
            if kind == "tcp":
                change = both(
                    change, grow(CLIENT, "tx_bytes", least(1.01)), grow(SERVER, "rx_bytes", least(1.01))
                )
            yield f"{kind} from {begin_s} to {end_s} s at {at[0]}", (kind, RATE, change, nothing, word)
    yield "no window", ("tcp", RATE, put(CLIENT, "window_s", None), nothing, REFUSED)
    yield "a path's window", ("tcp", PATH, window(CLIENT, 0.0, 0.2), nothing, PLAIN)
    yield "a path's window of no time", ("tcp", PATH, window(CLIENT, 0.1, 0.1), nothing, REFUSED)
    yield "a path's long window", ("tcp", PATH, window(CLIENT, 0.0, 300.0), nothing, PLAIN)


def not_of_one_mind() -> Iterator[tuple[str, Case]]:
    """Yield what the two rows say otherwise."""
    enough = both(grow(CLIENT, "tx_bytes", least(1.01)), grow(SERVER, "rx_bytes", least(1.01)))
    for which, times, word in (
        (CLIENT, 1.0, PLAIN), (CLIENT, 0.851, PLAIN), (CLIENT, 0.849, REFUSED),
        (SERVER, 0.851, PLAIN), (SERVER, 0.849, REFUSED),
    ):  # fmt: skip
        # Of 98 Gbit/s, so that both lie within their bounds.
        rates = both(
            put(BOTH, "metrics.bandwidth_gbps", 98.0), put(which, "metrics.bandwidth_gbps", 98.0 * times)
        )
        yield f"{98 * times:.5g} Gbit/s at {which[0]}", (
            "tcp", RATE, both(rates, put(CLIENT, "metrics.sent_gbps", 98.0), enough), nothing, word
        )  # fmt: skip
    for times, word in ((1.99, PLAIN), (2.01, REFUSED), (0.871, PLAIN), (0.868, REFUSED)):
        sent = put(CLIENT, "metrics.sent_gbps", 91.444603 * times)
        yield f"{times} times as much sent", ("tcp", RATE, sent, nothing, word)
    for key, new in (
        ("gid_type", "RoCE v1"), ("active_mtu_bytes", 2048), ("qps", 2), ("message_bytes", 4096),
        ("bandwidth_is", "sum_of_both"), ("tool_version", "6.17"), ("traffic_class", 106),
        ("service_level", 1),
    ):  # fmt: skip
        yield f"other {key}", ("roce", RATE, put(SERVER, key, new), nothing, REFUSED)
    yield "no version", ("roce", RATE, put(BOTH, "tool_version", None), nothing, REFUSED)
    yield "no version of TCP", ("tcp", RATE, put(SERVER, "tool_version", "unknown"), nothing, PLAIN)
    least_told = out(BOTH, "metrics.node_cpu_percent")
    yield "no more than has to be told", ("roce", RATE, least_told, nothing, PLAIN)
    # Messages and what follows from them.
    for client, server, word in (
        (1.049, 1.049, PLAIN), (1.051, 1.051, REFUSED), (0.951, 0.951, PLAIN), (0.949, 0.949, REFUSED),
        (1.02, 0.975, PLAIN), (1.03, 0.975, REFUSED), (1.04, 1.051, REFUSED), (1.051, 1.04, REFUSED),
    ):  # fmt: skip
        rates = both(*(put(at, "metrics.message_rate_mpps", 0.184 * times)
                       for at, times in ((CLIENT, client), (SERVER, server))))  # fmt: skip
        yield f"{client} and {server} times the messages", ("roce", RATE, rates, nothing, word)
    for over_mpps, word in ((1e-6, PLAIN), (2e-6, REFUSED)):
        rates = put(BOTH, "metrics.message_rate_mpps", 0.184 * 1.05 + over_mpps)
        yield f"{over_mpps} million messages over", ("roce", RATE, rates, nothing, word)
    beside_it = both(put(CLIENT, "counters.tx_bytes", [2**50, 2**50 + 10**13]),
                     put(CLIENT, "counters.tx_packets", [2**50, 2**50 + 10**10]))  # fmt: skip
    yield "what the netdev carried beside a card's RDMA", ("roce", RATE, beside_it, nothing, PLAIN)
    more = both(
        *(grow(at, f"port_{way}_data", least(1.01)) for at, way in ((CLIENT, "xmit"), (SERVER, "rcv"))),
        *(grow(at, f"port_{way}_packets", 10**8) for at, way in ((CLIENT, "xmit"), (SERVER, "rcv"))),
    )
    for at, (times, word) in itertools.product(
        (CLIENT, SERVER), ((0.905, REFUSED), (0.915, PLAIN), (2.76, PLAIN), (2.79, REFUSED), (0, REFUSED))
    ):  # fmt: skip
        counted = both(put(at, "iterations", int(368_000 * times)), more)
        yield f"{times} times the iterations at {at[0]}", ("roce", RATE, counted, nothing, word)
    for at in (CLIENT, SERVER):
        yield f"no iterations at {at[0]}", ("roce", RATE, out(at, "iterations"), nothing, REFUSED)
        for name in ("bandwidth_gbps", "message_rate_mpps"):
            yield f"no {name} at {at[0]}", ("roce", RATE, out(at, f"metrics.{name}"), nothing, REFUSED)
        for name in ("bandwidth_gbps", "sent_gbps")[: 2 - at[0]]:
            yield f"no {name} of TCP at {at[0]}", ("tcp", RATE, out(at, f"metrics.{name}"), nothing, REFUSED)
        for kind in ("roce", "soft"):
            name = {"roce": "port_%s_packets", "soft": "hw_%s_pkts"}[kind]
            word = {("roce", 0): "xmit", ("roce", 1): "rcv", ("soft", 0): "sent", ("soft", 1): "rcvd"}[
                kind, at[0]
            ]
            for times, outcome in ((1 - 1e-6, REFUSED), (1 + 1e-6, PLAIN)):
                # Of software RoCE the packets have to hold the netdev's bytes as well.
                by = int(368_000 * 65_536 / 4096 * times + (times > 1))
                change = grow(at, name % word, by)
                if kind == "soft":
                    change = both(change, grow(at, "tx_bytes" if at == CLIENT else "rx_bytes", least(1.001)))
                yield f"{name % word} {times}", (kind, RATE, change, nothing, outcome)
    for at, (way, port) in itertools.product((CLIENT, SERVER), (("tx", "sent"), ("rx", "rcvd"))):
        for times, word in ((1 - 1e-6, PLAIN), (1 + 1e-6, REFUSED)):
            # All that crosses is in the port's packets, of 4096 bytes and their headers, but for the idle's.
            many = 6_100_000
            by = (many * (4096 + 110) + 200_000 * (120 + 3.1021)) * times
            change = both(grow(at, f"hw_{port}_pkts", many), grow(at, f"{way}_bytes", by))
            yield f"{way} {times} of the port's packets at {at[0]}", ("soft", RATE, change, nothing, word)


def bounded() -> Iterator[tuple[str, Case]]:
    """Yield rates next to their bounds; at one end or at both."""
    enough = both(grow(CLIENT, "tx_bytes", least(1.01)), grow(SERVER, "rx_bytes", least(1.01)))
    for client, server, word in (
        (80.0, 80.0, PLAIN), (79.99, 80.01, REFUSED), (80.01, 79.99, REFUSED), (100.9, 100.9, PLAIN),
        (100.9, 101.0, LEFT), (101.0, 100.9, LEFT), (106.0, 106.0, LEFT),
    ):  # fmt: skip
        rates = (put(at, "metrics.bandwidth_gbps", gbps) for at, gbps in ((CLIENT, client), (SERVER, server)))
        change = both(*rates, put(CLIENT, "metrics.sent_gbps", client), enough)
        yield f"{client} and {server} Gbit/s", ("tcp", RATE, change, nothing, word)
    for at, gbps, word in (
        (CLIENT, 99.99, PLAIN), (SERVER, 99.99, PLAIN), (CLIENT, 100.01, REFUSED),
        (SERVER, 100.01, REFUSED), (BOTH, 88.24, PLAIN), (SERVER, 88.22, REFUSED),
    ):  # fmt: skip
        other = put(BOTH, "metrics.bandwidth_gbps", 99.99 if gbps > 90 else 88.24)
        rate = put(BOTH, "metrics.message_rate_mpps", gbps * 1e3 / 8 / 65_536)
        change = both(other, rate, put(at, "metrics.bandwidth_gbps", gbps))
        yield f"{gbps} Gbit/s of RDMA at {at}", ("roce", RATE, change, nothing, word)
    for name, new, word in (("path_mtu_bytes", 8999, REFUSED), ("received", 4, REFUSED), ("sent", 6, REFUSED),
                            ("path_mtu_bytes", 0, REFUSED)):  # fmt: skip
        yield f"path's {name} {new}", ("tcp", PATH, put(CLIENT, f"metrics.{name}", new), nothing, word)
    rate = put(CLIENT, "metrics.bandwidth_gbps", 5)
    yield "a path's rate", ("tcp", PATH, rate, nothing, PLAIN)
    none = both(put(CLIENT, "metrics.received", 0), put(CLIENT, "metrics.sent", 0))
    yield "no probe", ("tcp", PATH, none, nothing, REFUSED)
    twice = both(put(CLIENT, "metrics.received", 10), put(CLIENT, "metrics.sent", 10),
                 grow(BOTH, "rx_packets tx_packets", 10))  # fmt: skip
    yield "twice as many probes", ("tcp", PATH, twice, nothing, PLAIN)


def elsewhere() -> Iterator[tuple[str, Case]]:
    """Yield metrics and counters that are not where a runner writes them, or are twice there."""
    for at, name in itertools.product((CLIENT, SERVER), ("bandwidth_gbps", "message_rate_mpps")):
        yield f"fixed {name} at {at[0]}", ("roce", RATE, nothing, fixed(at, name), PLAIN)
        yield f"fixed other {name} at {at[0]}", ("roce", RATE, nothing, fixed(at, name, 0.1), REFUSED)
    for at, name in ((CLIENT, "bandwidth_gbps"), (CLIENT, "sent_gbps"), (SERVER, "bandwidth_gbps"),
                     (BOTH, "bandwidth_gbps")):  # fmt: skip
        yield f"TCP's fixed {name} at {at}", ("tcp", RATE, nothing, fixed(at, name), PLAIN)
        if at != BOTH:
            yield (
                f"TCP's fixed other {name} at {at}",
                ("tcp", RATE, nothing, fixed(at, name, 81.0 / 2), REFUSED),
            )
    yield "server's fixed other rate", ("tcp", RATE, nothing, fixed(SERVER, "bandwidth_gbps", 100.0), PLAIN)
    yield "client's fixed other rate", ("tcp", RATE, nothing, fixed(CLIENT, "cpu_percent", 100.0), PLAIN)
    yield (
        "what stands for a number in the told",
        ("tcp", RATE, nothing, fixed(CLIENT, "cpu_percent", "\0"), REFUSED),
    )
    yield "path told by both", ("tcp", PATH, put(SERVER, "metrics.path_mtu_bytes", 1500), nothing, REFUSED)
    yield (
        "path told by both alike",
        ("tcp", PATH, put(SERVER, "metrics.path_mtu_bytes", 9000), nothing, PLAIN),
    )
    for name in ("received", "loss_percent", "forward_gbps"):
        twice = both(put(CLIENT, f"metrics.{name}", 3.5), put(SERVER, f"metrics.{name}", 9.5))
        yield f"{name} of both otherwise", ("tcp", RATE, twice, nothing, REFUSED)
    for at, name in itertools.product((CLIENT, SERVER), ("rx_bytes", "tx_packets")):
        yield f"no {name} at {at[0]}", ("tcp", RATE, out(at, f"counters.{name}"), nothing, REFUSED)
    port = put(CLIENT, "counters.hw_sent_pkts", [5, 9])
    yield "counters of two drivers", ("roce", RATE, port, nothing, REFUSED)
    yield "no port's counters", ("roce", RATE, both(*(
        out(CLIENT, f"counters.{name}") for name in
        ("port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets")
    )), nothing, REFUSED)  # fmt: skip


def not_the_asked() -> Iterator[tuple[str, Case]]:
    """Yield rows of another place, time or partner than was planned, and frames that say what none should."""
    for at in (CLIENT, SERVER):
        for name, which, new, word in (
            ("partner", 2, "gpu0002", REFUSED), ("stranger", 2, "gpu0009", REFUSED),
            ("round", 3, lambda was: was + 1, REFUSED), ("group", 4, lambda was: was + 1, REFUSED),
        ):  # fmt: skip
            yield f"other {name} at {at[0]}", ("tcp", RATE, nothing, value(at, which, new), word)
        told = value(at, 5, lambda was: was[:-1] + ("0" if was[-1] != "0" else "1"), retell=False)
        yield f"heard another thing at {at[0]}", ("tcp", RATE, nothing, told, REFUSED)
        told = value(at, 5, lambda was: "0" + was[1:], retell=False)
        yield f"heard another boot at {at[0]}", ("tcp", RATE, nothing, told, REFUSED)
        # The first and the last moment that the clock lets pass are within a second left to single rows.
        for at_ms, word in (
            (-4_000_500, REFUSED), (-3_999_500, LEFT), (-3_998_900, PLAIN),
            (LAST_MS + 500, REFUSED), (LAST_MS - 500, LEFT), (LAST_MS - 1_100, PLAIN),
        ):  # fmt: skip
            when = put(at, "started", packed_rows.timestamp(BEGIN_MS + at_ms))
            yield f"started after {at_ms} ms at {at[0]}", ("tcp", RATE, when, nothing, word)
        for key, new, word in (
            ("attempt", 2, REFUSED), ("proof", "unproven", REFUSED), ("proof_reason", "none", REFUSED),
            ("netdev", None, REFUSED), ("netdev", "ens1f0", REFUSED),
            ("exchange", {"over": "management"}, LEFT),
            ("other_rails", {"rail1": {"rx_bytes": [0, 9**11], "tx_bytes": [0, 0]}}, REFUSED),
            ("idle_bytes_per_s", 15_000_000, PLAIN), ("idle_bytes_per_s", 15_000_001, REFUSED),
            ("idle_bytes_per_s", 0, PLAIN),
            ("idle_bytes_per_s", -1, REFUSED), ("idle_bytes_per_s", "0", REFUSED),
        ):  # fmt: skip
            yield f"{key} {new!r} at {at[0]}", ("tcp", RATE, nothing, framed(at, key, new), word)
        yield (
            f"busy as allowed at {at[0]}",
            ("busy", RATE, put(at, "idle_bytes_per_s", 10**9), nothing, PLAIN),
        )
        yield f"digits of a rail at {at[0]}", ("digits", RATE, put(at, "argv", lambda was: [
            [*was[0][:-1], DIGITS]]), nothing, REFUSED)  # fmt: skip
        for words, word in ((["iperf3", "ens1f0"], REFUSED), (["iperf3", "ens0f0", "ens1f0"], REFUSED),
                            (["iperf3", "ens0f0"], PLAIN), (["iperf3", "10.0.0.9"], REFUSED),
                            (["iperf2", "ens0f0"], REFUSED)):  # fmt: skip
            yield f"told {words} at {at[0]}", ("tcp", RATE, put(at, "argv", [words]), nothing, word)
    for new, word in (("10.1.0.3", REFUSED), ("10.1.0.1", LEFT), ("10.0.0.7", LEFT)):
        told = put(
            CLIENT, "argv", lambda was, new=new: [[new if one == "10.0.0.1" else one for one in was[0]]]
        )
        yield f"told {new} in place of its peer", ("tcp", RATE, told, nothing, word)
    for new, word in (("18622", PLAIN), ("ens0", LEFT), ("10.0.0.9", LEFT)):
        argv = put(BOTH, "argv", lambda was, new=new: [[new if one == "18621" else one for one in was[0]]])
        yield f"port {new}", ("roce", RATE, argv, nothing, word)
    # Of the other rail's counters they are none.
    far = both(*(put(BOTH, f"counters.{way}_{what}", lambda span: [2**50 + at for at in span])
                 for way, what in itertools.product(("rx", "tx"), ("bytes", "packets"))))  # fmt: skip
    for at in (CLIENT, SERVER):
        yield f"of the other rail at {at[0]}", ("tcp", RATE, far, of_other_rail(at), REFUSED)
    for at, key, new in (
        (SERVER, "end", "client"), (CLIENT, "end", "server"), (SERVER, "check", "path_mtu"),
        (BOTH, "check", "tcp_bandwidth"), (BOTH, "tool", "ping"), (BOTH, "direction", "bi"),
    ):  # fmt: skip
        yield f"{key} {new} at {at}", ("tcp", RATE, nothing, framed(at, key, new), REFUSED)


def counted_twice() -> Iterator[tuple[str, Case]]:
    """Yield counters that reach into those of another test at the same end, or just do not."""
    one = both(grow(SERVER, "tx_packets", 1), grow(SERVER, "tx_bytes", 60))
    yield "one packet after another's", ("tcp", RATE, one, beside(SERVER, 6 + 3 + 6, True, 0), PLAIN)
    yield (
        "one packet of another's, after all",
        ("tcp", RATE, one, beside(SERVER, 6 + 3 + 6, True, -1), REFUSED),
    )
    for at, kind, counter in ((CLIENT, "tcp", 6 + 5), (CLIENT, "tcp", 6 + 5 + 6), (SERVER, "tcp", 6 + 3),
                              (SERVER, "roce", 6 + 3), (CLIENT, "roce", 6 + 3 + 14)):  # fmt: skip
        for by, word in ((0, PLAIN), (-1, REFUSED)):
            edit = beside(at, counter, True, by)
            yield f"{kind} {counter} at {at[0]} after {by}", (kind, RATE, nothing, edit, word)
    for at, counter, (by, word) in itertools.product(
        (CLIENT, SERVER), (6, 8, 10, 12), ((0, PLAIN), (1, REFUSED))
    ):  # fmt: skip
        edit = beside(at, counter, False, by)
        yield f"path's {counter} at {at[0]} before {by}", ("tcp", PATH, nothing, edit, word)


TABLE: dict[str, Case] = {}
for _name, _case in itertools.chain(
    crossing(), impossible(), not_of_one_mind(), bounded(), elsewhere(), not_the_asked(), counted_twice()
):
    assert _name not in TABLE, _name
    TABLE[_name] = _case
for _kind in KINDS:
    TABLE[f"nothing of {_kind}"] = (
        _kind,
        RATE,
        nothing,
        nothing,
        LEFT if _kind == "digits" else PLAIN,
    )

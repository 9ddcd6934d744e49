"""Situations of rails."""

from __future__ import annotations

from .series import PORT, RAIL, TARGET, Case, Series, alert, answers, fires, one, quiet

ON_PORT = {**TARGET, **PORT}
ON_RAIL = {**TARGET, **RAIL}
#: Labels that a join on the rail's name leaves.
JOINED = {"cluster": "c1", "node": "gpu001", **RAIL}


def rail(name: str, values: str, **labels: str) -> Series:
    return one(name, values, **RAIL, **labels)


NET = one("railyard_rail_netdev_info", "1x3000", **PORT)
LO = one("node_network_carrier", "1x3000", device="lo")


def carrier(values: str) -> Series:
    return one("node_network_carrier", values, device="ens9")


def changes(values: str) -> Series:
    return one("node_network_carrier_changes_total", values, device="ens9")


def errors(kind: str, values: str) -> Series:
    return rail("railyard_rail_errors_total", values, kind=kind)


def pauses(values: str) -> Series:
    return rail("railyard_rail_pause_seconds_total", values, direction="rx", priority="3")


def cnps(values: str) -> Series:
    return rail("railyard_rail_congestion_total", values, counter="np_cnp_sent")


def active(values: str) -> Series:
    return rail("railyard_rail_rdma_port_active", values)


def gid(name: str, values: str) -> Series:
    return rail(f"railyard_rail_gid_{name}", values)


def limit(name: str, values: str) -> Series:
    """Return a threshold that the site changed."""
    return {"series": f"railyard:threshold:{name}", "values": values}


def rates(now: str, expected: str) -> list[Series]:
    return [
        rail("railyard_rail_rate_bytes_per_second", now),
        rail("railyard_rail_expected_rate_bytes_per_second", expected),
    ]


def mtus(netdev: str, rdma: str = "4096x80") -> list[Series]:
    return [
        rail("railyard_rail_mtu_bytes", netdev, layer="netdev"),
        rail("railyard_rail_expected_mtu_bytes", "9000x80", layer="netdev"),
        rail("railyard_rail_mtu_bytes", rdma, layer="rdma"),
        rail("railyard_rail_expected_mtu_bytes", "4096x80", layer="rdma"),
    ]


def lanes(now: str) -> list[Series]:
    return [rail("railyard_rail_pcie_lanes", now), rail("railyard_rail_pcie_lanes_max", "16x40")]


ALLOWED = rail("railyard_rail_symbol_errors_allowed_per_hour", "144x300")
#: Without a link until its series ended after two and a quarter minutes.
GONE = [
    one("railyard_rail_netdev_info", "1x8 stale", **PORT),
    one("node_network_carrier", "1 0x7 stale", device="ens9"),
]
NOW: list[Case] = [
    *alert(
        "RailDown",
        "2m",
        ON_PORT,
        "c1: gpu001 rail3 (ens9) has no link",
        fires("no carrier", NET, LO, carrier("1 1 0x20")),
        fires("the netdev is gone from the kernel", NET, LO),
        fires("a node that is gone does not look healed", *GONE, at="3m"),
        quiet("a node that left the targets: no alert for ever", *GONE, at="10m"),
        quiet("good", NET, LO, carrier("1x20")),
        quiet("healed", NET, LO, carrier("1 0x8 1x30"), at="8m"),
        quiet("one scrape only", NET, LO, carrier("1 0 1x20")),
        quiet("a port that is no rail", one("node_network_carrier", "0x20", device="eno2")),
        quiet("no link state at all: CollectorFailed reports it", NET),
    ),
    *alert(
        "RailDown",
        "2m",
        ON_RAIL,
        "c1: gpu001 rail3 has no link",
        fires(
            "the inventory names its MAC address alone, and no netdev has it",
            one("railyard_rail_netdev_info", "1x20", **RAIL),
            LO,
        ),
    ),
    *alert(
        "RailRdmaPortDown",
        "3m",
        ON_RAIL,
        "c1: gpu001 rail3: the RDMA port is not ACTIVE",
        fires("not ACTIVE", active("0x20")),
        quiet("ACTIVE", active("1x20")),
        quiet("for half a minute", active("0x2 1x20")),
    ),
    *alert(
        "RailBelowRate",
        "4m",
        ON_RAIL,
        "c1: gpu001 rail3 trained to 200 Gbit/s, below the declared rate",
        fires("half", *rates("25e9x20", "50e9x20")),
        quiet("as declared", *rates("50e9x20", "50e9x20")),
        quiet("faster than declared", *rates("50e9x20", "25e9x20")),
        quiet("down: RailDown reports it", *rates("0x20", "50e9x20")),
        quiet("nobody declared a rate", *rates("25e9x20", "")[:1]),
    ),
    *alert(
        "RailGidWrong",
        "4m",
        ON_RAIL,
        "c1: gpu001 rail3: its planned address has no RoCE v2 GID",
        fires("the address went", gid("present", "1x4 0x20")),
        quiet("there", gid("present", "1x20")),
    ),
    *alert(
        "RailMtuWrong",
        "4m",
        JOINED,
        "c1: gpu001 rail3: MTU of the {}, not the planned one",
        fires("netdev", *mtus("9000x3 1500x30"), text="netdev layer is 1500", labels={"layer": "netdev"}),
        fires(
            "RDMA port",
            *mtus("9000x40", "1024x40"),
            text="rdma layer is 1024",
            labels={"layer": "rdma"},
        ),
        quiet("as planned", *mtus("9000x40")),
        quiet("healed", *mtus("1500x16 9000x60"), at="12m"),
    ),
    *alert(
        "RailPcieDowntrained",
        "4m",
        ON_RAIL,
        "c1: gpu001 rail3: its card has 8 PCIe lanes, fewer than card and slot support",
        fires("half of the lanes", *lanes("8x40")),
        quiet("all lanes", *lanes("16x40")),
    ),
]

# increase() extrapolates from the first sample by half a step, but not below 0: of 7 changes in 840 s it
# makes 7 * 847.5 / 840, of 3 errors after 17 in 480 s it makes 3 * 487.5 / 480.
GROWTH: list[Case] = [
    *alert(
        "RailFlapping",
        "14m",
        ON_PORT,
        "c1: gpu001 rail3 (ens9): the link went up and down, 7.062 changes in 15 minutes",
        fires("seven changes", NET, changes("2x20 4x10 6x10 9x60")),
        quiet("a reboot of the switch: three changes", NET, changes("2x20 5x80")),
        quiet("many, long ago", NET, changes("900x100")),
        quiet("a port that is no rail", changes("2x20 4x10 6x10 9x60")),
        quiet(
            "the site takes ten changes for normal",
            NET,
            changes("2x20 4x10 6x10 9x60"),
            limit("carrier_changes", "10x80"),
        ),
    ),
    *alert(
        "RailSymbolErrors",
        "70m",
        {**ON_RAIL, "kind": "symbol"},
        "c1: gpu001 rail3: 180 symbol errors in an hour, more than its link may have",
        fires("180 an hour of 144", ALLOWED, errors("symbol", "0+3x300")),
        quiet("60 an hour", ALLOWED, errors("symbol", "0+1x300")),
        quiet("the counter is at its maximum", ALLOWED, errors("symbol", "65535x300")),
        quiet("no source gives a limit for this link", errors("symbol", "0+3x300")),
        step="1m",
    ),
    *alert(
        "RailPhysicalErrors",
        "8m",
        {**ON_RAIL, "kind": "physical"},
        "c1: gpu001 rail3: its physical error counters grew by {} in 15 minutes",
        fires("one error", errors("physical", "0x10 1x30"), text="1"),
        fires("counters began anew and grew since", errors("physical", "17x10 0x5 3x30"), text="3.047"),
        quiet("old ones", errors("physical", "17x40")),
        quiet("counters began anew", errors("physical", "17x10 0x30")),
        quiet("flaps are RailFlapping's", errors("flap", "0x10 2x30")),
        quiet("sent again: a job may cause that elsewhere", errors("transport", "0+50x40")),
    ),
    *alert(
        "RailLosslessDrops",
        "6m",
        {**ON_RAIL, "kind": "loss"},
        "c1: gpu001 rail3: packets dropped because buffers were full grew by 5 in 10 minutes",
        fires("five packets", errors("loss", "0x10 5x30")),
        quiet("old ones", errors("loss", "5x40")),
    ),
    *alert(
        "RailPauseStorm",
        "8m",
        {**ON_RAIL, "direction": "rx", "priority": "3"},
        "c1: gpu001 rail3: paused 40% of the time (rx, priority 3)",
        fires("6 s of 15", pauses("0+6x40")),
        quiet("2 %", pauses("0+0.3x40")),
        quiet("two minutes of it, over", pauses("0+6x8 48x40"), at="5m"),
        quiet("the site takes 60 % for normal", pauses("0+6x40"), limit("pause_ratio", "0.6x40")),
    ),
    *alert(
        "RailGidMoved",
        "5m",
        ON_RAIL,
        "c1: gpu001 rail3: the index of its RoCE v2 GID changed within an hour",
        fires("from 3 to 5", gid("index", "3x10 5x20")),
        quiet("stays", gid("index", "3x30")),
    ),
]

STORM = cnps("0+12000x720 8640000+1200000x60")
# Samples each two minutes, evaluated each ten.
DAY = alert(
    "RailCongestion",
    "1500m",
    ON_RAIL,
    "c1: gpu001 rail3 sends 10k congestion notifications per second, far more than in the last day",
    fires("100 a second for a day, then 10,000", STORM),
    quiet("always busy", cnps("0+1200000x780")),
    quiet("100 a second is nothing", cnps("0x720 0+12000x60")),
    quiet("the site raised cnps_per_second", STORM, limit("cnps_per_second", "20000x780")),
    quiet("the site raised cnp_growth_factor", STORM, limit("cnp_growth_factor", "200x780")),
    step="2m/10m",
)

EVERYTHING_GOOD = [
    *answers(160),
    NET,
    carrier("1x160"),
    changes("2x160"),
    active("1x160"),
    *rates("50e9x160", "50e9x160"),
    gid("present", "1x160"),
    *mtus("9000x160", "4096x160"),
    gid("index", "3x160"),
    *lanes("16x160"),
    *(errors(kind, "17x160") for kind in ("physical", "symbol", "loss")),
    errors("flap", "2x160"),
    errors("transport", "0+2x160"),
    pauses("0+0.01x160"),
    cnps("0+9000x160"),
    ALLOWED,
]
GOOD = Case("RailDown", "a good rail in every respect", EVERYTHING_GOOD, "35m")

CASES = [*NOW, *GROWTH, *DAY, GOOD]

LINK = [NET, LO, carrier("1x60")]
HCA = active("1x60")
#: What is special, the rail's state (None: no series), and its series.
STATES: list[tuple[str, int | None, list[Series]]] = [
    ("a good rail", 0, [*LINK, HCA, *rates("50e9x60", "50e9x60"), *mtus("9000x60", "4096x60")]),
    ("no link", 2, [NET, LO, carrier("0x60")]),
    ("no netdev", 2, [NET, LO]),
    ("the RDMA port is down", 2, [*LINK, active("0x60")]),
    ("slow", 2, [*LINK, *rates("25e9x60", "50e9x60")]),
    ("a wrong MTU", 2, [*LINK, *mtus("1500x60", "1024x60")]),
    ("a link that is down and has errors", 2, [NET, LO, carrier("0x60"), errors("physical", "0+1x60")]),
    ("physical errors", 1, [*LINK, errors("physical", "0x20 1x40")]),
    ("lost packets", 1, [*LINK, errors("loss", "0x20 1x40")]),
    ("old errors", 0, [*LINK, errors("physical", "7x60")]),
    ("more symbol errors than permitted", 1, [*LINK, ALLOWED, errors("symbol", "0+9x60")]),
    ("as many symbol errors as are permitted", 0, [*LINK, ALLOWED, errors("symbol", "0+1x60")]),
    ("packets that were sent again", 0, [*LINK, errors("transport", "0+9x60")]),
    ("long pauses", 1, [*LINK, pauses("0+30x60")]),
    ("short pauses", 0, [*LINK, pauses("0+1x60")]),
    ("an RDMA port without a netdev", 0, [HCA]),
    ("link state is not known, and there is no RDMA", None, [NET]),
]

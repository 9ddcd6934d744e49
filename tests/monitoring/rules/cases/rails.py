"""Situations of rails."""

from __future__ import annotations

from .series import PORT, RAIL, TARGET, Case, Series, answers, fires, one, quiet

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
DOWN = "c1: gpu001 rail3 (ens9) has no link"
NOT_ACTIVE = "c1: gpu001 rail3: the RDMA port is not ACTIVE"
SLOW = "c1: gpu001 rail3 trained to 200 Gbit/s, below the declared rate"
NO_GID = "c1: gpu001 rail3: its planned address has no RoCE v2 GID"
SMALL = "c1: gpu001 rail3: MTU of the netdev layer is 1500, not the planned one"
SMALL_RDMA = "c1: gpu001 rail3: MTU of the rdma layer is 1024, not the planned one"
NARROW = "c1: gpu001 rail3: its card has 8 PCIe lanes, fewer than card and slot support"
PHYSICAL = "c1: gpu001 rail3: its physical error counters grew by {} in 15 minutes"
MOVED = "c1: gpu001 rail3: the index of its RoCE v2 GID changed within an hour"

NOW: list[Case] = [
    fires("RailDown", "no carrier", [NET, LO, carrier("1 1 0x20")], "2m", ON_PORT, DOWN),
    fires("RailDown", "the netdev is gone from the kernel", [NET, LO], "2m", ON_PORT, DOWN),
    fires("RailDown", "a node that is gone does not look healed", GONE, "3m", ON_PORT, DOWN),
    quiet("RailDown", "a node that left the targets: no alert for ever", GONE, "10m"),
    fires(
        "RailDown",
        "the inventory names its MAC address alone, and no netdev has it",
        [one("railyard_rail_netdev_info", "1x20", **RAIL), LO],
        "2m",
        ON_RAIL,
        "c1: gpu001 rail3 has no link",
    ),
    quiet("RailDown", "good", [NET, LO, carrier("1x20")], "2m"),
    quiet("RailDown", "healed", [NET, LO, carrier("1 0x8 1x30")], "8m"),
    quiet("RailDown", "one scrape only", [NET, LO, carrier("1 0 1x20")], "2m"),
    quiet("RailDown", "a port that is no rail", [one("node_network_carrier", "0x20", device="eno2")], "2m"),
    quiet("RailDown", "no link state at all: CollectorFailed reports it", [NET], "2m"),
    fires(
        "RailRdmaPortDown",
        "not ACTIVE",
        [rail("railyard_rail_rdma_port_active", "0x20")],
        "3m",
        ON_RAIL,
        NOT_ACTIVE,
    ),
    quiet("RailRdmaPortDown", "ACTIVE", [rail("railyard_rail_rdma_port_active", "1x20")], "3m"),
    quiet(
        "RailRdmaPortDown", "for half a minute", [rail("railyard_rail_rdma_port_active", "0x2 1x20")], "3m"
    ),
    fires("RailBelowRate", "half", rates("25e9x20", "50e9x20"), "4m", ON_RAIL, SLOW),
    quiet("RailBelowRate", "as declared", rates("50e9x20", "50e9x20"), "4m"),
    quiet("RailBelowRate", "faster than declared", rates("50e9x20", "25e9x20"), "4m"),
    quiet("RailBelowRate", "down: RailDown reports it", rates("0x20", "50e9x20"), "4m"),
    quiet("RailBelowRate", "nobody declared a rate", rates("25e9x20", "")[:1], "4m"),
    fires(
        "RailGidWrong",
        "the address went",
        [rail("railyard_rail_gid_present", "1x4 0x20")],
        "4m",
        ON_RAIL,
        NO_GID,
    ),
    quiet("RailGidWrong", "there", [rail("railyard_rail_gid_present", "1x20")], "4m"),
    fires("RailMtuWrong", "netdev", mtus("9000x3 1500x30"), "4m", {**JOINED, "layer": "netdev"}, SMALL),
    fires(
        "RailMtuWrong", "RDMA port", mtus("9000x40", "1024x40"), "4m", {**JOINED, "layer": "rdma"}, SMALL_RDMA
    ),
    quiet("RailMtuWrong", "as planned", mtus("9000x40"), "4m"),
    quiet("RailMtuWrong", "healed", mtus("1500x16 9000x60"), "12m"),
    fires("RailPcieDowntrained", "half of the lanes", lanes("8x40"), "4m", ON_RAIL, NARROW),
    quiet("RailPcieDowntrained", "all lanes", lanes("16x40"), "4m"),
]

# increase() extrapolates from the first sample by half a step, but not below 0: of 7 changes in 840 s it
# makes 7 * 847.5 / 840, of 3 errors after 17 in 480 s it makes 3 * 487.5 / 480.
GROWTH: list[Case] = [
    fires(
        "RailFlapping",
        "seven changes",
        [NET, changes("2x20 4x10 6x10 9x60")],
        "14m",
        ON_PORT,
        "c1: gpu001 rail3 (ens9): the link went up and down, 7.062 changes in 15 minutes",
    ),
    quiet("RailFlapping", "a reboot of the switch: three changes", [NET, changes("2x20 5x80")], "14m"),
    quiet("RailFlapping", "many, long ago", [NET, changes("900x100")], "14m"),
    quiet("RailFlapping", "a port that is no rail", [changes("2x20 4x10 6x10 9x60")], "14m"),
    quiet(
        "RailFlapping",
        "the site takes ten changes for normal",
        [
            NET,
            changes("2x20 4x10 6x10 9x60"),
            {"series": "railyard:threshold:carrier_changes", "values": "10x80"},
        ],
        "14m",
    ),
    fires(
        "RailSymbolErrors",
        "180 an hour of 144",
        [ALLOWED, errors("symbol", "0+3x300")],
        "70m",
        {**ON_RAIL, "kind": "symbol"},
        "c1: gpu001 rail3: 180 symbol errors in an hour, more than its link may have",
        "1m",
    ),
    quiet("RailSymbolErrors", "60 an hour", [ALLOWED, errors("symbol", "0+1x300")], "70m", "1m"),
    quiet(
        "RailSymbolErrors",
        "the counter is at its maximum",
        [ALLOWED, errors("symbol", "65535x300")],
        "70m",
        "1m",
    ),
    quiet(
        "RailSymbolErrors",
        "no source gives a limit for this link",
        [errors("symbol", "0+3x300")],
        "70m",
        "1m",
    ),
    fires(
        "RailPhysicalErrors",
        "one error",
        [errors("physical", "0x10 1x30")],
        "8m",
        {**ON_RAIL, "kind": "physical"},
        PHYSICAL.format("1"),
    ),
    fires(
        "RailPhysicalErrors",
        "counters began anew and grew since",
        [errors("physical", "17x10 0x5 3x30")],
        "8m",
        {**ON_RAIL, "kind": "physical"},
        PHYSICAL.format("3.047"),
    ),
    quiet("RailPhysicalErrors", "old ones", [errors("physical", "17x40")], "8m"),
    quiet("RailPhysicalErrors", "counters began anew", [errors("physical", "17x10 0x30")], "8m"),
    quiet("RailPhysicalErrors", "flaps are RailFlapping's", [errors("flap", "0x10 2x30")], "8m"),
    quiet(
        "RailPhysicalErrors",
        "sent again: a job may cause that elsewhere",
        [errors("transport", "0+50x40")],
        "8m",
    ),
    fires(
        "RailLosslessDrops",
        "five packets",
        [errors("loss", "0x10 5x30")],
        "6m",
        {**ON_RAIL, "kind": "loss"},
        "c1: gpu001 rail3: packets dropped for want of buffers grew by 5 in 10 minutes",
    ),
    quiet("RailLosslessDrops", "old ones", [errors("loss", "5x40")], "6m"),
    fires(
        "RailPauseStorm",
        "6 s of 15",
        [pauses("0+6x40")],
        "8m",
        {**ON_RAIL, "direction": "rx", "priority": "3"},
        "c1: gpu001 rail3: paused 40% of the time (rx, priority 3)",
    ),
    quiet("RailPauseStorm", "2 %", [pauses("0+0.3x40")], "8m"),
    quiet("RailPauseStorm", "two minutes of it, over", [pauses("0+6x8 48x40")], "5m"),
    quiet(
        "RailPauseStorm",
        "the site takes 60 % for normal",
        [pauses("0+6x40"), {"series": "railyard:threshold:pause_ratio", "values": "0.6x40"}],
        "8m",
    ),
    fires(
        "RailGidMoved", "from 3 to 5", [rail("railyard_rail_gid_index", "3x10 5x20")], "5m", ON_RAIL, MOVED
    ),
    quiet("RailGidMoved", "stays", [rail("railyard_rail_gid_index", "3x30")], "5m"),
]

# Samples each two minutes, evaluated each ten.
DAY: list[Case] = [
    fires(
        "RailCongestion",
        "100 a second for a day, then 10,000",
        [cnps("0+12000x720 8640000+1200000x60")],
        "1500m",
        ON_RAIL,
        "c1: gpu001 rail3 sends 10k congestion notifications per second, far more than in the last day",
        "2m/10m",
    ),
    quiet("RailCongestion", "always busy", [cnps("0+1200000x780")], "1500m", "2m/10m"),
    quiet("RailCongestion", "100 a second is nothing", [cnps("0x720 0+12000x60")], "1500m", "2m/10m"),
]

DAY += [
    quiet(
        "RailCongestion",
        f"the site raised {name}",
        [
            cnps("0+12000x720 8640000+1200000x60"),
            {"series": f"railyard:threshold:{name}", "values": f"{value}x780"},
        ],
        "1500m",
        "2m/10m",
    )
    for name, value in (("cnps_per_second", 20000), ("cnp_growth_factor", 200))
]

EVERYTHING_GOOD = quiet(
    "RailDown",
    "a good rail in every respect",
    [
        *answers(160),
        NET,
        carrier("1x160"),
        changes("2x160"),
        rail("railyard_rail_rdma_port_active", "1x160"),
        *rates("50e9x160", "50e9x160"),
        rail("railyard_rail_gid_present", "1x160"),
        *mtus("9000x160", "4096x160"),
        rail("railyard_rail_gid_index", "3x160"),
        *lanes("16x160"),
        errors("physical", "17x160"),
        errors("flap", "2x160"),
        errors("symbol", "17x160"),
        errors("transport", "0+2x160"),
        errors("loss", "17x160"),
        pauses("0+0.01x160"),
        cnps("0+9000x160"),
        ALLOWED,
    ],
    "35m",
)

CASES = [*NOW, *GROWTH, *DAY, EVERYTHING_GOOD]

LINK = [NET, LO, carrier("1x60")]
HCA = rail("railyard_rail_rdma_port_active", "1x60")
#: What is special, the rail's state (None: no series), and its series.
STATES: list[tuple[str, int | None, list[Series]]] = [
    ("a good rail", 0, [*LINK, HCA, *rates("50e9x60", "50e9x60"), *mtus("9000x60", "4096x60")]),
    ("no link", 2, [NET, LO, carrier("0x60")]),
    ("no netdev", 2, [NET, LO]),
    ("the RDMA port is down", 2, [*LINK, rail("railyard_rail_rdma_port_active", "0x60")]),
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

"""Situations of GPUs."""

from __future__ import annotations

from .series import GPU_TARGET, NODE, TARGET, Case, Series, Situation, alert, fires, one, quiet

PCI = "0000:89:00.0"


def xid(number: str, values: str) -> Series:
    return one("railyard_gpu_xid_since_reset", values, pci=PCI, xid=number)


def gpu(name: str, values: str, index: str = "3", **labels: str) -> Series:
    return one(name, values, target=GPU_TARGET, gpu=index, **labels)


def temperatures(count: int) -> list[Series]:
    return [gpu("DCGM_FI_DEV_GPU_TEMP", "40x40", str(index)) for index in range(count)]


def nvlinks(active: str) -> list[Series]:
    return [
        one("railyard_gpu_nvlinks_active", active, pci=PCI),
        one("railyard_gpu_nvlinks_expected", "18x40", pci=PCI),
    ]


EXPECTED = one("railyard_expected_gpus", "8x40")
GPU = {**GPU_TARGET, "gpu": "3"}
ON_BUS = {**TARGET, "pci": PCI}
WINDOW = {"window_size_in_ms": "300000"}


def xid_fires(why: str, number: str, *series: Series, at: str = "") -> Situation:
    return fires(why, *series, at=at, text=number, labels={"xid": number})


def slowed(values: str, event: str = "hw_thermal") -> Series:
    return gpu("DCGM_EXP_CLOCK_EVENTS_COUNT", values, clock_event=event, **WINDOW)


CASES: list[Case] = [
    *alert(
        "GpuXidFatal",
        "6m",
        ON_BUS,
        "c1: gpu001 GPU 0000:89:00.0: XID {}, which only a restart of the node or NVIDIA's workflow cures",
        xid_fires("the series begins with the first XID", "79", xid("79", "_x10 1x20")),
        xid_fires("a second one", "79", xid("79", "1x60 2x20"), at="18m"),
        xid_fires("stays until the node was restarted", "79", xid("79", "1x100"), at="20m"),
        xid_fires("a later harmless one hides nothing", "79", xid("79", "_x10 1x20"), xid("45", "_x12 1x20")),
        xid_fires("the driver says that this one is fatal", "145_fatal", xid("145_fatal", "1x20"), at="4m"),
        quiet("the driver says nothing of the kind", xid("145", "1x20"), at="4m"),
        quiet("none of it", xid("79", "0x40")),
        quiet("an application's", xid("43", "0 5x40")),
        quiet("the node was restarted", xid("79", "1x30 stale"), at="20m"),
    ),
    *alert(
        "GpuXidNeedsReset",
        "6m",
        ON_BUS,
        "c1: gpu001 GPU 0000:89:00.0: XID {}, the GPU must be reset",
        xid_fires("48", "48", xid("48", "_x10 1x20")),
        quiet("none of it", xid("48", "0x40")),
        quiet("63, a row that was remapped", xid("63", "_x10 1x20")),
    ),
    *alert(
        "GpuMissing",
        "5m",
        NODE,
        "c1: gpu001: {} GPUs answer, fewer than declared",
        fires("seven of eight", *temperatures(7), EXPECTED, text="7"),
        fires("none answers to dcgm-exporter", EXPECTED, one("railyard_gpus", "0x40"), text="0"),
        fires(
            "seven, one of them in parts (MIG)",
            *temperatures(7),
            gpu("DCGM_FI_DEV_GPU_TEMP", "40x40", "0", GPU_I_ID="1"),
            EXPECTED,
            text="7",
        ),
        quiet("eight of eight", *temperatures(8), EXPECTED, one("railyard_gpus", "8x40")),
        quiet("none is declared", *temperatures(7), one("railyard_gpus", "7x40")),
    ),
    *alert(
        "GpuEccUncorrected",
        "5m",
        GPU,
        "c1: gpu001 GPU 3: 1 uncorrected ECC errors since its driver was loaded",
        fires("one", gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "0 1x40")),
        quiet("none", gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "0x40")),
    ),
    *alert(
        "GpuRowRemap",
        "5m",
        GPU,
        "c1: gpu001 GPU 3: a row remap is pending or failed",
        fires("pending", gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", "1x40")),
        fires(
            "failed",
            gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", "1x40"),
            gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", "1x40"),
        ),
        quiet(
            "neither",
            gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", "0x40"),
            gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", "0x40"),
        ),
    ),
    *alert(
        "GpuHardwareSlowdown",
        "9m",
        {**GPU, "clock_event": "hw_thermal", **WINDOW},
        "c1: gpu001 GPU 3: its hardware slows it down (hw_thermal)",
        fires("hot", slowed("0x4 3x60")),
        quiet("cool", slowed("0x60")),
        quiet("at its power limit, or idle: normal", slowed("9x60", "power_cap"), slowed("9x60", "gpu_idle")),
        step="30s",
    ),
    *alert(
        "GpuNvlinkDown",
        "4m",
        ON_BUS,
        "c1: gpu001 GPU 0000:89:00.0: 17 NVLinks are up, fewer than declared",
        fires("17 of 18", *nvlinks("17x40")),
        quiet("18 of 18", *nvlinks("18x40")),
    ),
    *alert(
        "GpuMetricsGone",
        "5m",
        GPU_TARGET,
        "c1: gpu001: dcgm-exporter does not answer",
        fires("no answer", one("up", "0x40", target=GPU_TARGET)),
        quiet("an answer", one("up", "1x40", target=GPU_TARGET)),
        quiet("another job", one("up", "0x40", target={**GPU_TARGET, "job": "other"})),
    ),
]

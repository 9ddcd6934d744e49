"""Situations of GPUs."""

from __future__ import annotations

from .series import GPU_TARGET, NODE, TARGET, Case, Series, fires, one, quiet

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
FATAL = "c1: gpu001 GPU 0000:89:00.0: XID {}, which only a restart of the node or NVIDIA's workflow cures"
RESET = "c1: gpu001 GPU 0000:89:00.0: XID {}, the GPU must be reset"
MISSING = "c1: gpu001: {} GPUs answer, fewer than declared"
REMAP = "c1: gpu001 GPU 3: a row remap is pending or failed"
WINDOW = {"window_size_in_ms": "300000"}


def of_xid(number: str) -> dict[str, str]:
    return {**TARGET, "pci": PCI, "xid": number}


CASES: list[Case] = [
    fires(
        "GpuXidFatal",
        "the series begins with the first XID",
        [xid("79", "_x10 1x20")],
        "6m",
        of_xid("79"),
        FATAL.format("79"),
    ),
    fires("GpuXidFatal", "a second one", [xid("79", "1x60 2x20")], "18m", of_xid("79"), FATAL.format("79")),
    fires(
        "GpuXidFatal",
        "stays until the node was restarted",
        [xid("79", "1x100")],
        "20m",
        of_xid("79"),
        FATAL.format("79"),
    ),
    fires(
        "GpuXidFatal",
        "a later harmless one hides nothing",
        [xid("79", "_x10 1x20"), xid("45", "_x12 1x20")],
        "6m",
        of_xid("79"),
        FATAL.format("79"),
    ),
    fires(
        "GpuXidFatal",
        "the driver says that this one is fatal",
        [xid("145_fatal", "1x20")],
        "4m",
        of_xid("145_fatal"),
        FATAL.format("145_fatal"),
    ),
    quiet("GpuXidFatal", "the driver says nothing of the kind", [xid("145", "1x20")], "4m"),
    quiet("GpuXidFatal", "none of it", [xid("79", "0x40")], "6m"),
    quiet("GpuXidFatal", "an application's", [xid("43", "0 5x40")], "6m"),
    quiet("GpuXidFatal", "the node was restarted", [xid("79", "1x30 stale")], "20m"),
    fires("GpuXidNeedsReset", "48", [xid("48", "_x10 1x20")], "6m", of_xid("48"), RESET.format("48")),
    quiet("GpuXidNeedsReset", "none of it", [xid("48", "0x40")], "6m"),
    quiet("GpuXidNeedsReset", "63, a row that was remapped", [xid("63", "_x10 1x20")], "6m"),
    fires("GpuMissing", "seven of eight", [*temperatures(7), EXPECTED], "5m", NODE, MISSING.format("7")),
    fires(
        "GpuMissing",
        "none answers to dcgm-exporter",
        [EXPECTED, one("railyard_gpus", "0x40")],
        "5m",
        NODE,
        MISSING.format("0"),
    ),
    fires(
        "GpuMissing",
        "seven, one of them in parts (MIG)",
        [*temperatures(7), gpu("DCGM_FI_DEV_GPU_TEMP", "40x40", "0", GPU_I_ID="1"), EXPECTED],
        "5m",
        NODE,
        MISSING.format("7"),
    ),
    quiet("GpuMissing", "eight of eight", [*temperatures(8), EXPECTED, one("railyard_gpus", "8x40")], "5m"),
    quiet("GpuMissing", "none is declared", [*temperatures(7), one("railyard_gpus", "7x40")], "5m"),
    fires(
        "GpuEccUncorrected",
        "one",
        [gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "0 1x40")],
        "5m",
        GPU,
        "c1: gpu001 GPU 3: 1 uncorrected ECC errors since its driver was loaded",
    ),
    quiet("GpuEccUncorrected", "none", [gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "0x40")], "5m"),
    fires("GpuRowRemap", "pending", [gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", "1x40")], "5m", GPU, REMAP),
    fires(
        "GpuRowRemap",
        "failed",
        [gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", "1x40"), gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", "1x40")],
        "5m",
        GPU,
        REMAP,
    ),
    quiet(
        "GpuRowRemap",
        "neither",
        [gpu("DCGM_FI_DEV_ROW_REMAP_PENDING", "0x40"), gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", "0x40")],
        "5m",
    ),
    fires(
        "GpuHardwareSlowdown",
        "hot",
        [gpu("DCGM_EXP_CLOCK_EVENTS_COUNT", "0x4 3x60", clock_event="hw_thermal", **WINDOW)],
        "9m",
        {**GPU, "clock_event": "hw_thermal", **WINDOW},
        "c1: gpu001 GPU 3: its hardware slows it down (hw_thermal)",
        "30s",
    ),
    quiet(
        "GpuHardwareSlowdown",
        "cool",
        [gpu("DCGM_EXP_CLOCK_EVENTS_COUNT", "0x60", clock_event="hw_thermal", **WINDOW)],
        "9m",
        "30s",
    ),
    quiet(
        "GpuHardwareSlowdown",
        "at its power limit, or idle: normal",
        [
            gpu("DCGM_EXP_CLOCK_EVENTS_COUNT", "9x60", clock_event=event, **WINDOW)
            for event in ("power_cap", "gpu_idle")
        ],
        "9m",
        "30s",
    ),
    fires(
        "GpuNvlinkDown",
        "17 of 18",
        nvlinks("17x40"),
        "4m",
        {**TARGET, "pci": PCI},
        "c1: gpu001 GPU 0000:89:00.0: 17 NVLinks are up, fewer than declared",
    ),
    quiet("GpuNvlinkDown", "18 of 18", nvlinks("18x40"), "4m"),
    fires(
        "GpuMetricsGone",
        "no answer",
        [one("up", "0x40", target=GPU_TARGET)],
        "5m",
        GPU_TARGET,
        "c1: gpu001: dcgm-exporter does not answer",
    ),
    quiet("GpuMetricsGone", "an answer", [one("up", "1x40", target=GPU_TARGET)], "5m"),
    quiet("GpuMetricsGone", "another job", [one("up", "0x40", target={**GPU_TARGET, "job": "other"})], "5m"),
]

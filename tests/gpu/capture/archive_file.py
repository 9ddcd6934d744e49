"""Write a capture as one archive: its members, how large they may be, and no name of the machine in it."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from typing import Any

from gpu.capture import names

SCHEMA = 1
MANIFEST = "manifest.json"
FORM = "form-{:02d}.txt"
#: What programs printed, each a member of its own.
LOGS = ("nccl.log", "collective.log", "bandwidth.txt", "quick.txt")
#: The results of steps.
RESULTS = (
    "node.json",
    "nvidia_smi.json",
    "gpu_info.json",
    "forms.json",
    "kernel_log.json",
    "quick.json",
    "bandwidth.json",
    "nccl.json",
    "collective.json",
)
SETTINGS = "nccl.env"
MOST_PACKED_BYTES = 16 << 20
MOST_MEMBER_BYTES = 1 << 20
MOST_FORMS = 64


class ArchiveError(ValueError):
    """The archive would be larger than it may be."""


def is_member(name: str) -> bool:
    """Tell whether an archive may have a member of this name."""
    known = {MANIFEST, SETTINGS, *LOGS, *RESULTS}
    return name in known or name in {FORM.format(number) for number in range(1, MOST_FORMS + 1)}


def write(
    path: str, manifest: dict[str, Any], texts: Mapping[str, str], found: names.Names
) -> tuple[int, list[str]]:
    """Write an archive; return its size and a text of what was left out of it.

    Args:
        path: where it goes; what is there is replaced once it is complete.
        manifest: what it says of itself; `kept`, `cut` and `left_out` are added.
        texts: its other members.
        found: replaces the machine's names.

    Raises:
        ArchiveError: it is larger than MOST_PACKED_BYTES.
        OSError: it cannot be written.
    """
    for text in (*texts.values(), json.dumps(manifest)):
        found.learn(text)
    members: dict[str, bytes] = {}
    cut, left_out = [], []
    for name, text in texts.items():
        if not is_member(name):
            left_out.append(f"{name}: no member of an archive has this name")
            continue
        try:
            data = found.replace(text).encode("utf-8", errors="replace")
        except names.LeftError as error:
            left_out.append(f"{name}: {error}")
            continue
        if len(data) > MOST_MEMBER_BYTES:
            cut.append(name)
            data = data[:MOST_MEMBER_BYTES]
        members[name] = data
    told = {**manifest, "kept": sorted(found.kept), "cut": cut, "left_out": left_out}
    members[MANIFEST] = found.replace(json.dumps(told, indent=1) + "\n").encode()
    data = _packed(members)
    if len(data) > MOST_PACKED_BYTES:
        raise ArchiveError(f"it has {len(data)} bytes, and {MOST_PACKED_BYTES} are the most")
    whole = f"{path}.part"
    with open(whole, "wb") as handle:
        handle.write(data)
    os.replace(whole, path)
    return len(data), left_out


def _packed(members: Mapping[str, bytes]) -> bytes:
    """Return a gzip file of a tar that says nothing of who made it, and when."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:  # fmt: skip
        for name in sorted(members):
            info = tarfile.TarInfo(name)
            info.size = len(members[name])
            info.mode = 0o644
            archive.addfile(info, io.BytesIO(members[name]))
    return buffer.getvalue()

"""Write hostile archives, each with the error that has to come of it.

`write(name, folder)` writes one and returns its path. Sizes are those of a real attack: 2 GiB of zeros, a
million members. Nothing here is captured: headers are written by hand to the format of ustar and GNU tar.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import os
import struct
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "judge"))

import sound_run

RUN = sound_run.RUN
MIB = 1 << 20
#: Bytes of a member; an integer stands for so many zeros.
Content = bytes | int
_BLOCK = tarfile.BLOCKSIZE


class Case(NamedTuple):
    """An archive.

    Attributes:
        members: gives what is packed, header by header.
        error: a regular expression that the error of `railyard judge` has to match.
    """

    members: Callable[[], Iterable[Content]]
    error: str


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """Return a header, whatever it claims."""
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = size, kind, link
    return member.tobuf(tarfile.GNU_FORMAT)[-_BLOCK:]


def member(name: str, content: Content = b"") -> Iterator[Content]:
    """Yield a member of the run, padded to whole blocks."""
    size = content if isinstance(content, int) else len(content)
    yield header(f"{RUN}/{name}", size)
    yield content
    yield -size % _BLOCK


def lines(text: bytes, size: int) -> bytes:
    """Return a text repeated up to a size."""
    return text * (size // len(text))


@functools.cache
def _files() -> dict[str, bytes]:
    """Return the files of a run that is judged as it is."""
    with tempfile.TemporaryDirectory() as place:
        run = sound_run.build(Path(place) / RUN, 2, 2)
        return {path.name: path.read_bytes() for path in sorted(run.glob("*.json*"))}


def _sound() -> Iterator[Content]:
    """Yield the members of a run that is judged as it is."""
    for name, content in _files().items():
        yield from member(name, content)


def _with(name: str, content: bytes) -> Callable[[], Iterator[Content]]:
    """Return what yields a sound run in which one file is another."""
    return lambda: (
        one for file, whole in _files().items() for one in member(file, content if file == name else whole)
    )


def _beside(*more: Content) -> Callable[[], Iterator[Content]]:
    """Return what yields a sound run, then something else."""
    return lambda: iter([*_sound(), *more])


def _many() -> Iterator[Content]:
    yield from _sound()
    first = header(f"{RUN}/raw/{0:07d}.txt", 0)
    start, checksum = first.index(b"0000000"), int(first[148:154], 8)
    rest = first[start + 7 : 148], first[154:]
    for number in range(10**6):
        digits = b"%07d" % number
        by_hand = b"%06o" % (checksum + sum(digits) - 7 * ord("0"))
        yield b"".join((first[:start], digits, rest[0], by_hand, rest[1]))


def _bomb() -> bytes:
    """Return a gzip file of 512 MiB of zeros, half a megabyte."""
    return packed([512 * MIB])


def packed(contents: Iterable[Content]) -> bytes:
    """Return the gzip file of some contents."""
    deflate = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    out, crc, size = bytearray(b"\x1f\x8b\x08" + bytes(6) + b"\xff"), 0, 0
    for one in contents:
        rest = one
        if isinstance(one, int):
            # A piece of zeros is always packed alike, once nothing before it is referred to.
            out += deflate.flush(zlib.Z_FULL_FLUSH) + _ZEROS_PACKED * (one // MIB)
            for _piece in range(one // MIB):
                crc = zlib.crc32(_ZEROS, crc)
            size, rest = size + one // MIB * MIB, bytes(one % MIB)
        out += deflate.compress(rest)
        crc, size = zlib.crc32(rest, crc), size + len(rest)
    return bytes(out + deflate.flush() + struct.pack("<II", crc, size % 2**32))


_ZEROS = bytes(MIB)
_ZEROS_DEFLATE = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
_ZEROS_PACKED = _ZEROS_DEFLATE.compress(_ZEROS) + _ZEROS_DEFLATE.flush(zlib.Z_FULL_FLUSH)
_NESTED = gzip.compress(b"\n" * MIB)
_NO_PLAIN_FILE = r"raw/x\.txt in it is no plain file"
_TOO_MUCH_MEMORY = "takes more than 256 MiB of memory"
_NODES = b"".join(b'"%x":{"rails":[]},' % number for number in range(6 * 10**5))
_WIDE = b'{"a":[%s1]}' % lines(b"[],", 15 * MIB)

#: What is written to the archive of this name.
CASES: dict[str, Case] = {
    "zeros": Case(lambda: member("manifest.json", 2048 * MIB), r"manifest\.json in it has 2147483648 bytes"),
    "zeros in eight members": Case(
        lambda: (one for number in range(8) for one in member(f"raw/{number}.txt", 256 * MIB)),
        r"raw/0\.txt: unpacked it is longer than",
    ),
    "zeros behind the end": Case(_beside(4 * _BLOCK, 2048 * MIB), "unpacked it is longer than"),
    "million members": Case(_many, r"more than 65536 members, \S+/raw/\d+\.txt the next"),
    "sparse": Case(
        _beside(header(f"{RUN}/raw/x.txt", 512, tarfile.GNUTYPE_SPARSE), 512), _NO_PLAIN_FILE
    ),
    "sparse by pax": Case(
        _beside(
            header("PaxHeaders/x", 512, tarfile.XHDTYPE),
            b"32 GNU.sparse.realsize=10000000\n".ljust(512, b"\0"),
        ),
        "'PaxHeaders/x', which no run writes",
    ),
    "long name": Case(
        _beside(header("././@LongLink", 512 * MIB, tarfile.GNUTYPE_LONGNAME), 512 * MIB), "LongLink"
    ),
    "way out": Case(_beside(header(f"{RUN}/../../../tmp/x", 0)), r"/\.\./\.\./\.\./tmp/x'"),
    "way out by root": Case(_beside(header("/etc/cron.d/x", 0)), "'/etc/cron.d/x'"),
    "symbolic link": Case(
        _beside(header(f"{RUN}/raw/x.txt", 0, tarfile.SYMTYPE, "/etc/passwd")), _NO_PLAIN_FILE
    ),
    "hard link": Case(
        _beside(header(f"{RUN}/raw/x.txt", 0, tarfile.LNKTYPE, "/etc/passwd")), _NO_PLAIN_FILE
    ),
    "device": Case(_beside(header(f"{RUN}/raw/x.txt", 0, tarfile.BLKTYPE)), _NO_PLAIN_FILE),
    "pipe": Case(_beside(header(f"{RUN}/raw/x.txt", 0, tarfile.FIFOTYPE)), _NO_PLAIN_FILE),
    "folder": Case(_beside(header(f"{RUN}/raw", 0, tarfile.DIRTYPE)), r"raw', which no run writes"),
    "raw as a file": Case(_beside(*member("raw"), *member("raw/x.txt")), r"raw', which no run writes"),
    "twice": Case(_beside(*member("plan.json", b"{}")), r"plan\.json twice"),
    "two runs": Case(
        _beside(header("20251121T101500Z-3f2a/manifest.json", 0)),
        r"20251121T101500Z-3f2a/manifest\.json is of a second run",
    ),
    "size beyond the format": Case(
        _beside(header(f"{RUN}/x.txt", 1 << 60)), r"x\.txt in it has \d{19} bytes"
    ),
    "size below zero": Case(_beside(header(f"{RUN}/x.txt", -512)), r"x\.txt in it is no plain"),
    "cut off": Case(
        lambda: [header(f"{RUN}/manifest.json", MIB), b"{"], r"manifest\.json: damaged archive"
    ),
    "nested alone": Case(lambda: [header("inner.tar.gz", len(_NESTED)), _NESTED], r"'inner\.tar\.gz'"),
    "nested bomb": Case(lambda: _beside(*member("raw/n.tar.gz", _bomb()))(), ""),
    "wide manifest": Case(_with("manifest.json", _WIDE), _TOO_MUCH_MEMORY),
    "wide plan": Case(
        _with("plan.json", b'{"schema":1,"nodes":{%s"z":1}}' % _NODES),
        _TOO_MUCH_MEMORY,
    ),
    "wide rows": Case(
        _with("results.jsonl", 2 * (b'{"a":[%s1]}\n' % lines(b"[],", 7 * MIB))),
        _TOO_MUCH_MEMORY,
    ),
    "empty rows": Case(_with("asked.jsonl", lines(b'{"a":0}\n', 12 * MIB)), _TOO_MUCH_MEMORY),
    "deep": Case(_with("manifest.json", lines(b"[", 10 * MIB)), r"manifest\.json is not JSON"),
    "number without end": Case(
        _with("manifest.json", b'{"a":' + lines(b"9", 10 * MIB) + b"}"), r"manifest\.json is not JSON"
    ),
}  # fmt: skip

#: What is no gzip at all, or is cut to fit no format.
OTHER: dict[str, Case] = {
    "xz bomb": Case(lambda: [lzma.compress(bytes(512 * MIB), preset=0)], "damaged archive: .*header check"),
    "bzip2 bomb": Case(lambda: [bz2.compress(bytes(256 * MIB))], "damaged archive: .*header check"),
    "empty": Case(list, "damaged archive: it ends early"),
    "noise": Case(lambda: [b"\x1f\x8b\x08" + os.urandom(MIB)], "damaged archive"),
}


def write(name: str, folder: Path) -> Path:
    """Write the archive of a case into a folder."""
    path = folder / f"{name.replace(' ', '-')}.tar.gz"
    if name in OTHER:
        path.write_bytes(b"".join(one for one in OTHER[name].members() if isinstance(one, bytes)))
    else:
        end = () if name == "cut off" else (2 * _BLOCK,)
        path.write_bytes(packed([*CASES[name].members(), *end]))
    return path

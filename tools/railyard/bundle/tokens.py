"""What an address, a MAC or a GUID looks like in a text, and how another is written in the same form.

Whether it is replaced, and by what, is not decided here. Hardware addresses are bytes and IP addresses are
objects: one value in two forms is one value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Value = bytes | Address

#: Where a word may begin: not within another; JSON's `\n` and a terminal's colours end with a letter.
BEGIN = r"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=[0-9]m))"
_QUAD = r"\d{1,3}(?:\.\d{1,3}){3}"
_PAIR = "[0-9a-f]{2}"
_OCTET = r"\d{1,3}"
#: As tcpdump writes a port behind an address.
PORT = r"\.\d{1,5}(?!\.?[0-9])"
_FORMS = {
    # Before `quad`, of which it has one at its beginning.
    "arpa": r"(?<![0-9a-z.])(?:(?:\d{1,3}\.){1,4}in-addr|(?:[0-9a-f]\.){1,32}ip6)\.arpa(?![0-9a-z])",
    "literal": rf"{BEGIN}[0-9a-f]{{1,4}}-[0-9a-f-]{{2,35}}\.ipv6-literal\.net",
    "colons": rf"{BEGIN}(?:[0-9a-f]{{0,4}}:){{2,19}}(?:{_QUAD}(?![0-9.])|[0-9a-f]{{0,4}})",
    "dashes": rf"{BEGIN}{_PAIR}(?:-{_PAIR}){{5}}(?:-{_PAIR}-{_PAIR})?(?![0-9a-z]|-{_PAIR}\b)",
    "dots": rf"{BEGIN}[0-9a-f]{{4}}\.[0-9a-f]{{4}}\.[0-9a-f]{{4}}(?:\.[0-9a-f]{{4}})?(?![0-9a-z])",
    "halves": r"(?<![0-9a-z-])(?:[0-9a-f]{4}(?:-[0-9a-f]{4}){2}|[0-9a-f]{6}-[0-9a-f]{6})(?![0-9a-z-])",
    "parted": rf"(?<![0-9a-f]){_OCTET}(?:(?:-{_OCTET}){{3}}|(?:_{_OCTET}){{3}})(?![0-9a-f]|[._-][0-9])",
    "ported": rf"(?<![0-9.]){_QUAD}{PORT}",
    "quad": rf"(?<![0-9.]){_QUAD}(?:/\d{{1,3}})?(?!\.?[0-9])",
    "bare": r"(?<![0-9a-f])(?:0x)?(?:[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{12})(?![0-9a-z])",
    # An IPv4 address; without a letter or `0x` it may be any number.
    "octets": r"(?<![0-9a-f])(?:0x[0-9a-f]{8}|(?=[0-9]{0,7}[a-f])[0-9a-f]{8})(?![0-9a-z])",
}
#: Forms in which only what is known already is an address: they may be anything else.
KNOWN_ONLY = ("halves", "parted", "ported", "octets")
#: What may be an address of some kind; the name of a group is its form. The look ahead is for speed.
FIND = "(?=[0-9a-f]{0,6}[:._-]|(?:0x)?[0-9a-f]{8})(?:%s)" % "|".join(  # noqa: UP031 - braces mean themselves
    f"(?P<{name}>{pattern})" for name, pattern in _FORMS.items()
)


class Token(NamedTuple):
    """A value in a text, and how another one is written in its place."""

    value: Value
    write: Callable[[Any], str]
    swapped: Token | None = None
    """What it is if its bytes are in the order of the processor, as in /proc/net/tcp."""


def read(form: str, text: str) -> Token | None:
    """Return what a text of a form of FIND is; None where it only looks like it."""
    if form == "quad":
        address, slash, length = text.partition("/")
        return _ip(address, lambda value: f"{value}{slash}{length}")
    if form == "ported":
        address, _dot, port = text.rpartition(".")
        return _ip(address, lambda value: f"{value}.{port}")
    if form == "arpa":
        return _arpa(text)
    if form == "literal":
        head = text.removesuffix(text[-len(".ipv6-literal.net") :])
        tail = text[len(head) :]
        return _ip(head.replace("-", ":"), lambda value: str(value).replace(":", "-") + tail)
    if form == "parted":
        mark = "-" if "-" in text else "_"
        address = ".".join(str(int(one)) for one in text.split(mark))
        return _ip(address, lambda value: str(value).replace(".", mark))
    if form == "colons":
        found = _colons(text)
        if found is None and text.endswith(":") and (short := _colons(text[:-1])):
            return Token(short.value, lambda value: short.write(value) + ":")  # the colon is the sentence's
        return found
    prefix = text[:2] if text[:2] in ("0x", "0X") else ""
    sizes = {"dashes": ("-", 1), "dots": (".", 2), "bare": ("", 1), "octets": ("", 1)}
    mark, size = ("-", text.index("-") // 2) if form == "halves" else sizes[form]
    digits = text.removeprefix(prefix).replace(mark or ".", "")
    if len(digits) in (8, 32):
        raw = bytes.fromhex(digits)
        other = _ip(_swapped(raw), lambda value: prefix + _swapped(value.packed).hex())
        found = _ip(raw, lambda value: prefix + value.packed.hex())
        return found._replace(swapped=other) if found else other
    return _hardware(digits, lambda raw: prefix + (raw.hex(mark, size) if mark else raw.hex()))


def _colons(text: str) -> Token | None:
    groups = text.split(":")
    sizes = set(map(len, groups))
    if sizes == {1, 2} and len(groups) == 6:
        # As Solaris and some BMCs write a MAC.
        digits = "".join(one.zfill(2) for one in groups)
        return _hardware(digits, lambda raw: ":".join(f"{byte:x}" for byte in raw))
    if (sizes == {2} and len(groups) in (6, 8, 20)) or (sizes == {4} and len(groups) == 4):
        return _hardware("".join(groups), lambda raw: raw.hex(":", len(groups[0]) // 2))
    if len(groups) == 16 and all(one.isdigit() and int(one) < 256 for one in groups):
        # perftest writes the bytes of a GID as decimal numbers.
        return _ip(bytes(map(int, groups)), lambda value: ":".join(f"{byte:02d}" for byte in value.packed))
    if "." in groups[-1]:
        return _ip(text, lambda value: text.removesuffix(groups[-1]) + str(value.ipv4_mapped))
    return _ip(text, lambda value: value.packed.hex(":", 2) if len(text) == 39 else str(value))


def _hardware(digits: str, write: Callable[[Any], str]) -> Token | None:
    raw = bytes.fromhex(digits)
    # Constant bytes, a multicast MAC, the first half of a link-local GID.
    if len(set(raw)) == 1 or (len(raw) == 6 and raw[0] & 1) or (len(raw) == 8 and raw[0] == 0xFE):
        return None
    return Token(raw, write)


def _ip(text: str | bytes, write: Callable[[Any], str]) -> Token | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    four = address if address.version == 4 else address.ipv4_mapped
    if four is not None and (int(four) >> 24 in (0, 127, 255)):
        return None  # a mask, or the host itself
    if address.is_unspecified or address.is_loopback or address.is_multicast:
        return None
    return Token(address, write)


def _swapped(raw: bytes) -> bytes:
    """Return words of 32 bits in the other byte order."""
    return b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))


def _arpa(text: str) -> Token | None:
    """Return the address of a name of the reverse DNS; of a zone, its first address."""
    labels = text.lower().split(".")[:-2]
    tail = text[len(".".join(labels)) :]
    if "ip6" in tail.lower():
        digits = "".join(reversed(labels)).ljust(32, "0")
        return _ip(
            bytes.fromhex(digits), lambda value: ".".join(value.packed.hex()[: len(labels)][::-1]) + tail
        )
    octets = [*reversed(labels), "0", "0", "0"][:4]
    return _ip(".".join(octets), lambda value: ".".join(str(value).split(".")[: len(labels)][::-1]) + tail)


def spellings(value: Value) -> Iterator[str]:
    """Yield every form in which a text may contain a value, in lower case."""
    if isinstance(value, bytes):
        yield from (value.hex(), value.hex(":"), value.hex("-"), value.hex(":", 2), value.hex(".", 2))
        yield from (value.hex("-", 2), value.hex("-", 3), ":".join(f"{byte:x}" for byte in value))
        return
    yield str(value)
    yield f"{value.reverse_pointer}"
    raw = value.packed
    decimal = ":".join(f"{byte:02d}" for byte in raw)
    if value.version == 6:
        yield from (raw.hex(), raw.hex(":", 2), decimal, _swapped(raw).hex())
        yield ":".join(f"{int(one, 16):x}" for one in value.exploded.split(":"))
        yield from (str(value).replace(":", "-"), value.exploded.replace(":", "-"))
        return
    high, low = divmod(int(value), 1 << 16)
    yield from (f"255:255:{decimal}", f"ffff:{high:04x}:{low:04x}", f"ffff:{high:x}:{low:x}")
    yield from (str(value).replace(".", "-"), str(value).replace(".", "_"))
    yield f"{'0' * 16}ffff0000{raw[::-1].hex()}"
    for one in (raw.hex(), raw[::-1].hex()):
        # All digits, it may be any number.
        yield f"0x{one}" if one.isdigit() else one


def any_of(words: Iterable[str]) -> str:
    """Return a pattern of many literal words, the longest first, as quick for thousands as for one."""
    tree: dict[str, Any] = {}
    for word in words:
        place = tree
        for letter in word.lower():
            place = place.setdefault(letter, {})
        place[""] = {}
    return _pattern(tree) if tree else "(?!)"


def _pattern(tree: dict[str, Any]) -> str:
    head = ""
    while len(tree) == 1 and "" not in tree:
        ((letter, tree),) = tree.items()
        head += re.escape(letter)
    branches = [re.escape(letter) + _pattern(below) for letter, below in sorted(tree.items()) if letter]
    if not branches:
        return head
    return f"{head}(?:{'|'.join(branches)}){'?' if '' in tree else ''}"

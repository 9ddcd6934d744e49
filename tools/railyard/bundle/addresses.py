"""The stand-ins of IP addresses, MACs and GUIDs: what is in one network, or made of one MAC, stays so."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from itertools import count

from railyard.bundle import tokens
from railyard.bundle.tokens import Address, Token, Value

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_GUID = re.compile(r"(?:guid\W{1,4}(?:0x)?|\b(?:en|roce|ib|iw|opa)x)$", re.I)
# Words before an address, and words before a version, which looks like an address.
_PLACE = re.compile(
    r"(?:(?<![a-z])(?:addr|address|inet6?|host|via|src|dst|local|remote|server|peer|gateway|gw|ip|bind|ping|"
    r"nameserver|connect\w* to|port to|bytes from)|@|//|-B|-c)[\"'=:,\s(\[]*$",
    re.I,
)
# As clouds name a host after its address.
_CLOUD = re.compile(r"(?:^|[^a-z])(?:ip|ec2|host|vm|node)[-_]$", re.I)
_VERSION = re.compile(
    r"(?:(?<![a-z])(?:version|ver|v|fw|firmware|driver|kernel|release|rev)|ofed|linux \S+)[\"'=:.\s-]*$", re.I
)
# Complete private ranges identify no site; they stay as destinations of routes.
_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8")
_POOLS = {4: (*_RANGES[:4], "32.0.0.0/3"), 6: ("fd00::/8", "2000::/3")}
# An interface's part of an IPv6 address below this is somebody's numbering, and no card's mark.
_SMALL = 1 << 32


class Addresses:
    """What addresses a run's texts name, and the stand-in of each.

    Attributes:
        values: address -> stand-in, once all are known.
        ranges: networks that stay as they are written.
    """

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self.ranges = set(_RANGES)
        self._networks: set[Network] = set()
        #: What a text may be as well, in the other byte order.
        self._swapped: dict[Value, Value] = {}
        self._cards: set[tuple[bytes, bytes]] = set()
        self._maps: dict[Network, Network] = {}
        self._lows: dict[tuple[bytes, bytes], bytes] = {}

    def declare(self, text: str) -> None:
        """Note the networks of a document that declares them: what lies in one keeps its place in it."""
        for found in re.finditer(r"[0-9a-f.:]+/\d{1,3}", text, re.I):
            before = text[max(0, found.start() - 40) : found.start()]
            try:
                network = ipaddress.ip_network(found[0], strict=False)
            except ValueError:
                continue
            if re.search(r"(?:subnet|supernet)6?\"\s*:\s*\"$", before):
                self.ranges.discard(found[0])
            bits = network.prefixlen
            if (
                7 < bits < network.max_prefixlen - 1
                and found[0] not in self.ranges
                and not network.is_link_local
            ):
                self._networks.add(network)

    def note(self, token: Token, form: str, text: str, before: str, after: str) -> None:
        """Record an address in a text: the token, its form, its text, and the text before and after it."""
        value = token.value
        if token.swapped is not None:
            self._swapped[value] = token.swapped.value
        if form in tokens.KNOWN_ONLY and not _CLOUD.search(before):
            return
        if isinstance(value, bytes):
            if (form in ("colons", "dashes") and len(text.rstrip(":")) >= 3 * len(value) - 1) or _GUID.search(
                before
            ):
                self.values[value] = value
                self._cards.add(_card(value))
        elif mapped := getattr(value, "ipv4_mapped", None):
            self.values[mapped] = mapped
        elif (
            value not in self.values and text not in self.ranges and self._stands(value, text, before, after)
        ):
            self.values[value] = value
            if (own := _interface_id(value)) is not None:
                self._cards.add(_card(own))

    def _stands(self, value: Address, text: str, before: str, after: str) -> bool:
        """Tell whether what looks like an address is one, and no version."""
        place = (
            "/" in text
            or text.lower().endswith((".arpa", ".net"))
            or _CLOUD.search(before)
            or re.match(r"/\d|:\d", after)
            or _PLACE.search(before)
        )
        declared = any(value in network for network in self._networks)
        if value.version == 6:
            if value.is_link_local:
                return _interface_id(value) is not None and ":" in text  # 32 digits may be anything
            # A whole GID, or a number that is given out; C++ has `a::b`.
            return bool(declared or place) or len(text) == 39 or int(value) >> 125 == 1 or value.is_private
        version = _VERSION.search(before) or re.match(r"-[0-9a-z]", after, re.I)
        return not version and bool(declared or place or value.is_private)

    def settle(self) -> None:
        """Give each address its stand-in; nothing is noted after this."""
        for value, other in self._swapped.items():
            if value in self.values and self._knows(other, ""):
                del self.values[value]
        for value in self.values:
            if isinstance(value, bytes) or (value.version == 6 and value.is_link_local):
                continue
            if not any(value in network for network in self._networks):
                size = 24 if value.version == 4 else 64
                self._networks.add(ipaddress.ip_network(f"{value}/{size}", strict=False))
        tops: list[Network] = []
        for one in sorted(self._networks, key=lambda one: one.prefixlen):
            if not any(one[0] in top for top in tops):
                tops.append(one)
        taken = list(tops)
        free: dict[tuple[int, int, bool], Iterator[Network]] = {}
        for top in sorted(tops, key=lambda one: (one.version, int(one[0]))):
            like = free.setdefault((top.version, top.prefixlen, top.is_link_local), _networks_like(top))
            self._maps[top] = next(
                one for one in like if not any(one[0] in two or two[0] in one for two in taken)
            )
            taken.append(self._maps[top])
        for vendor in {vendor for vendor, _low in self._cards}:
            lows = (n.to_bytes(3, "big") for n in count(1))
            fresh = (low for low in lows if (vendor, low) not in self._cards)
            self._lows |= zip(sorted(one for one in self._cards if one[0] == vendor), fresh, strict=False)
        self.values = {value: self.hidden(value) for value in self.values}

    def write(self, token: Token, text: str) -> str:
        """Return the replacement of a token; the token itself where it identifies no site."""
        value = token.value
        if token.swapped is not None and not self._knows(value, text):
            return self.write(token.swapped, text)
        known = self._knows(value, text)
        other = token.write(self.values.get(value) or self.hidden(value)) if known else text
        prefix = "0x" if text.startswith("0x") else ""
        digits = other.removeprefix(prefix)
        return prefix + (digits.upper() if text.removeprefix(prefix).isupper() else digits)

    def _knows(self, value: Value, text: str) -> bool:
        if isinstance(value, bytes):
            return _card(value) in self._cards
        return text not in self.ranges and (getattr(value, "ipv4_mapped", None) or value) in self.values

    def hidden(self, value: Value) -> Value:
        """Return the stand-in of an address that is known, or is made of one."""
        if isinstance(value, bytes):
            return value[:-3] + self._lows[_card(value)]
        if mapped := getattr(value, "ipv4_mapped", None):
            return ipaddress.IPv6Address(0xFFFF << 32 | int(self.hidden(mapped)))
        top = next((one for one in self._maps if value in one), None)
        number = int(value) ^ (int(top[0]) ^ int(self._maps[top][0]) if top else 0)
        own = _interface_id(value)
        if own is not None and (top is None or top.prefixlen <= 64):
            number = number >> 64 << 64 | int.from_bytes(own[:-3] + self._lows[_card(own)], "big")
        return type(value)(number)


def _networks_like(network: Network) -> Iterator[Network]:
    """Yield networks of the same length, private ones first."""
    for pool in ("169.254.0.0/16",) if network.is_link_local else _POOLS[network.version]:
        whole: Network = ipaddress.ip_network(pool)
        if whole.prefixlen <= network.prefixlen:
            yield from whole.subnets(new_prefix=network.prefixlen)


def _card(raw: bytes) -> tuple[bytes, bytes]:
    """Return vendor and number of a MAC, a GUID, or the part of an IPv6 address made from one."""
    body = raw[-8:]
    return bytes([body[0] & 0xFD, *body[1:3]]), body[-3:]


def _interface_id(value: Address) -> bytes | None:
    """Return the interface id of an IPv6 address; None where it was numbered by hand."""
    identifier = int(value) % 2**64
    return identifier.to_bytes(8, "big") if value.version == 6 and identifier >= _SMALL else None

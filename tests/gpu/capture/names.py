"""Replace what tells one machine and its owner from others: one stand-in for one original, in all texts.

Serial numbers, UUIDs, hardware and network addresses, the host's name and its users' names. Read all texts
first (`learn`), then replace; a text that still holds an original is refused (`LeftError`). PCI addresses,
models, part numbers and versions stay: they are what the archive is for.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any

#: Users that say nothing of whose machine it is.
NOBODY = {"root", "ubuntu", "debian", "admin", "nobody", "user", "daemon", "localhost"}
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# From a MAC (6 octets) over a GUID (8) to an IPoIB address (20).
_HARDWARE = r"(?<![0-9a-f:])[0-9a-f]{2}(?::[0-9a-f]{2}){5,19}(?![0-9a-f:])"
# The serial number of a PCI Express function, as lspci writes it.
_PCI_SERIAL = r"(?<![0-9a-f-])[0-9a-f]{2}(?:-[0-9a-f]{2}){7}(?![0-9a-f-])"
# A version has parts with a leading 0, or more than four of them.
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"(?<![\w.-]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w-]|\.\d)"
_FIND = re.compile(
    f"(?P<uuid>{_UUID})|(?P<hardware>{_HARDWARE})|(?P<pciserial>{_PCI_SERIAL})|(?P<ipv4>{_IPV4})", re.I
)
# NCCL writes the name of an interface, a colon, and its address.
_IPV6 = re.compile(
    r"(?<![\w.:-])((?:[\w.-]*[g-z_.-][\w.-]*:)?)((?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4})(?![\w:])", re.I
)
# Labels of `nvidia-smi -q`, of the driver's lines in the kernel's log and of DMI; the value follows a colon.
_SERIAL = re.compile(
    r"(?:serial(?: |_)?(?:number|num|no)?|\bpdi|fabric guid|host id)[\"']?[ \t]*[:=][ \t]*[\"']?"
    r"(?P<serial>[0-9a-z][0-9a-z.\-]{3,63})",
    re.I,
)
_NCCL_HOST = re.compile(r"^(?P<host>[\w.-]{1,253}):\d{1,10}:\d{1,10} (?=\[)", re.M)
_HOME = re.compile(r"/(?:home|Users)/(?P<user>[\w.-]{1,64})")
# No value, or a stand-in of this file.
_NO_VALUE = re.compile(r"(?:n/?a|none|unknown|(?:0x)?0{6,}\d*|0x0+)\Z", re.I)


class LeftError(ValueError):
    """A text still holds what should have been replaced."""


class Names:
    """What is replaced by what.

    Attributes:
        kept: kinds of names that stay in running text because they are common words, each once.
    """

    def __init__(self, hosts: Iterable[str], users: Iterable[str], common: Iterable[str]) -> None:
        """Take the machine's own names; `common` are words that texts hold for other reasons."""
        self.kept: set[str] = set()
        self._common = {word.lower() for word in common}
        self._words: dict[str, str] = {}
        self._alone: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        for host in hosts:
            self._host(host)
        for user in users:
            self._user(user)

    def learn(self, text: str) -> None:
        """Note what a text names."""
        for found in _SERIAL.finditer(text):
            serial = found.group("serial")
            if re.search(r"\d", serial) and not _NO_VALUE.match(serial):
                self._word(serial, lambda number, old=serial: _same_form(old, number), "serial")
        for found in _NCCL_HOST.finditer(text):
            self._host(found.group("host"))
        for found in _HOME.finditer(text):
            self._user(found.group("user"))

    def replace(self, text: str) -> str:
        """Return a text with stand-ins.

        Raises:
            LeftError: something that was learned is still in it.
        """
        text = _NCCL_HOST.sub(
            lambda found: found[0].replace(found["host"], self._nccl(found["host"]), 1), text
        )
        text = _HOME.sub(lambda found: found[0].replace(found["user"], self._home(found["user"])), text)
        if self._words:
            longest_first = sorted(self._words, key=len, reverse=True)
            words = "|".join(_anywhere(word) for word in longest_first)
            text = re.sub(words, lambda found: self._words[found[0].lower()], text, flags=re.I)
        text = _IPV6.sub(lambda found: found[1] + self._address(found[2]), _FIND.sub(self._pattern, text))
        small = text.lower()
        left = [word for word in self._words if _is_telling(word) and word in small]
        if left:
            raise LeftError(f"{len(left)} names are still in it")
        return text

    def _host(self, name: str) -> None:
        name = name.strip(".").lower()
        if not name or name in NOBODY or name.startswith("gpu-host"):
            return
        short, _dot, domain = name.partition(".")
        stand_in = self._stand_in(short, "host", lambda number: f"gpu-host{number}")
        if self._is_common(short):
            self.kept.add("host name")
        else:
            self._words.setdefault(short, stand_in)
        if domain:
            self._words[name] = self._alone["host", name] = f"{stand_in}.example"
            self._words[domain] = "example"

    def _user(self, name: str) -> None:
        name = name.lower()
        if not name or name in NOBODY or re.fullmatch(r"user\d{1,6}", name):
            return
        stand_in = self._stand_in(name, "user", lambda number: f"user{number}")
        if self._is_common(name):
            self.kept.add("user name")
        else:
            self._words.setdefault(name, stand_in)

    def _is_common(self, word: str) -> bool:
        return len(word) < 4 or word in self._common

    def _nccl(self, host: str) -> str:
        return self._alone.get(("host", host.lower()), host)

    def _home(self, user: str) -> str:
        return self._alone.get(("user", user.lower()), user)

    def _word(self, word: str, make: Any, kind: str) -> None:
        self._words.setdefault(word.lower(), self._stand_in(word.lower(), kind, make))

    def _stand_in(self, word: str, kind: str, make: Any) -> str:
        if (kind, word) not in self._alone:
            self._numbers[kind] = self._numbers.get(kind, 0) + 1
            self._alone[kind, word] = make(self._numbers[kind])
        return self._alone[kind, word]

    def _pattern(self, found: re.Match[str]) -> str:
        kind, text = str(found.lastgroup), found[0]
        if kind == "ipv4":
            return self._address(text)
        if not re.search(r"[1-9a-f]", text, re.I) or text.lower().startswith(_STAND_INS):
            return text
        return self._stand_in(text.lower(), kind, lambda number: _same_form(text, number))

    def _address(self, text: str) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified or any(address in one for one in _DOCUMENTATION):
            return text
        if address.version == 4:
            return self._stand_in(str(address), "ipv4", _ipv4)
        return self._stand_in(str(address), "ipv6", lambda number: f"2001:db8::{number:x}")


# What stands for UUIDs and hardware addresses begins so; a machine's own does not.
_STAND_INS = ("00000000-0000-0000-0000-", "00:00:00:00:0")
# RFC 5737, RFC 2544, RFC 3849.
_DOCUMENTATION = tuple(
    ipaddress.ip_network(one) for one in ("192.0.2.0/24", "198.18.0.0/15", "2001:db8::/32")
)


def _is_telling(word: str) -> bool:
    return len(word) > 4 and re.search(r"\d", word) is not None


def _anywhere(word: str) -> str:
    """Return a pattern of a word; one that no other word holds by chance is found inside others too.

    Lines of several ranks run into one another: `mmoc-r4pcc04u25`.
    """
    return re.escape(word) if _is_telling(word) else rf"(?<![0-9a-z]){re.escape(word)}(?![0-9a-z])"


def _ipv4(number: int) -> str:
    return f"192.0.2.{number}" if number < 255 else str(ipaddress.ip_address("198.18.0.0") + number)


def _same_form(text: str, number: int) -> str:
    """Return a number with the separators and the length of a text: `00-00-…-07`."""
    # In hexadecimal, of which decimal digits are a part, so that a column of either kind still reads.
    digits = iter(f"{number:0{sum(one.isalnum() for one in text)}d}"[-sum(one.isalnum() for one in text) :])
    prefix = text[:2] if text.lower().startswith("0x") else ""
    rest = "".join(next(digits) if one.isalnum() else one for one in text)
    return prefix + rest[len(prefix) :]

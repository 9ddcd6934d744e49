"""The replacement table: what a run's texts name, and the stand-in of each.

Twice over all texts: `learn` notes what is there, `replace` writes stand-ins. A stand-in depends on the whole
run alone, so that one run gives the same bundle again.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, unquote

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.registry import TOOLS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.causes import CAUSES

from railyard.base import paths
from railyard.base.errors import UserError
from railyard.bundle import addresses, naming, tokens

Words = dict[str, str]

_PEM = re.compile(r"(-----BEGIN ([A-Z ]+)-----).{1,20000}?(-----END \2-----)", re.S)
# A text with encoded bytes, as in a URL.
_ENCODED = re.compile(
    r"(?<![\w.~+/:@\[\]-])[\w.~+/:@\[\]-]{0,256}(?:%[0-9a-f]{2}[\w.~+/:@\[\]-]{0,256})+", re.I
)


class Table:
    """What is replaced by what.

    Attributes:
        kept: names that are common words, or too short to tell from other text; they stay.
    """

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self._kinds: dict[str, Words] = {}
        self._seen: set[str] = set()
        self._aliases: Words = {}
        #: How a folded list of names begins -> their kind.
        self._stems: Words = {}
        self._words: Words = {}
        self._keys: Words = {}
        self._common = _read_vocabulary()
        self._find = re.compile(tokens.FIND, re.I)
        self._addresses = addresses.Addresses()

    def declare(self, text: str) -> None:
        """Note the networks of a document that declares them."""
        self._addresses.declare(text)

    def name(self, kind: str, word: str) -> None:
        """Note a name; of a host's with a domain both parts, and a node's also without it."""
        word = word.strip().lower()
        if kind in naming.SITE:
            word = word.strip(".-")  # of a sentence
        if word in self._seen:
            return  # what it was first is what it is
        self._seen.add(word)
        address = re.fullmatch(tokens.FIND, word)
        address = None if address and address.lastgroup in ("halves", "octets") else address
        if kind == "node" and address and (token := tokens.read(str(address.lastgroup), word)):
            self._addresses.note(token, "colons", word, "host ", "")
        if not word or (address and kind in naming.SITE) or (kind == "serial" and not re.search(r"\d", word)):
            return
        if word in self._common or (
            kind in naming.SITE and re.fullmatch(r"[0-9a-f]{1,4}|[a-z]|[\d.:/]+", word)
        ):
            self.kept |= {word} - naming.NOBODY if kind in naming.SITE else set()
            return
        short, _, domain = word.partition(".")
        if kind in ("node", "host", "switch") and domain:
            self.name("domain", domain)
            if kind != "node":
                self.name(kind, short)
                return
            self._seen.add(short)
            if len(short) > 2:
                self._aliases |= dict.fromkeys({short, *naming.variants(short)} - self._common, word)
        self._kinds.setdefault(kind, {})[word] = ""
        others = {json.dumps(word)[1:-1]}
        if kind in (*naming.SITE, "domain"):
            # Cluster `path-mtu` is not the check `path_mtu`.
            others |= set(naming.variants(word)) - self._common
        self._aliases |= dict.fromkeys(others - {word}, word)
        if kind in ("node", "host", "switch") and (stem := naming.stem(short)):
            self._stems[stem] = kind
        if kind == "domain" and word.count(".") > 1:
            self.name("domain", word.partition(".")[2])

    def learn(self, text: str) -> None:
        """Note what a text names."""
        for kind, word in naming.in_text(text):
            self.name(kind, word)
        for encoded in _ENCODED.finditer(text):
            plain = unquote(encoded[0], errors="surrogateescape")
            # Double encoding does not occur.
            if "%" not in plain:
                self.learn(plain)
        for block in _PEM.finditer(text):
            self._keys.setdefault(block[0], f"{block[1]}key {len(self._keys) + 1}{block[3]}")

        def note(token: tokens.Token, form: str, found: re.Match[str]) -> str:
            before, after = (
                text[max(0, found.start() - 40) : found.start()],
                text[found.end() : found.end() + 6],
            )
            self._addresses.note(token, form, found[0], before, after)
            return found[0]

        self._each(text, note)

    def settle(self) -> None:
        """Give everything that was learned its stand-in; nothing is learned after this."""
        self._addresses.settle()
        # One that is like other words is no name either.
        self._stems = {one: kind for one, kind in self._stems.items() if _is_unlike(one)}
        words = _pattern(
            [*self._aliases, *self._stems, *(word for words in self._kinds.values() for word in words)]
        )
        self._left = re.compile(words, re.I)
        self._find = re.compile(f"(?P<word>{words})|{tokens.FIND}", re.I)
        for kind, originals in self._kinds.items():
            self._kinds[kind] = _stand_ins(kind, sorted(originals), self._left)
            self._words |= self._kinds[kind]
        self._words |= {
            one: self._words[word] for one, word in self._aliases.items() if one not in self._words
        }
        self._words |= {one: f"{kind}[" for one, kind in self._stems.items()}
        values = [value for value, _other in self._replaced()]
        spelled = tokens.any_of(one for value in values for one in tokens.spellings(value))
        dotted = tokens.any_of(str(one) for one in values if isinstance(one, ipaddress.IPv4Address))
        self._spelled = re.compile(
            rf"(?<![0-9a-f.])(?:(?:{spelled})(?![0-9a-f]|\.[0-9])|(?:{dotted}){tokens.PORT})", re.I
        )

    def replace(self, text: str) -> str:
        """Return a text with stand-ins."""
        for block, other in self._keys.items():
            text = text.replace(block, other)
        if "%" in text:
            text = _ENCODED.sub(self._encoded, text)
        return self._each(text, lambda token, _form, found: self._addresses.write(token, found[0]))

    def _encoded(self, found: re.Match[str]) -> str:
        """Return a text of encoded bytes with stand-ins, what was encoded before encoded again."""
        plain = unquote(found[0], errors="surrogateescape")
        other = self._each(plain, lambda token, _form, one: self._addresses.write(token, one[0]))
        if other == plain:
            return found[0]
        encoded = {unquote(one) for one in re.findall("%[0-9a-f]{2}", found[0], re.I)}
        return quote(other, safe="".join(set("~+/:@[]") - encoded), errors="surrogateescape")

    def _each(self, text: str, take: Callable[[tokens.Token, str, re.Match[str]], str]) -> str:
        """Return a text with each name replaced, and each address by what is taken for it."""

        def one(found: re.Match[str]) -> str:
            form = str(found.lastgroup)
            if form == "word":
                # Some letters have more than two cases; what stays is found again by `left`.
                return self._words.get(found[0].lower(), found[0])
            token = tokens.read(form, found[0])
            if token is not None:
                return take(token, form, found)
            head, colon, rest = found[0].partition(":")
            return head + colon + self._find.sub(one, rest) if rest else head + colon

        return self._find.sub(one, text)

    def left(self, text: str) -> bool:
        """Tell whether a text contains an original, in any of its forms."""
        for one in self._addresses.ranges:
            text = text.replace(one, "")
        if "%" in text and (plain := unquote(text, errors="surrogateescape")) != text and self.left(plain):
            return True
        return bool(self._left.search(text) or self._spelled.search(text)) or any(
            one in text for one in self._keys
        )

    def _replaced(self) -> Iterator[tuple[tokens.Value, tokens.Value]]:
        return ((value, other) for value, other in self._addresses.values.items() if value != other)

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield kind, stand-in and original of everything that was replaced."""
        for kind, words in sorted(self._kinds.items()):
            yield from ((kind, other, word) for word, other in words.items())
        for value, other in self._replaced():
            if isinstance(value, bytes) and isinstance(other, bytes):
                yield ("GUID" if len(value) == 8 else "MAC address"), other.hex(":"), value.hex(":")
            else:
                kind = "IPv4 address" if isinstance(value, ipaddress.IPv4Address) else "IPv6 address or GID"
                yield kind, str(other), str(value)
        yield from (("key", other, repr(block)) for block, other in self._keys.items())

    def counts(self) -> Counter[str]:
        """Return kind -> how many were replaced."""
        return Counter(kind for kind, _other, _original in self.rows())


def _pattern(words: Iterable[str]) -> str:
    """Return what finds names; one that is like no other word also where it is glued to something else."""
    known = set(words)
    unlike = {one for one in known if _is_unlike(one)}
    free, bound = tokens.any_of(unlike), tokens.any_of(known - unlike)
    return rf"(?:{free})(?!(?<=\d)\d)|{tokens.BEGIN}(?:{bound})(?![0-9A-Za-z])"


def _is_unlike(word: str) -> bool:
    return bool(re.fullmatch(r"(?=.*[\d.-])(?=.*[g-z])[a-z].{3,}", word, re.S))


def _stand_ins(kind: str, words: list[str], left: re.Pattern[str]) -> Words:
    """Return each word's stand-in, in their order and free of any original."""
    width = len(str(len(words)))
    for turn, stem in enumerate((kind, kind[0], "x", "xx", "xxx")):
        made = {}
        for number, word in enumerate(words, 1):
            made[word] = {
                "UUID": f"00000000-0000-4000-800{turn}-{number:012x}",
                "serial": f"{stem[0]}{number:0{len(word) - 1}d}",
                "domain": f"{stem}{number}.example",
            }.get(kind, f"{stem}{number:0{width}d}")
        if not any(left.search(one) for one in made.values()):
            return made
    raise UserError(
        f"no stand-in is left for a {kind}: too much is named as they are", "bundle the run itself"
    )


def _read_vocabulary() -> set[str]:
    """Return the vocabulary of Railyard's documents: a name that is in it identifies no site."""
    schemas = (one.read_text(encoding="utf-8") for one in (paths.repo_root() / "docs/schema").glob("*.json"))
    text = " ".join([*schemas, *CHECKS, *CAUSES, *TOOLS]).lower()
    return {*re.findall(r"[a-z0-9]+", text), *re.findall(r"[a-z0-9_]+", text), *naming.NOBODY}

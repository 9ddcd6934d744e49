# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a repository may become a source of apt: its key, and what apt says when it tries it.

Pure: the key's text, apt's words and the versions it found come in, sentences go out. Each ends with what to
do.
"""

from __future__ import annotations

import fnmatch
import re
import typing as t

from . import openpgp

_FINGERPRINT = re.compile(r"[0-9A-F]{40}\Z")
_GLOB = re.compile(r"[*?\[/]")
# Messages of apt (2.4 to 3.0, gpgv and sqv), their meaning and the fix: the first match is reported,
# since one
# cause brings others after it (a mirror that is down has no Release file either).
_CAUSES = (
    (
        r"Conflicting values set for option Signed-By",
        "another file names the same repository with another key, and apt reads no source at all then",
        "remove the other entry (`grep -r URI /etc/apt/sources.list*` finds it)",
    ),
    (
        r"NO_PUBKEY|Missing key|public key is not available",
        "it is signed with another key than the one given: wrong key, or not the vendor's repository",
        "take the key from the vendor, and its fingerprint from another place than the key",
    ),
    (
        r"EXPKEYSIG|REVKEYSIG|KEYEXPIRED|[Ee]xpired (?:on|key)|key (?:is|has) expired",
        "the key that it is signed with has expired or was revoked",
        "take the vendor's new key and its fingerprint",
    ),
    (
        r"BADSIG|[Bb]ad signature|NODATA",
        "its signature does not fit its contents: changed on the way, or a mirror in the middle of an update",
        "compare it with the vendor's own; do not install from it",
    ),
    (
        r"is expired \(invalid since",
        "its Release file has expired: the mirror is no longer updated, or the node's clock is wrong",
        "update the mirror; look at `date` on the node",
    ),
    (
        r"is not valid yet",
        "its Release file is from the future: the node's clock is wrong",
        "set the clock (`date` on the node)",
    ),
    (
        r"Could not (?:resolve|connect)|Connection (?:failed|refused|timed out)|Temporary failure|"
        r"Unable to connect|Cannot initiate the connection|timed out",
        "its mirror does not answer",
        "look whether the mirror is up and whether the node has a way to it (proxy, route, DNS)",
    ),
    (
        r"Hash Sum mismatch|unexpected size",
        "its lists do not fit its Release file: a mirror in the middle of an update, or a proxy with old "
        "files",
        "try again later, or past the proxy",
    ),
    (
        r"does not have a Release file|404 +Not Found|File not found",
        "there is no repository at this place",
        "correct the URI and the suite (a flat repository has a suite that ends with /)",
    ),
    (
        r"is not signed",
        "it is not signed",
        "use a repository with a signed Release file; Railyard writes no source that apt would have to "
        "trust unseen",
    ),
)


def check_key(text: str, fingerprint: str) -> list[str]:
    """Say why the key is not the one that the fingerprint names.

    Args:
        text: The key, ASCII-armoured.
        fingerprint: 40 hexadecimal digits; spaces do not count.
    """
    wanted = "".join(fingerprint.split()).upper()
    if not _FINGERPRINT.match(wanted):
        return [
            f"{fingerprint!r} is no full fingerprint. Fix: write all 40 hexadecimal digits "
            "(`gpg --show-keys KEY` prints them); a short key id can be forged"
        ]
    try:
        found, _key = openpgp.one_key(text)
    except openpgp.KeyFormatError as error:
        return [unusable_key(error)]
    if found != wanted:
        return [
            f"the key has the fingerprint {found}, not {wanted}. Fix: this is not the key that was meant; "
            "take the vendor's, with its fingerprint from another place"
        ]
    return []


def unusable_key(error: openpgp.KeyFormatError) -> str:
    """Say why a key cannot be taken, and what to do."""
    return f"the key is not usable: {error}. Fix: `gpg --export --armor FINGERPRINT` writes one that is"


def explain(text: str) -> str:
    """Say what apt's words mean, with them and what to do."""
    said = [line.partition(": ")[2] for line in text.splitlines() if line.startswith(("E: ", "W: "))]
    for pattern, meaning, fix in _CAUSES:
        match = re.search(pattern, text)
        if match is not None:
            words = next((line for line in said if re.search(pattern, line)), match.group(0))
            return f"{meaning}. apt: {words.rstrip('.')}. Fix: {fix}"
    return (
        f"apt cannot use it: {'; '.join(said) or text.strip()[-300:]}. Fix: run `apt-get update` on the node"
    )


def plain_names(pins: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Name the packages that are pinned to a version, patterns left out."""
    names = [name for pin in pins if pin.get("version") for name in pin["packages"] if not _GLOB.search(name)]
    return list(dict.fromkeys(names))


def missing_versions(
    pins: t.Iterable[t.Mapping[str, t.Any]], offered: t.Mapping[str, t.Sequence[str]]
) -> list[str]:
    """Say which pinned version the repository does not have.

    Args:
        pins: `{"packages", "version"}` each; a version may be a pattern as in apt's preferences.
        offered: What the repository has, by package.
    """
    problems = []
    for pin in pins:
        version = str(pin.get("version") or "")
        for name in plain_names([pin]):
            versions = offered.get(name, [])
            if not versions:
                problems.append(
                    f"it has no package {name}. Fix: correct the name, the suite or the component"
                )
            elif not any(fnmatch.fnmatchcase(one, version) for one in versions):
                problems.append(
                    f"it has {name} in version {', '.join(versions)}, not {version}. Fix: pin one "
                    "that it has, "
                    "or use the repository that has this one"
                )
    return problems

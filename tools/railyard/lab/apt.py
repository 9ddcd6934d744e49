"""How this host reaches its Debian or Ubuntu mirror: the nodes must reach it the same way."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from railyard.lab.process import run

# What decides how apt talks to a mirror; everything else in the host's configuration is the host's own
# business.
_TRANSPORT = re.compile(r"(?i)^acquire::(http|https|ftp|retries|check-valid-until|check-date|forceipv4)\b")
# Programs and files of this host, which do not exist in the image.
_HOST_ONLY = re.compile(r"(?i)(proxy-auto-detect|proxyautodetect|sslcert|sslkey|cainfo|capath|issuercert)")
_INDEX_FORMAT = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
_LOCAL_CERTIFICATES = Path("/usr/local/share/ca-certificates")
#: The suites of Ubuntu that nodes may have. Its benchmark tools are in `universe`.
UBUNTU_SUITES = ("jammy", "noble")
_COMPONENTS = {True: "main universe", False: "main"}
# Ubuntu Archive Automatic Signing Key (2018), F6ECB3762474EDA9D21B7022871920D1991BC93C, as the package
# ubuntu-keyring has it, which Debian has not.
_UBUNTU_KEY = Path(__file__).with_name("ubuntu-archive-key.asc")


@dataclass(frozen=True)
class AptSettings:
    """What an image needs to reach the mirror that this host uses.

    Attributes:
        sources: one-line sources (`deb URI SUITE main`); none means mmdebstrap's own default mirror.
        components: those that are used of that default mirror, with spaces between.
        options: lines of apt.conf.
        certificates: file name → bytes of the certificates that this host's owner added.
    """

    sources: tuple[str, ...]
    options: tuple[str, ...]
    certificates: tuple[tuple[str, bytes], ...]
    components: str = _COMPONENTS[False]


def key_options(suite: str) -> list[str]:
    """Return mmdebstrap's options for a suite whose keys the host's own apt need not have."""
    return [f"--keyring={_UBUNTU_KEY}"] if suite in UBUNTU_SUITES else []


def read(suite: str) -> AptSettings:
    """Ask the host's apt for its mirror, proxies and certificates, as far as they serve `suite`."""
    targets = run(
        ["apt-get", "indextargets", "--format", _INDEX_FORMAT, "Created-By: Packages"], check=False
    ).stdout
    dump = run(["apt-config", "dump"], check=False).stdout
    certificates = [
        (str(path.relative_to(_LOCAL_CERTIFICATES)).replace("/", "-"), path.read_bytes())
        for path in sorted(_LOCAL_CERTIFICATES.rglob("*.crt"))
    ]
    return AptSettings(
        sources(targets, suite),
        options(dump, dict(os.environ)),
        tuple(certificates),
        _COMPONENTS[suite in UBUNTU_SUITES],
    )


def sources(index_targets: str, suite: str) -> tuple[str, ...]:
    """Pick the lines of `apt-get indextargets` that serve `suite`.

    A host of another release lends its mirror's address, where it is of the same distribution. One of
    another has nothing to lend, and mmdebstrap then takes the mirror that it knows.
    """
    found: dict[str, str] = {}
    ubuntu = suite in UBUNTU_SUITES
    debian_uri = None
    for line in index_targets.splitlines():
        uri, _, rest = line.strip().partition("|")
        release, _, component = rest.partition("|")
        if component != "main" or not uri:
            continue
        if release == suite or release.startswith(f"{suite}-"):
            found.setdefault(release, uri.rstrip("/"))
        if uri.rstrip("/").endswith("/debian"):
            debian_uri = uri.rstrip("/")
    if suite not in found:
        base = None if ubuntu else debian_uri
        found = (
            {suite: base, f"{suite}-updates": base, f"{suite}-security": f"{base}-security"} if base else {}
        )
    return tuple(f"deb {uri} {release} {_COMPONENTS[ubuntu]}" for release, uri in sorted(found.items()))


def options(config_dump: str, environment: dict[str, str]) -> tuple[str, ...]:
    """Pick the lines of `apt-config dump` about transport; proxies of the environment become apt's."""
    lines = [
        line.strip()
        for line in config_dump.splitlines()
        if _TRANSPORT.match(line.strip()) and not _HOST_ONLY.search(line) and '""' not in line
    ]
    for scheme in ("http", "https"):
        proxy = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        if proxy and not any(line.lower().startswith(f"acquire::{scheme}::proxy ") for line in lines):
            lines.append(f'Acquire::{scheme}::Proxy "{proxy}";')
    return tuple(lines)

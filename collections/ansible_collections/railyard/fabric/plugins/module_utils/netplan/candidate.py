# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Try a candidate netplan file in a separate root folder before anything on the node is written."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import node_files
from . import claims as netplan_claims
from . import networks as netplan_networks
from . import render, routing

Run = Callable[[list[str]], tuple[int, str, str]]

SYSCTL_FILE = "/etc/sysctl.d/60-railyard-rails.conf"
# The trial of all files but Railyard's; what netplan generates there must not change.
OTHERS = "others"
_FOLDERS = ("lib/netplan", "etc/netplan", "run/netplan")
_GENERATED = ("/run/systemd/network", "/run/NetworkManager/system-connections")


class CandidateError(ValueError):
    """netplan rejects the files; the message is netplan's, with the node's paths."""


def netplan_files(root: str = "/") -> dict[str, str]:
    """Return `{path on the node: path under root}` of all netplan files of the node."""
    found = {}
    for folder in _FOLDERS:
        base = os.path.join(root, folder)
        for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            if name.endswith(".yaml"):
                found["/" + folder + "/" + name] = os.path.join(base, name)
    return found


def files(
    rails: Sequence[Mapping[str, Any]],
    path: str,
    frontend: Mapping[str, Any] | None = None,
    rp_filter: int = routing.LOOSE,
) -> list[dict[str, Any]]:
    """Return the files that a change writes, in order.

    Args:
        rails: the rails and, marked `network`, the managed networks, as `resolve.place` leaves them.
        path: the rails' netplan file.
        frontend: the frontend where Railyard writes it, else None.
        rp_filter: the rails' reverse path filter.

    Returns:
        `[{"path", "text" (None: the file must be absent), "mode"}]`.

    Raises:
        netplan_render.RenderError: a rail cannot be written.
    """
    own, networks = own_rails(rails), [rail for rail in rails if rail.get("network")]
    carried = [str(rail.get("parent") or rail["netdev"]) for rail in own]
    texts = (
        (path, render.render(own), 0o600),
        (netplan_networks.FILE, netplan_networks.render(networks, frontend, carried), 0o600),
        # udev reads it again for each new netdev: world-readable like all of sysctl.d.
        (SYSCTL_FILE, routing.sysctl_text(own, rp_filter), 0o644),
    )
    return [{"path": place, "text": text or None, "mode": mode} for place, text, mode in texts]


def own_rails(rails: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rails without the managed networks among them."""
    return [rail for rail in rails if not rail.get("network")]


def sysctls(rails: Sequence[Mapping[str, Any]], rp_filter: int = routing.LOOSE) -> dict[str, str]:
    """Return `{path under /proc/sys: value}` that a change sets after `netplan apply`."""
    found: dict[str, str] = {}
    for rail in own_rails(rails):
        found.update(routing.sysctls(rail, rp_filter))
    return found


def is_netplan(path: str) -> bool:
    """Return whether netplan reads this path."""
    return path.endswith(".yaml") and os.path.dirname(path).lstrip("/") in _FOLDERS


def _fill(files: Mapping[str, str], candidates: Mapping[str, str], target: str) -> None:
    for path, source in files.items():
        place = target + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copyfile(source, place)
        os.chmod(place, 0o600)
    for path, text in candidates.items():
        place = target + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(
            os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as handle:
            handle.write(text)


def generate(
    run: Run, netplan: str, files: Mapping[str, str], candidates: Mapping[str, str], work: str
) -> tuple[dict[str, str], str]:
    """Run `netplan generate` on files in a separate folder.

    Args:
        run: runs an argv list, returns exit status, standard output, standard error.
        netplan: path of the netplan command.
        files: `{path on the node: where to read it}` of the files that take part.
        candidates: `{path on the node: text}` of new files.
        work: an empty folder for this trial.

    Returns:
        `({path on the node: text} of the generated files, netplan's standard error)`.

    Raises:
        CandidateError: netplan rejects the files; the message has the reason and the place.
    """
    _fill(files, candidates, work)
    status, out, err = run([netplan, "generate", "--root-dir", work])
    said = (err + out).replace(work, "")
    if status != 0:
        raise CandidateError(said.strip() or f"netplan generate ended with {status}")
    # .link files set names and hardware properties, not addresses
    texts = {
        path: text
        for path, text in tree(work).items()
        if os.path.dirname(path) in _GENERATED and not path.endswith(".link")
    }
    return texts, said


def without(run: Run, netplan: str, path: str, stanzas: Mapping[str, Sequence[str]], work: str) -> str:
    """Return a netplan file's text without some of its stanzas, written by netplan.

    So the node needs no other YAML parser. Comments and order are lost.

    Args:
        run: runs an argv list.
        netplan: path of the netplan command.
        path: the file, that `generate` has put into `work` alone.
        stanzas: `{section: ids}`.
        work: folder of the trial.

    Raises:
        CandidateError: the rest is not a valid file.
    """
    patch = json.dumps({section: dict.fromkeys(ids) for section, ids in stanzas.items()})
    hint = os.path.splitext(os.path.basename(path))[0]
    status, _out, err = run([netplan, "set", "--root-dir", work, "--origin-hint", hint, f"network={patch}"])
    if status != 0:
        # netplan's message, without the Python traceback around it
        said = re.search(r"\S+\.yaml:.*", err.replace(work, ""))
        raise CandidateError(said.group() if said else err.strip()[-300:])
    with open(work + path, encoding="utf-8") as handle:
        return handle.read()


def stanza_keys(run: Run, netplan: str, section: str, work: str) -> dict[str, dict[str, str]]:
    """Return `{id: {key: value}}` of a section's stanzas, as netplan prints them, nested keys left out.

    Args:
        run: runs an argv list.
        netplan: path of the netplan command.
        section: such as `ethernets`.
        work: folder of the trial.

    Raises:
        CandidateError: netplan does not print them.
    """
    status, out, err = run([netplan, "get", "--root-dir", work, section])
    if status != 0:
        raise CandidateError(err.replace(work, "").strip()[-300:])
    stanzas: dict[str, dict[str, str]] = {}
    for line in out.splitlines():
        found = re.match(r"( {0,2})([^\s#-][^:]*):(?: (.*))?\Z", line)
        if not found:
            continue
        key, value = found.group(2).strip("\"'"), (found.group(3) or "").strip("\"' ")
        if not found.group(1):
            stanzas[key] = {}
        elif stanzas and len(found.group(1)) > 1:
            stanzas[list(stanzas)[-1]][key] = value
    return stanzas


def tree(work: str) -> dict[str, str]:
    """Return `{path on the node: text}` of all files that netplan generated in the folder of a trial."""
    texts = {}
    for folder, _folders, names in sorted(os.walk(os.path.join(work, "run"))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not (os.path.islink(path) or name.endswith(".yaml")):
                with open(path, encoding="utf-8", errors="replace") as handle:
                    texts[path[len(work) :]] = handle.read()
    return texts


def claims_by_netplan(
    run: Run, netplan: str, files: Mapping[str, str], netdevs: Mapping[str, Mapping[str, str]], work: str
) -> list[tuple[str, str, str]]:
    """Return `(netdev, file, reason)` for each other netplan file that configures a rail's netdev.

    The files are tried together, since one may need another; only when a claim is found each is tried alone
    to identify it. A file that is invalid alone is named when it mentions the netdev; where none explains the
    claim, all are named.
    """
    if not files:
        return []
    together, _said = generate(run, netplan, files, {}, os.path.join(work, OTHERS))
    claims = netplan_claims.claims(netdevs, together, {})
    if not claims:
        return []
    found: list[tuple[str, str, str]] = []
    for index, (path, source) in enumerate(files.items()):
        with open(source, encoding="utf-8", errors="replace") as handle:
            text = handle.read()
        try:
            alone, _said = generate(run, netplan, {path: source}, {}, os.path.join(work, f"alone{index}"))
            own = netplan_claims.claims(netdevs, alone, {})
        except CandidateError:
            own = [claim for claim in claims if claim[0] in text]
        found += [(netdev, path, reason) for netdev, _generated, reason in own]
    return found or [(netdev, " + ".join(files), reason) for netdev, _generated, reason in claims]


def netdev_facts(netdevs: list[str], sys_root: str = "/sys") -> dict[str, dict[str, Any]]:
    """Return `{netdev: {"mac", "driver"}}` from sysfs, to match other files."""
    facts = {}
    for netdev in netdevs:
        base = os.path.join(sys_root, "class/net", netdev)
        mac = node_files.read_word(os.path.join(base, "address"))
        driver = os.path.join(base, "device/driver")
        name = os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else ""
        facts[netdev] = {"mac": mac, "driver": name}
    return facts

# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what prevents the chosen driver on a node, and what waits for a reboot.

Pure: facts of `gpu_info` and the choice in, sentences out. What somebody else put there is judged in
`gpu_driver_replace`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import minimum_versions
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu import replace as gpu_driver_replace
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import Choice, Facts
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.replace import branch_of

_GIB = 1 << 30
_LIBRARIES = re.compile(r"(?:libcuda1|libnvidia-compute(?:-[0-9]+.*)?)\Z")
_MOK_STEPS = (
    "make a key (`update-secureboot-policy --new-key`, or what /etc/dkms/framework.conf names), enrol it "
    "(`mokutil --import`, which asks for a password), and confirm it on the console at the next boot"
)


def _room(facts: Facts, needed_bytes: Mapping[str, int], installs: bool) -> list[dict[str, str]]:
    if not installs:
        return []
    free = facts.get("free_bytes") or {}
    return [
        {
            "code": "no_room",
            "text": f"{place} has {free[place] / _GIB:.1f} GiB free, the driver needs {needed / _GIB:.1f} GiB"
            ". Fix: make room, as with `apt-get clean` and by removing old kernels.",
        }
        for place, needed in needed_bytes.items()
        if place in free and free[place] < needed
    ]


def missing_packages(facts: Facts, names: Sequence[str]) -> list[str]:
    """Return those of the packages that are not installed."""
    return [name for name in names if name not in (facts.get("packages") or {})]


def refusals(
    facts: Facts,
    choice: Choice,
    source: str,
    needed_bytes: Mapping[str, int],
    pins: Mapping[str, str],
    replace: bool,
    uninstall_run: bool = False,
    key_enrolled: bool = False,
) -> list[dict[str, str]]:
    """Return the refusals on the node, `code` and `text` each.

    Args:
        facts: What `gpu_info` returned.
        choice: What `gpu_driver_choice.choose` returned.
        source: `distribution` or `vendor`.
        needed_bytes: Room that an installation needs, by folder.
        pins: Requested exact versions, by package.
        replace: Whether a driver of another branch or archive may be replaced.
        uninstall_run: Whether NVIDIA's own uninstaller may be run.
        key_enrolled: Whether the key that DKMS signs with is enrolled, or does not matter here.
    """
    names = [*choice["driver_packages"], *choice["same_version_packages"], *choice["other_packages"]]
    return [
        *choice["refusals"],
        *gpu_driver_replace.refusals(facts, choice, source, pins, replace, uninstall_run),
        *_room(facts, needed_bytes, bool(missing_packages(facts, names))),
        *_refuse_unsigned(facts, choice, key_enrolled),
    ]


def _is_signed_build(facts: Facts) -> bool:
    """Say whether what DKMS built for the running kernel is signed; what came prebuilt does not count."""
    return any(
        one["kernel"] == facts.get("kernel") and one.get("signer") and "/updates/" in str(one["path"])
        for one in facts["driver"]["installed"]
    )


def _refuse_unsigned(facts: Facts, choice: Choice, key_enrolled: bool) -> list[dict[str, str]]:
    """Refuse a module that Secure Boot would not load: after the next boot the node would have no driver."""
    if not facts.get("secure_boot") or choice.get("prebuilt") or key_enrolled or _is_signed_build(facts):
        return []
    text = (
        "Secure Boot is on, and a module that is built on the node loads only when it is signed with a key "
        f"of this machine's. Fix: {_MOK_STEPS}, then set nvidia_driver_secure_boot_key_enrolled: true; or "
        "switch Secure Boot off; or, on Ubuntu, take modules that it signed: nvidia_driver_prebuilt: true."
    )
    return [{"code": "secure_boot", "text": text}]


def findings(facts: Facts, choice: Choice) -> list[dict[str, str]]:
    """Return what a person should know before the act, `code` and `text` each."""
    found = list(choice["findings"])
    if facts.get("nouveau"):
        text = (
            "Nouveau is loaded and holds the GPUs: it is kept from loading, and NVIDIA's driver takes them "
            "at the next boot."
        )
        found.append({"code": "nouveau", "text": text})
    if facts.get("secure_boot") and not choice.get("prebuilt"):
        text = (
            "Secure Boot is on: the module loads while the key that DKMS signs with is enrolled (`mokutil "
            "--test-key FILE` on the node tells it)."
        )
        found.append({"code": "secure_boot", "text": text})
    if facts.get("secure_boot") is None:
        text = "EFI does not say whether Secure Boot is on (no efivars): an unsigned module may not load."
        found.append({"code": "secure_boot_unknown", "text": text})
    return found + _below_minimum(facts)


def _below_minimum(facts: Facts) -> list[dict[str, str]]:
    """Return what the node has now that is below the minimum version: driver, CUDA and DCGM."""
    packages = {name: one["version"] for name, one in (facts.get("packages") or {}).items()}
    compared = minimum_versions.compare_packages(packages)
    if loaded := facts["driver"].get("loaded"):
        compared.insert(0, minimum_versions.compare("nvidia_driver", str(loaded)))
    return [
        {
            "code": "below_minimum",
            "text": f"{one.text}; it is on the node now (table of {minimum_versions.READ})",
        }
        for one in dict.fromkeys(compared)
        if one.state == minimum_versions.BELOW
    ]


def unbuilt_kernels(facts: Facts, choice: Choice, own_kernel: bool) -> list[dict[str, str]]:
    """Return the kernels that have no module of the chosen branch and flavour, each with the reason.

    Args:
        facts: What `gpu_info` returned after the installation.
        choice: What was chosen.
        own_kernel: Whether the running kernel is the node's own; a container's is its host's.
    """
    prebuilt = bool(choice.get("prebuilt"))
    wanted = {one["kernel"] for one in facts.get("kernels") or [] if one["headers"] and not prebuilt}
    running = facts.get("kernel")
    if own_kernel:
        # Also without headers: no module is built for it, but it can still boot.
        wanted.update(one for one in (running, facts.get("next_kernel")) if one)
    missing = []
    for kernel in sorted(wanted):
        there = [one for one in facts["driver"]["installed"] if one["kernel"] == kernel]
        good = [one for one in there if branch_of(str(one["version"])) == choice["branch"]]
        if any(one["flavour"] == choice["flavour"] for one in good):
            continue
        headers = any(one["kernel"] == kernel and one["headers"] for one in facts.get("kernels") or [])
        if good:
            why = f"its module of branch {choice['branch']} is not the {choice['flavour']} one"
        elif there:
            versions = ", ".join(sorted(str(one["version"]) for one in there))
            why = f"it has {versions}, not branch {choice['branch']}"
        elif prebuilt:
            modules = [name for name in choice["driver_packages"] if name.endswith(f"-{running}")]
            names = " ".join(name[: -len(str(running))] + kernel for name in modules)
            why = f"install {names}, or boot a kernel that has its modules"
        elif headers:
            why = "DKMS built no module: `dkms status` and make.log below /var/lib/dkms say why"
        else:
            why = f"it has no headers: install linux-headers-{kernel}, or boot a kernel that has them"
            why += "" if kernel == running else " (this one boots next)"
        missing.append({"kernel": kernel, "why": why})
    return missing


def unsigned(facts: Facts, choice: Choice, own_kernel: bool) -> list[str]:
    """Return the sentences about modules of the chosen branch without a signature, where Secure Boot is on.

    Whether the key of one that is signed is enrolled is not seen here.
    """
    if not (own_kernel and facts.get("secure_boot")):
        return []
    return [
        f"the module for kernel {one['kernel']} is not signed, and Secure Boot is on: have DKMS sign it "
        "(mok_signing_key in /etc/dkms/framework.conf) and install it again (`dkms install --force`)"
        for one in facts["driver"]["installed"]
        if branch_of(str(one["version"])) == choice["branch"] and not one.get("signer")
    ]


def upstream(version: str) -> str:
    """Return a package's version without epoch and packager's revision: `1:580.95.05-1~x` is 580.95.05."""
    return version.rpartition(":")[2].partition("-")[0]


def version_differences(facts: Facts, choice: Choice) -> list[str]:
    """Return the sentences about what must be of exactly the driver's version and is not.

    A module beside libraries of another version answers "Driver/library version mismatch"; a Fabric Manager
    of another version does not start.
    """
    there = facts.get("packages") or {}
    libraries = [name for name in sorted(there) if _LIBRARIES.match(name)]
    if not libraries:
        return []
    version = upstream(str(there[libraries[0]]["version"]))
    found = [
        f"{name} is {upstream(str(there[name]['version']))}, {libraries[0]} is {version}"
        for name in [*libraries[1:], *choice["same_version_packages"]]
        if name in there and upstream(str(there[name]["version"])) != version
    ]
    installed = facts["driver"]["installed"]
    modules = {str(one["version"]) for one in installed if one["flavour"] == choice["flavour"]}
    found += [f"the module is {one}, {libraries[0]} is {version}" for one in sorted(modules - {version})]
    return found


def waits(facts: Facts, may_load: bool) -> list[dict[str, str]]:
    """Return what needs a confirmation, for the module `waits`: `what`, `why`, `needs` each."""
    driver = facts["driver"]
    if driver["pending"]:
        return [{"what": "NVIDIA driver", "why": str(driver["pending_why"]), "needs": "reboot"}]
    for_running = [one for one in driver["installed"] if one["kernel"] == facts.get("kernel")]
    if may_load and driver["loaded"] is None and for_running and facts.get("gpus"):
        why = f"{for_running[0]['version']} is installed for the running kernel and not loaded"
        return [{"what": "NVIDIA driver", "why": why, "needs": "module_restart"}]
    return []

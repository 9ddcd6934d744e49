#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what apt's words mean is in module_utils/apt/source.py, whose key it is in openpgp.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_source_trial
short_description: Try an apt source without adding it to apt
version_added: "0.3.0"
description:
  - Checks a repository's key against its fingerprint, fetches the repository's lists into a folder of
    its own, which is removed again, and checks whether it has the pinned versions and goes with the node's
    other sources.
  - The node's sources, keys and lists stay as they are. Fails with the cause where the repository is
    not usable.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  name:
    description: The file's name in C(/etc/apt/sources.list.d), without folder. One that is there is left out.
    type: str
    required: true
  source:
    description: The source as it would be written, in the form of deb822, with its C(Signed-By).
    type: str
    required: true
  key:
    description: The repository's public key, ASCII-armoured.
    type: str
    required: true
  fingerprint:
    description: The key's full fingerprint.
    type: str
    required: true
  pins:
    description: What the repository must have.
    type: list
    elements: dict
    default: []
    suboptions:
      packages:
        description: Names of packages; patterns are not allowed.
        type: list
        elements: str
        required: true
      version:
        description: The version, or a pattern as in apt's preferences.
        type: str
      release:
        description: A release as in apt's preferences; not used here.
        type: str
      priority:
        description: The priority; not used here.
        type: int
  timeout_s:
    description: Seconds that one connection may take to answer, and a fifth of what the whole may take.
    type: int
    default: 20
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Try the vendor's repository
  railyard.fabric.apt_source_trial:
    name: railyard-doca.sources
    source: |
      Types: deb
      URIs: https://mirror.example.com/doca
      Suites: ./
      Signed-By: /etc/apt/keyrings/railyard-doca.asc
    key: "{{ lookup('ansible.builtin.file', 'doca.asc') }}"
    fingerprint: 0123456789ABCDEF0123456789ABCDEF01234567
"""

RETURN = r"""
offered:
  description: The versions that the repository has of each pinned package.
  returned: success
  type: dict
  sample: {"doca-ofed": ["3.2.0-046000"]}
"""

import glob
import os
import re
import shutil
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.apt import openpgp, source
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import apt_get

ENVIRONMENT = {"LC_ALL": "C", "LANGUAGE": "C"}
SOURCES = "/etc/apt/sources.list.d"
_WHOLE_PER_CONNECTION = 5
_TIMED_OUT = 124  # what coreutils' timeout exits with


def store(path: str, text: str) -> None:
    """Write a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def options(folder: str, sources: str, timeout_s: int) -> list[str]:
    """Return what keeps apt's every file in `folder`, with the sources of the folder `sources`."""
    settings = {
        "Dir::Etc::sourceparts": sources,
        "Dir::State::lists": f"{folder}/lists",
        "Dir::Cache": f"{folder}/cache",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": f"{folder}/preferences",
        # Root's own folder is not apt's user's to read.
        "APT::Sandbox::User": "root",
        # Without it apt takes a repository that it could not fetch for one that has not changed.
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
        "Acquire::Retries": "0",
        "Acquire::http::Timeout": str(timeout_s),
        "Acquire::https::Timeout": str(timeout_s),
    }
    return [f"-o{key}={value}" for key, value in settings.items()]


def prepare(module: AnsibleModule, folder: str) -> None:
    """Make the folders, the candidate with its key, and the node's sources with the candidate among them."""
    p = module.params
    for name in ("lists/partial", "cache/archives/partial", "preferences", "alone", "all"):
        os.makedirs(os.path.join(folder, name))
    store(f"{folder}/key.asc", openpgp.one_key(p["key"])[1])
    alone = re.sub(r"(?m)^Signed-By:.*$", f"Signed-By: {folder}/key.asc", p["source"])
    store(f"{folder}/alone/{p['name']}", alone)
    for path in glob.glob(f"{SOURCES}/*.list") + glob.glob(f"{SOURCES}/*.sources"):
        if os.path.basename(path) != p["name"]:
            shutil.copy(path, f"{folder}/all")
    store(f"{folder}/all/{p['name']}", p["source"])


def try_it(module: AnsibleModule, folder: str) -> dict[str, list[str]]:
    """Let apt try the candidate; return what it offers. Fails the module where it is not usable."""
    p = module.params
    prepare(module, folder)
    beside = options(folder, f"{folder}/all", p["timeout_s"])
    code, out, error = module.run_command(["apt-get", "indextargets", *beside], environ_update=ENVIRONMENT)
    if code != 0:
        module.fail_json(msg=source.explain(f"{out}\n{error}"))
    alone = ["-oDir::Etc::sourcelist=/dev/null", *options(folder, f"{folder}/alone", p["timeout_s"])]
    whole_s = p["timeout_s"] * _WHOLE_PER_CONNECTION
    argv = ["timeout", "--kill-after=5", str(whole_s), "apt-get", "--quiet", "update", *alone]
    code, out, error = module.run_command(argv, environ_update=ENVIRONMENT)
    if code == _TIMED_OUT:
        error = f"E: the connection timed out: no lists after {whole_s} s"
    if code != 0:
        module.fail_json(msg=source.explain(f"{out}\n{error}"))
    names = source.plain_names(p["pins"])
    if not names:
        return {}
    out = module.run_command(["apt-cache", "madison", *alone, *names], environ_update=ENVIRONMENT)[1]
    offered: dict[str, list[str]] = apt_get.parse_madison(out)
    problems = source.missing_versions(p["pins"], offered)
    if problems:
        module.fail_json(msg=" | ".join(problems), offered=offered)
    return offered


def main() -> None:
    """Run the module."""
    pin = {
        "packages": {"type": "list", "elements": "str", "required": True},
        "version": {"type": "str"},
        "release": {"type": "str"},
        "priority": {"type": "int"},
    }
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "source": {"type": "str", "required": True},
            # The public half of a key is no secret.
            "key": {"type": "str", "required": True, "no_log": False},
            "fingerprint": {"type": "str", "required": True},
            "pins": {"type": "list", "elements": "dict", "default": [], "options": pin},
            "timeout_s": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    problems = source.check_key(module.params["key"], module.params["fingerprint"])
    if problems:
        module.fail_json(msg=" | ".join(problems))
    folder = tempfile.mkdtemp(prefix="railyard-apt-")
    result: dict[str, t.Any] = {"changed": False}
    try:
        result["offered"] = try_it(module, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

"""Packages that a VM's image keeps at hand, so that an emulated node need not search and fetch them.

apt reads all 60,000 entries of its lists at each call, which takes an emulated node about five seconds. The
image keeps only the entries of what is installed and of the cached packages, and these packages' files. What
they do to the node stays a real transaction of apt. For another package, fetch the lists first,
as on any node whose lists are old.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_SCRIPT = "/usr/local/sbin/railyard-lab-keep-packages"
# Runs while the image is made. `apt-get update` takes a list for current where the old InRelease has the same
# hash of it as the new one, or is not older; so the hashes and its time go.
_KEEP = """\
#!/usr/bin/python3
import glob
import os
import re
import subprocess
import sys

import apt_pkg

subprocess.run(
    ["apt-get", "install", "--download-only", "--yes", "--no-install-recommends", *sys.argv[1:]], check=True
)
apt_pkg.init()
apt_pkg.config.set("APT::Install-Recommends", "0")
cache = apt_pkg.Cache(None)
wanted = apt_pkg.DepCache(cache)
for name in sys.argv[1:]:
    wanted.mark_install(cache[name], True)
kept = {package.name for package in cache.packages if package.current_ver or wanted.marked_install(package)}
for path in glob.glob("/var/lib/apt/lists/*_Packages"):
    with open(path, encoding="utf-8") as file:
        entries = file.read().split("\\n\\n")
    with open(path, "w", encoding="utf-8") as file:
        for entry in entries:
            if entry and entry.split("\\n", 1)[0].removeprefix("Package: ") in kept:
                file.write(entry.strip("\\n") + "\\n\\n")
for path in glob.glob("/var/lib/apt/lists/*InRelease"):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"(?m)^ \\S+ +\\d+ \\S*/Packages\\S*\\n", "", text))
    os.utime(path, (0, 0))
for path in glob.glob("/var/cache/apt/*.bin"):
    os.unlink(path)
"""


def files(packages: Sequence[str]) -> tuple[tuple[str, int, str], ...]:
    """Return the files that the image needs for `setup`: path, mode, text."""
    return ((_SCRIPT, 0o755, _KEEP),) if packages else ()


def setup(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the hooks that download the packages and cut apt's lists; see `bootstrap.Recipe.setup`."""
    if not packages:
        return ()
    return (f'chroot "$1" {_SCRIPT} {shlex.join(packages)}', f'rm "$1"{_SCRIPT}')

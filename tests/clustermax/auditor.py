"""ClusterMAX's auditor on a node of a lab: brought there, run without a route, and its statuses read.

It sends the node's public address to a third party and may change a GPU's boost setting, so that it runs in a
network namespace of its own, on nodes of a lab alone. No playbook of Railyard starts it.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from e2e.support import Cluster

HERE = Path(__file__).parent
FOLDER, RUNS = "/opt/clustermax", "/root/clustermax-runs"
# What it needs of a node's distribution; there before the first audit, so that it is in all of them.
NODE_PACKAGES = "jq python3-yaml pciutils sudo util-linux"
LIMIT_S = 300
# The statuses, by the auditor's own functions: its exit status is 0 also where checks fail.
READ = f"""\
import glob, json, sys
from pathlib import Path
from cmax import audit_report, security
newest = sorted(glob.glob("{RUNS}/lab/*/audit/audit.values.json"))[-1]
values = json.loads(Path(newest).read_text())
root = security.find_runtime_root(None)
checks = audit_report.evaluate(values, root, harness="standalone", environment=sys.argv[1])
print("STATUSES " + json.dumps({{one.key: one.status for one in checks}}))
"""
RUN = f"""\
#!/bin/sh
# A network namespace without a route: not even loopback is up.
set -u
export HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PYTHONPATH={FOLDER} PYTHONDONTWRITEBYTECODE=1 CLUSTERMAX_RUNS_ROOT={RUNS} CLUSTER_SLUG=lab
rm -rf {RUNS}
unshare --net timeout {LIMIT_S} python3 -c 'from cmax.cli import main; import sys; sys.exit(main())' \
  audit --"$1" -y >/root/clustermax.log 2>&1 </dev/null
echo "the auditor ended with $?" >>/root/clustermax.log
unshare --net python3 {FOLDER}/read.py "$1" || tail -n 40 /root/clustermax.log
"""


def wheels(folder: Path) -> bytes:
    """Return the auditor and what it imports as an archive, downloaded by hash.

    Raises:
        subprocess.CalledProcessError: pip could not get them.
    """
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    pip += ["--require-hashes", "--dest", str(folder), "--requirement", str(HERE / "requirements.txt")]
    subprocess.run(pip, check=True, timeout=300)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for wheel in sorted(folder.glob("*.whl")):
            with zipfile.ZipFile(wheel) as content:
                for name in content.namelist():
                    _add(archive, name, content.read(name))
        _add(archive, "read.py", READ.encode())
        _add(archive, "run", RUN.encode())
    return packed.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    if not name.endswith("/"):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o755
        archive.addfile(entry, io.BytesIO(data))


def install(cluster: Cluster, node: str, packed: bytes) -> None:
    """Bring the auditor to a node."""
    packages = f"sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y install {NODE_PACKAGES}"
    cluster.ssh(node, f"sudo apt-get -q update && {packages}", timeout=600)
    cluster.send(node, packed, f"sudo mkdir -p {FOLDER} && sudo tar -xz --no-same-owner -C {FOLDER} -f -")


def statuses(cluster: Cluster, node: str, kind: str) -> dict[str, str]:
    """Run an audit and return check -> `pass`, `warning`, `fail` or `skipped`.

    Args:
        cluster: whose node is audited.
        node: its name.
        kind: `vm` or `container`, which the auditor gets.
    """
    told = cluster.ssh(node, "sudo", f"{FOLDER}/run", kind, timeout=2 * LIMIT_S)
    line = next((line for line in told.splitlines() if line.startswith("STATUSES ")), None)
    assert line is not None, told[-4000:]
    found: dict[str, str] = json.loads(line.removeprefix("STATUSES "))
    return found

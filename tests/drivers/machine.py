"""A virtual machine that boots what its own GRUB takes, and has what modules are built with."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from pathlib import Path

from e2e.support import BIN, ROOT, Cluster, edited, write_lab
from railyard.lab.nodes.vm import VmKind
from railyard.lab.topology import BASE_PACKAGES

NODE = "gpuserver1"
# Emulated, one build with gcc or one initramfs takes minutes.
PATIENCE_S = 1200
LOOK_EVERY_S = 2


@dataclasses.dataclass
class Machine:
    """The node, and the kernels that it has in the course of the tests."""

    cluster: Cluster
    kind: VmKind
    first: str = ""
    node: str = NODE

    @property
    def second(self) -> str:
        """The same kernel in Debian's flavour for clouds: small, and later in GRUB's order.

        It shares the headers that all flavours have in common, the greater part.
        """
        return self.first.removesuffix("amd64") + "cloud-amd64"

    def sh(self, *command: str, check: bool = True) -> str:
        """Run a command as root; a slow one is no failure."""
        return self.cluster.ssh(NODE, "sudo", *command, check=check, timeout=PATIENCE_S).strip()

    def install(self, package: str) -> str:
        """Install a package by hand, as anybody might."""
        apt = ("apt-get", "-qy", "--no-install-recommends", "install", package)
        return self.sh("DEBIAN_FRONTEND=noninteractive", *apt)

    def playbook(self, path: str | Path, **variables: object) -> tuple[int, str]:
        """Run a playbook with extra variables; return how it ended and what it printed, in one line.

        Ended at once where the machine's console is at a prompt.
        """
        argv = [BIN / "ansible-playbook", "-i", self.cluster.inventory, path, "-e", json.dumps(variables)]
        stands_at, deadline = self.kind.watch(NODE), time.monotonic() + PATIENCE_S
        with self.cluster.log.open("w+", encoding="utf-8") as log:
            with subprocess.Popen(
                [str(word) for word in argv],
                cwd=ROOT,
                env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process:
                while process.poll() is None and not stands_at() and time.monotonic() < deadline:
                    time.sleep(LOOK_EVERY_S)
                ended = process.poll()
                process.terminate()
            log.seek(0)
            said = log.read()
        print(said, self.kind.last_output(NODE))
        assert ended is not None, f"after {PATIENCE_S} s, or at {stands_at()!r}, {path} had not ended"
        return ended, " ".join(said.split())

    def reboot(self, **variables: object) -> tuple[int, str]:
        """Request a reboot, with the opt-in."""
        return self.playbook(
            "playbooks/reboot.yml", railyard_allow_reboot=True, railyard_reboot_timeout_s=600, **variables
        )

    def boot_id(self) -> str:
        return self.sh("cat", "/proc/sys/kernel/random/boot_id")

    def loaded(self, module: str) -> bool:
        """Whether the module is loaded."""
        return any(line.split()[0] == module for line in self.sh("cat", "/proc/modules").splitlines())


def lab_of(folder: Path) -> Cluster:
    """Write topology and inventory of a lab of one machine, with what DKMS needs in its image."""
    made = Cluster(folder, "dkms")
    write_lab(made, "198.18.94.", "vm", nodes=1)
    with edited(made.topology) as topology:
        topology["nodes"][NODE] |= {"cpus": 2, "memory_mib": 1024}
        topology["image"]["packages"] = [*BASE_PACKAGES, "dkms", "linux-headers-amd64"]
        topology["image"]["boot_loader"] = True
        # The tests install packages by hand, which an image with cached packages has cut out of apt's lists.
        topology["image"].pop("cached_packages", None)
    with edited(made.fabric_file) as variables:
        variables["fabric"] |= {"transport": "tcp", "cabling": "switched"}
        variables.pop("rdma_stack_provider")
    return made

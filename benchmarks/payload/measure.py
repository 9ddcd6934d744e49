"""How much of Railyard a module carries to a node: its size as Ansible sends it, beside that of ping.

python benchmarks/payload/measure.py [MODULE...]      # kB (1000 bytes), compressed as by default
"""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.executor import module_common
from ansible.parsing.dataloader import DataLoader
from ansible.plugins import loader
from ansible.template import Templar

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "collections" / "ansible_collections" / "railyard" / "fabric" / "plugins" / "modules"
PING = "ansible.builtin.ping"


def size_bytes(name: str) -> int:
    """Return the size of a module as it is sent, without arguments."""
    found = loader.module_loader.find_plugin_with_context(name)
    built = module_common.modify_module(
        module_name=name,
        module_path=found.plugin_resolved_path,
        module_args={},
        templar=Templar(DataLoader()),
        task_vars={"ansible_python_interpreter": "/usr/bin/python3"},
        module_compression="ZIP_DEFLATED",
    )
    return len(built.b_module_data)


def main() -> None:
    """Print a row a module, the largest first."""
    loader.init_plugin_loader([str(ROOT / "collections")])
    names = sys.argv[1:] or [f"railyard.fabric.{path.stem}" for path in sorted(MODULES.glob("*.py"))]
    # The modules of actions that never reach a node are there only for their documentation.
    ping = size_bytes(PING)
    rows = sorted(((size_bytes(name) - ping, name) for name in names), reverse=True)
    print("| module | kB | kB above ping |\n|---|---:|---:|")
    for above, name in [*rows, (0, PING)]:
        short = name.removeprefix("railyard.fabric.")
        print(f"| `{short}` | {(ping + above) / 1000:.0f} | {above / 1000:.0f} |")


if __name__ == "__main__":
    main()

"""`railyard new-inventory`: write an inventory folder that plans cleanly, or say what keeps it from that."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema

from railyard.base import options
from railyard.base.errors import UserError, numbered
from railyard.base.options import Wrong
from railyard.base.whole_file import whole_file
from railyard.new_inventory import files as new_inventory_files
from railyard.new_inventory import hosts_file, rails, who
from railyard.new_inventory import nodes as new_inventory_nodes
from railyard.new_inventory.wanted import Wanted
from railyard.plan import view

_TEMPORARY = ".railyard-new-"
# Option → least, most, and what to write.
_BOUNDS = {
    "rails": (1, rails.RAILS_MAX, f"write 1 to {rails.RAILS_MAX}"),
    "nodes_per_unit": (1, math.inf, "write how many nodes share their leaves, as 32"),
    "rate_gbps": (0.001, schema.RATE_MAX_GBPS, "write the link's rate in Gbit/s, as 400"),
    "leaf_uplink_gbps": (0.001, schema.UPLINK_MAX_GBPS, "write the leaf's uplinks in Gbit/s"),
}


def run(wanted: Wanted, folder: Path | None) -> int:
    """Write the inventory and say where it is and what was assumed.

    Args:
        wanted: the options.
        folder: where to write it; None for a folder below `inventories/` that is called as the nodes are.

    Returns:
        0.

    Raises:
        UserError: the folder exists or cannot be written, or the options make no inventory that
            preflight would take. Then nothing was written.
    """
    listed = who.listed(wanted)
    first = (listed[0].name or "").rstrip("0123456789") if listed else wanted.nodes or ""
    target = _target(first, folder)
    contents = compose(wanted, target.name, listed)
    write(target, new_inventory_files.files(contents))
    print(f"Written: {target}")
    for text in contents.rails.assumed:
        print(f"  assumed: {text}")
    print(f"Next: railyard plan -i {shlex.quote(str(target))}")
    return 0


def compose(
    wanted: Wanted, name: str, listed: Sequence[hosts_file.ListedHost] = ()
) -> new_inventory_files.Contents:
    """Decide all that the inventory will say.

    Args:
        wanted: the options.
        name: of the folder.
        listed: the nodes of `--hosts-from`, in place of `--nodes`.

    Raises:
        UserError: options that are wrong or do not fit together, all of them.
    """
    wrong = _out_of_range(wanted)
    if listed:
        nodes, wrong_names = who.of_list(wanted, listed)
        wanted = who.with_common_user(wanted, listed)
    else:
        nodes, wrong_names = new_inventory_nodes.unfold(wanted.nodes or "", wanted.nodes_per_unit)
    wrong += wrong_names
    if wrong or not nodes:
        raise _refused(wrong)
    units = list(dict.fromkeys(node.scalable_unit for node in nodes if node.scalable_unit is not None))
    largest = max(Counter(node.scalable_unit for node in nodes).values())
    made = rails.make(wanted, units, largest)
    host_offset = wanted.host_offset or 0
    if any(rails.subnets_of(item) for item in made.items):
        nodes, host_offset = new_inventory_nodes.number(nodes, made.lowest, made.highest, wanted.host_offset)
    typed = wanted.nodes or ",".join(node.name for node in nodes)
    reached, wrong_reach = list(nodes), list[Wrong]()
    if not listed:
        reached, wrong_reach = new_inventory_nodes.reach(nodes, wanted.ansible_host, typed)
        made.assumed += who.counted_up(reached, wanted.ansible_host)
    if not wrong_reach:
        reached, wrong_reach = new_inventory_nodes.add_bmcs(reached, wanted.bmc_address, typed)
    if made.wrong or wrong_reach:
        raise _refused([*made.wrong, *wrong_reach])
    mtu = wanted.mtu
    if mtu is None and wanted.transport not in WITHOUT_IP:
        mtu = rails.DEFAULT_MTU_BYTES
    return new_inventory_files.Contents(name, wanted, reached, made, host_offset, mtu)


def write(target: Path, files: dict[str, str], *, into_existing: bool = False, generated: str = "") -> None:
    """Put a folder of files in place as a whole, after preflight's own checks have passed it.

    Args:
        target: the folder; nothing may be there.
        files: path below it → text.
        into_existing: whether the folder may be there. Then each file is put in place as a whole, also over
            one that is there, and preflight checks them together with the folder's other files.
        generated: a pattern, as `group_vars/made_*.yml`. What matches it in an existing folder and is not
            among `files` is removed.

    Raises:
        UserError: something is there, it cannot be written, or preflight refuses it.
    """
    if not into_existing:
        _refuse_existing(target)
    beside = next(parent for parent in target.parents if parent.is_dir())
    workplace = None
    try:
        # On the same filesystem, so that the last step is one rename: all of it is there, or nothing.
        workplace = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=beside))
        draft = workplace / target.name
        if target.is_dir():
            shutil.copytree(target, draft, ignore_dangling_symlinks=True)
            _remove_obsolete(draft, files, generated)
        for name, text in files.items():
            file = draft / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        _refuse_unsound(draft, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        if into_existing and target.is_dir():
            _replace_files(target, files)
            _remove_obsolete(target, files, generated)
            return
        _refuse_existing(target)
        try:
            draft.rename(target)
        except OSError as error:
            # Another process may have written to that folder since the line above.
            raise (_existing(target) if os.path.lexists(target) else error) from error
    except OSError as error:
        message = f"{target} cannot be written: {error.strerror or error}"
        raise UserError(message, "make room or give write permission, or name another folder") from error
    finally:
        if workplace is not None:
            shutil.rmtree(workplace, ignore_errors=True)


def _target(nodes: str, folder: Path | None) -> Path:
    if folder is None:
        letters = "".join(character for character in nodes.split("[", 1)[0] if character.isalnum())
        folder = Path("inventories") / (letters.lower()[:32] or "new")
    target = absolute(folder)
    _refuse_existing(target)
    return target


def absolute(folder: Path) -> Path:
    """Return where an inventory is to be written.

    Raises:
        UserError: its name can be no cluster's.
    """
    target = Path(os.path.abspath(folder.expanduser()))
    if not target.name.strip() or not target.name.isprintable():
        raise UserError(
            f"{str(folder)!r} is not a name for an inventory", "name a folder, as inventories/mine"
        )
    return target


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise _existing(target)


def _existing(target: Path) -> UserError:
    fix = "name another folder, or move that one away; nothing is ever overwritten"
    return UserError(f"{target} is there already", fix)


def _replace_files(target: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file, mode=0o644) as stream:
            stream.write(text.encode())


def _remove_obsolete(folder: Path, files: dict[str, str], generated: str) -> None:
    for path in folder.glob(generated) if generated else ():
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()


def _refuse_unsound(draft: Path, target: Path) -> None:
    """Load, check and plan the draft as preflight does."""
    _plan, problems = view.plan_or_problems([str(draft)])
    if problems:
        place = f"{draft.parent.name}{os.sep}"
        texts = [problem.text().replace(place, "") for problem in problems]
        raise UserError(numbered(f"in what {target} would say; nothing was written", texts))


def _out_of_range(wanted: Wanted) -> list[Wrong]:
    """Return errors in numbers that are used before preflight's checks see them."""
    wrong = options.out_of_range(wanted, _BOUNDS)
    if wanted.leaf_uplink_gbps is not None and wanted.leaf is None:
        wrong.append(("--leaf-uplink-gbps", "no leaf is named", "give --leaf as well"))
    known = new_inventory_files.overlays()
    if wanted.overlay is not None and wanted.overlay not in known:
        wrong.append(
            ("--overlay", f"there is no overlay {wanted.overlay!r}", f"write one of {', '.join(known)}")
        )
    if wanted.user is not None and not new_inventory_nodes.is_login_name(wanted.user):
        what = f"{wanted.user!r} is not a user name"
        wrong.append(("--user", what, "write one without blanks, as ubuntu"))
    return wrong


def _refused(wrong: Sequence[Wrong]) -> UserError:
    return options.refused(wrong, who.REFUSED)

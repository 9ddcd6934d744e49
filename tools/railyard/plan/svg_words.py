"""Write the text of a plan's drawing: its heading, and a description for screen readers."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.railyard.fabric.plugins.plugin_utils.present.wording import count

from railyard.plan import svg_model

_TRANSPORTS = {
    "roce": "RoCE",
    "infiniband": "InfiniBand",
    "efa": "EFA",
    "tcp": "TCP only",
    "mixed": "mixed transports",
}
#: The text in place of a port where a node has none on a rail.
NO_RAIL = "no such rail"
_TBIT_GBPS = 1000  # from here on, Tbit/s are easier to read


def rate(gbps: float) -> str:
    """Write a rate: `400 Gbit/s`, `12.8 Tbit/s`."""
    return f"{gbps:g} Gbit/s" if gbps < _TBIT_GBPS else f"{gbps / 1000:.4g} Tbit/s"


def oversubscribed(times: float) -> str:
    """Write an oversubscription: `oversubscribed 2:1`."""
    return f"oversubscribed {times:.3g}:1" if times > 1 else "not oversubscribed"


def ways(leaf: svg_model.Leaf) -> tuple[str, str, str] | None:
    """Write what goes down and up from a leaf, and its oversubscription; None where that is not known."""
    if leaf.oversubscription is None:
        return None
    amounts = (
        (count(leaf.down_links, "link"), count(leaf.up_links, "link"))
        if leaf.up_links
        else (rate(leaf.down_gbps or 0), rate(leaf.up_gbps or 0))
    )
    return f"{amounts[0]} down", f"{amounts[1]} up", oversubscribed(leaf.oversubscription)


def above(spines: svg_model.Spines, leaves: int) -> str:
    """Write what is above the leaves: `2 spines, each with 8 links to each of 8 leaves`."""
    each = spines.links_per_leaf // spines.count
    what = "1 spine, with" if spines.count == 1 else f"{spines.count} spines, each with"
    return f"{what} {count(each, 'link')} to each of {leaves} leaves"


def named(band: svg_model.Band) -> str:
    """Write which scalable units and NVLink domains the nodes of a band are of, nothing where none is."""
    words = []
    for what, names in (("scalable unit", band.units), ("NVLink domain", band.nvlink_domains)):
        if names:
            words.append(f"{what}{'s' if len(names) > 1 else ''} {svg_model.folded(names)}")
    return ", ".join(words)


def headline(drawing: svg_model.Drawing) -> str:
    """Write the line below the title."""
    plan = drawing.plan
    nodes = plan["nodes"].values()
    counts = sorted({len(node["rails"]) for node in nodes})
    rails = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    mtus = sorted({rail["mtu"] for node in nodes for rail in node["rails"] if rail["mtu"] is not None})
    words = [
        f"{len(nodes)} nodes" if len(nodes) > 1 else "1 node",
        f"{rails} rail each" if counts == [1] else f"{rails} rails each",
        _TRANSPORTS.get(plan["transport"], plan["transport"]),
        {"back_to_back": "back to back"}.get(plan["cabling"], plan["cabling"]),
    ]
    words += [f"MTU {' and '.join(map(str, mtus))} bytes"] if mtus else []
    return ", ".join(words)


def describe(drawing: svg_model.Drawing) -> str:
    """Write all that the drawing shows as sentences."""
    return " ".join([f"{headline(drawing)}.", *_sentences(drawing)])


def _sentences(drawing: svg_model.Drawing) -> Iterator[str]:
    for band in drawing.bands:
        if names := named(band):
            yield f"{names[0].upper()}{names[1:]}:"
        for box in band.boxes:
            ports = "; ".join(
                _port(drawing, band, box, index) if port else f"{drawing.rails[index]} {NO_RAIL}"
                for index, port in enumerate(box.ports)
            )
            count = f" ({len(box.names)} nodes)" if len(box.names) > 1 else ""
            yield f"{box.label}{count}: {ports}."
    for leaf in drawing.leaves.values():
        if texts := ways(leaf):
            yield f"Leaf {leaf.name}: {', '.join(texts)}."
    if drawing.spines is not None:
        yield f"Above: {above(drawing.spines, len(drawing.leaves))}."
    if drawing.left_out:
        yield f"Not drawn: {svg_model.folded(drawing.left_out)}."


def _port(drawing: svg_model.Drawing, band: svg_model.Band, box: svg_model.Box, index: int) -> str:
    port = box.ports[index] or {}
    words = [drawing.rails[index]]
    words += [str(port[key]) for key in ("netdev", "hca") if port.get(key)]
    links = [link for link in band.links[index] if link]
    for key in ("subnet", "subnet6"):
        found = svg_model.networks(link[key] for link in links)
        words += [f"subnet {' '.join(found)}"] if found else []
        part = svg_model.part_of(links[0], key.removeprefix("subnet")) if links else None
        words += [part] if part else []
    if len(links) == 1:
        words += [f"gateway {links[0][key]}" for key in ("gateway", "gateway6") if links[0][key]]
    for version in (4, 6):
        found = svg_model.span(box.addresses[index], version)
        words += [f"addresses {' '.join(found)}"] if found else []
    words += [rate(port["rate_gbps"])] if port.get("rate_gbps") is not None else []
    words += [f"bond {port['bond']['mode']} of {' '.join(port['bond']['ports'])}"] if port.get("bond") else []
    words += [f"one wire with {port['shares_wire_with']}"] if port.get("shares_wire_with") else []
    leaves = [str(link["leaf"]) for link in links if link["leaf"]]
    words += [f"leaf {svg_model.folded(leaves)}"] if leaves else []
    return " ".join(words)

"""What the files of NCCL's and UCX's settings should say, from the plan; nothing is returned when all is so.

Pure, and it shares no code with what wrote them.
"""

from __future__ import annotations

import ipaddress

from end_state.expect import Options, Plan, Problems, Reading, gid_ip
from end_state.expect_rdma import port_name

# What asks for a file.
_FORMS = {
    "/etc/nccl.conf": "conf",
    "/etc/railyard/nccl.env": "env",
    "/etc/enroot/environ.d/60-railyard-nccl.env": "enroot",
}


# The name of a plugin's network in NCCL, and what Google's ask for the rails' netdevs and the frontend's.
_NETWORKS = {"efa": "Libfabric", "tcpx": "GPUDirectTCPX_v7", "tcpxo": "FasTrak"}
_GOOGLE = {
    "tcpx": ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "NCCL_GPUDIRECTTCPX_CTRL_DEV"),
    "tcpxo": ("NCCL_FASTRAK_IFNAME", "NCCL_FASTRAK_CTRL_DEV"),
}


def nccl(node: Plan, options: Options, reading: Reading) -> Problems:
    """NCCL's profile names exactly the rails' HCAs and the frontend, and each of its files says the same."""
    expected = _profile(node, options, reading)
    if "nccl_profile_cross_nic" not in options and (
        node.get("cabling") == "mixed" or len(_rails(node, options)) == 1
    ):
        del expected["NCCL_CROSS_NIC"]  # with one rail it says nothing; what joins mixed ones no plan tells
    if node.get("cabling") == "mixed":
        expected.pop("NCCL_IB_TC")  # whether there is a switch between these nodes the plan does not say
    expected |= _site(options)
    forms = options.get("nccl_profile_forms", ["conf", "env"])
    problems = []
    for path, file in reading["nccl"].items():
        if _FORMS.get(path, "env") in forms:
            problems += _held(path, file, expected)
    if options.get("nccl_profile_ucx") and "env" in forms:
        problems += _held("/etc/railyard/ucx.env", reading["ucx"], _ucx(node, options, reading))
    return problems


def _held(path: str, file: Plan | None, expected: dict[str, str | None]) -> Problems:
    if file is None or file["text"] is None:
        return [f"{path} is missing"]
    found = _settings(file["text"])
    problems = [
        f"{path} has {name}={found.get(name)}, wanted is {value}"
        for name, value in expected.items()
        if found.get(name) != value
    ]
    if file["mode"] & 0o022 or file["owner"] != "root":
        problems.append(f"{path} can be written by others than root")
    return problems


def _rails(node: Plan, options: Options) -> list[Plan]:
    return list(options.get("nccl_profile_rails", node["rails"]))


def _site(options: Options) -> dict[str, str]:
    return {name: str(value) for name, value in options.get("nccl_profile_settings", {}).items()}


def _profile(node: Plan, options: Options, reading: Reading) -> dict[str, str | None]:
    """Each variable to look for, and its value; None where it must be absent."""
    transport = options.get("nccl_profile_transport", node["transport"])
    rails, overlays = _rails(node, options), options.get("nccl_profile_overlays", [])
    frontend = options.get("nccl_profile_socket_netdev", (node.get("frontend") or {}).get("netdev"))
    network = "Socket" if transport == "tcp" else "" if "sharp" in overlays else "IB"
    plugin = options.get("nccl_profile_net_plugin", "efa" if transport == "efa" else "")
    network = _NETWORKS.get(plugin, plugin) or network
    expected = {
        "NCCL_NET": options.get("nccl_profile_net", network) or None,
        "NCCL_NET_PLUGIN": _library(options) if plugin else None,
        "NCCL_IB_HCA": None,
        "NCCL_IB_ROCE_VERSION_NUM": None,
        "NCCL_IB_TC": None,
        "NCCL_CROSS_NIC": options.get("nccl_profile_cross_nic", _cross_nic(node, transport, rails, overlays))
        or None,
        "NCCL_SOCKET_IFNAME": f"={frontend}" if frontend else None,
    }
    hcas = [port_name(rail, reading) for rail in rails]
    if transport in ("roce", "infiniband") and hcas and None not in hcas:
        expected["NCCL_IB_HCA"] = "=" + ",".join(str(hca) for hca in hcas)
    v1_alone = _roce_v1_alone(rails, reading)
    if transport == "roce" and _is_old(options):
        if (index := _gid_index(rails, reading)) is not None:
            expected["NCCL_IB_GID_INDEX"] = index
    elif transport == "roce" and "NCCL_IB_GID_INDEX" not in _site(options):
        expected["NCCL_IB_ROCE_VERSION_NUM"] = "1" if v1_alone else None
    if transport == "roce" and not v1_alone:
        expected["NCCL_IB_TC"] = _marked(node, options)
    if transport == "infiniband":
        level = int(options.get("nccl_profile_service_level", 0))
        expected["NCCL_IB_SL"] = str(level) if level else None
        if pkey := options.get("nccl_profile_pkey"):
            expected["NCCL_IB_PKEY"] = _pkey_index(hcas, str(pkey), reading)
    if plugin in _GOOGLE:
        expected["NCCL_CROSS_NIC"] = options.get("nccl_profile_cross_nic", "0") or None
        netdevs = ",".join(str(rail["netdev"]) for rail in rails)
        expected |= zip(_GOOGLE[plugin], (netdevs, frontend), strict=True)
    bonds = [rail["bond"] for rail in rails if rail.get("bond")]
    spread = [len(bond["ports"]) for bond in bonds if bond["mode"] != "active-backup"]
    if spread and transport == "roce":
        expected["NCCL_IB_QPS_PER_CONNECTION"] = str(max(spread))
    if "debug" in overlays:
        expected["NCCL_DEBUG"] = "INFO"
    if "sharp" in overlays:
        expected["NCCL_COLLNET_ENABLE"] = "1"
    if "multi_rail" in overlays and transport == "tcp":
        names = (f"{rail['netdev']}.{rail['vlan']}" if rail.get("vlan") else rail["netdev"] for rail in rails)
        expected["NCCL_SOCKET_IFNAME"] = "=" + ",".join(names)
    elif "multi_rail" in overlays:
        expected["NCCL_IB_MERGE_NICS"] = "0"
    return expected


def _library(options: Options) -> str | None:
    """What NCCL is to open in place of libnccl-net.so."""
    library = str(options.get("nccl_profile_net_plugin_library", ""))
    return None if library in ("", "libnccl-net.so") else library


def _ucx(node: Plan, options: Options, reading: Reading) -> dict[str, str | None]:
    """UCX gets the same settings as NCCL, under its own names; its lists hold full names."""
    told = _profile(node, options, reading) | _site(options)
    devices = told["NCCL_IB_HCA"]
    if options.get("nccl_profile_transport", node["transport"]) == "tcp":
        devices = options.get("nccl_profile_socket_netdev", (node.get("frontend") or {}).get("netdev"))
    expected = {"UCX_NET_DEVICES": (devices or "").removeprefix("=") or None}
    # With what nothing is to be set, NCCL's own and UCX's numbers differ.
    for ours, theirs, nothing in (
        ("TC", "TRAFFIC_CLASS", "0"),
        ("GID_INDEX", "GID_INDEX", "-1"),
        ("SL", "SL", "0"),
    ):
        value = told.get(f"NCCL_IB_{ours}")
        expected[f"UCX_IB_{theirs}"] = None if value == nothing else value
    if node.get("cabling") == "mixed":
        del expected["UCX_IB_TRAFFIC_CLASS"]
    return expected


def _is_old(options: Options) -> bool:
    """Whether the oldest NCCL in use finds no GID itself, which it does from 2.21 on."""
    version = str(options.get("nccl_profile_version", ""))
    return bool(version) and [int(part) for part in version.split(".")[:2]] < [2, 21]


def _gid_index(rails: list[Plan], reading: Reading) -> str | None:
    """The index of the rails' addresses in the GID tables, of RoCE v2 where it is there; None: not known."""
    rows = []
    for rail in rails:
        planned = rail.get("address") or rail.get("address6")
        own = ipaddress.ip_interface(planned).ip if planned else None
        rows += [row for row in reading["gids"] if own and gid_ip(row["gid"]) == own]
    best = [row for row in rows if row["type"] == "RoCE v2"] or rows
    return str(min(int(row["index"]) for row in best)) if best else None


def _pkey_index(hcas: list[str | None], pkey: str, reading: Reading) -> str | None:
    """The index that a partition's full member key has in the ports' tables; None where it is not there."""
    wanted = int(pkey, 16) | 0x8000
    found = {
        row["index"]
        for row in reading["pkeys"]
        if f"{row['device']}:{row['port']}" in hcas and int(row["pkey"], 16) == wanted
    }
    return found.pop() if len(found) == 1 else None


def _roce_v1_alone(rails: list[Plan], reading: Reading) -> bool:
    """Whether a rail's address is in the GID tables, and as RoCE v1 alone: NCCL looks for v2."""
    for rail in rails:
        planned = rail.get("address") or rail.get("address6")
        own = ipaddress.ip_interface(planned).ip if planned else None
        if {row["type"] for row in reading["gids"] if own and gid_ip(row["gid"]) == own} == {"IB/RoCE v1"}:
            return True
    return False


def _cross_nic(node: Plan, transport: str, rails: list[Plan], overlays: list[str]) -> str | None:
    """No ring may change rails where nothing but a spine, or nothing at all, joins them."""
    leaves = {rail["leaf"] for rail in rails if rail.get("leaf")}
    apart = node.get("cabling") == "back_to_back" or len(leaves) == len(rails)
    by_rails = transport != "tcp" or "multi_rail" in overlays
    return "0" if apart and len(rails) > 1 and by_rails else None


def _marked(node: Plan, options: Options) -> str | None:
    """The traffic class that NCCL puts on its packets where a switch sorts them and the driver marks none."""
    switched = (node.get("node_class"), node.get("cabling")) == ("hardware", "switched")
    from_kernel = options.get("rdma_stack_provider", "inbox") == "inbox"
    unmarked = "traffic_class" in options.get("roce_qos_not_asked", ["traffic_class"] if from_kernel else [])
    asked = options.get("roce_qos_enabled", switched) and unmarked
    # DSCP above the two bits of ECN, which say ECT(0).
    marked = int(options.get("roce_qos_dscp", 26)) << 2 | 0b10 if asked else 0
    marked = int(options.get("nccl_profile_traffic_class", marked))
    return str(marked) if marked else None


def _settings(text: str) -> dict[str, str]:
    """Read nccl.conf as NCCL does: the first `=` splits, nothing is trimmed, `#` counts at the start only."""
    lines = [line for line in text.split("\n") if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)

"""The options of `new-inventory`, which the command line takes from here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option


@dataclass(frozen=True)
class Wanted:
    """The options of `new-inventory` as typed; None where not given. Each field is an option."""

    # Not given where `hosts_from` is; a default here would need one for rails and transport.
    nodes: Annotated[
        str | None,
        Option(
            default_factory=lambda: None,
            show_default=False,
            metavar="NODES",
            help="Folded names, as 'gpu[001-032]'.",
        ),
    ]
    rails: Annotated[int, Option(help="Rails of each node.")]
    transport: Annotated[str, Option(help="roce, infiniband, efa or tcp.")]
    hosts_from: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Instead of --nodes: a file with a line per node: name, address, and user where it differs.",
        ),
    ] = None
    supernet: Annotated[
        str | None, Option(help="Network that rails' subnets are cut from. Default: 10.224.0.0/12.")
    ] = None
    rail_prefix: Annotated[int | None, Option(help="Prefix length of a rail's subnet.")] = None
    subnets: Annotated[
        list[str] | None,
        Option("--subnet", help="A rail's subnet, once per rail, in place of a supernet."),
    ] = None
    netdev: Annotated[
        str | None, Option(help="Interfaces: 'ens{rail}', counting from 0, or ens6,ens6d1.")
    ] = None
    pci: Annotated[
        str | None,
        Option(help="PCI addresses of the ports, as `lspci -D` shows them: 0000:18:00.0,0000:40:00.0."),
    ] = None
    hca: Annotated[
        str | None, Option(help="RDMA devices, where nothing else names the port: 'mlx5_[0-3,6-9]'.")
    ] = None
    rate_gbps: Annotated[float | None, Option(help="Rate of a link in Gbit/s.")] = None
    mtu: Annotated[int | None, Option(help="MTU in bytes. Default: 9000, on InfiniBand and EFA none.")] = None
    gateway: Annotated[
        str | None, Option(help="first, last or none. Default: first with scalable units, else none.")
    ] = None
    host_offset: Annotated[int | None, Option(help="Added to each node's number. Default: what fits.")] = None
    nodes_per_unit: Annotated[int | None, Option(help="Nodes in a scalable unit.")] = None
    leaf: Annotated[
        str | None, Option(help="Switches: 'leaf{rail}', with units 'leaf-{unit}-{rail}', or names.")
    ] = None
    leaf_uplink_gbps: Annotated[float | None, Option(help="All uplinks of one leaf together, in Gbit/s.")] = (
        None
    )
    ansible_host: Annotated[
        str | None,
        Option(
            help="Where Ansible reaches the nodes: '{name}.example.org', '10.1.0.{index}', a list "
            "192.168.1.73,192.168.1.71 in the order of --nodes, or the first node's address, from which the "
            "others' are counted up."
        ),
    ] = None
    bmc_address: Annotated[
        str | None, Option(help="The BMCs' addresses, in the same forms; none may be one of --ansible-host.")
    ] = None
    user: Annotated[str | None, Option(help="Who Ansible logs in as.")] = None
    frontend: Annotated[str | None, Option(help="Interface that the nodes are reached over.")] = None
    cabling: Annotated[str | None, Option(help="switched or back_to_back.")] = None
    node_class: Annotated[str | None, Option(help="hardware, virtual or container.")] = None
    overlay: Annotated[
        str | None, Option(help="Further variables, as a file of their own: clustermax (docs/clustermax.md).")
    ] = None

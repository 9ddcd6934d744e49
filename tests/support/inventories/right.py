"""Right inventories of unusual forms: files, which of them goes to -i, and parts of the plan they give."""

from __future__ import annotations

from typing import NamedTuple

from support.inventories.sound import FABRIC, HOSTS, INFINIBAND, PAIR, UNITS
from support.inventories.sound import ROUTED as ROUTED_HOSTS

Planned = dict[tuple[str, str], dict[str, object]]


class Right(NamedTuple):
    """One inventory: path → text, what of each rail is planned, and the path for -i below its folder."""

    files: dict[str, str | bytes]
    planned: Planned
    source: str = ""


def rails(count, more=""):
    """Write that many rails, one /24 each, with `more` as further keys."""
    return "".join(
        f"    - {{name: rail{k}, netdev: ens{k}, subnet: 10.0.{k}.0/24{more}}}\n" for k in range(count)
    )


ROCE = "fabric:\n  transport: roce\n  mtu: 9000\n  rails:\n"
TWO = "gpu_nodes: {hosts: {gpu1: , gpu2: }}\n"
OLD = ROCE + rails(2)
NEW = OLD.replace("ens0", "enp9s0np0").replace("ens1", "enp10s0np0")
ROUTED = """\
fabric:
  transport: roce
  mtu: 9000
  rails:
    - name: rail0
      netdev: ens1
      gateway: first
      subnets: {gpu1: 10.0.0.0/31, gpu2: 10.0.0.2/31}
"""
SECOND = {("gpu2", "rail1"): {"address": "10.0.1.2/24", "mtu": 9000}}


def right(
    planned: Planned = SECOND,
    more: dict[str, str] | None = None,
    *,
    hosts: str | None = TWO,
    fabric: str | bytes | None = OLD,
    source: str = "",
) -> Right:
    """Return an inventory of two nodes and two rails, but for the given files; None: no such file."""
    files = {HOSTS: hosts, FABRIC: fabric, **(more or {})}
    return Right({path: text for path, text in files.items() if text is not None}, planned, source)


def hosts(**variables: str) -> str:
    """Write hosts.yml with so many hosts, each with its variables as flow YAML."""
    return "gpu_nodes:\n  hosts:\n" + "".join(f"    {name}: {one}\n" for name, one in variables.items())


RIGHT = {
    "netdevs_of_each_host": right(
        {
            ("gpu2", "rail2"): {"netdev": "ens1", "address": "10.0.2.2/24"},
            ("gpu1", "rail2"): {"netdev": "ens2"},
        },
        hosts=hosts(
            gpu1="",
            gpu2="{rail_overrides: {rail0: {netdev: a0}, rail1: {netdev: a1}, rail2: {netdev: ens1}}}",
        ),
        fabric=ROCE + rails(4),
    ),
    "ipv6_alone": right(
        {
            ("gpu1", "r"): {
                "address": None,
                "address6": "fd00:7::1/64",
                "gateway6": "fd00:7::ffff:ffff:ffff:ffff",
            }
        },
        fabric=ROCE + "    - {name: r, netdev: e, subnet6: 'fd00:7::/64', gateway: last}\n",
    ),
    "gateway_that_is_link_local": right(
        {
            ("gpu2", "r"): {
                "address6": "fd00:8::2/64",
                "gateway6": "fe80::1",
                "routes": [{"to": "fd00:7::/64", "via": "fe80::1"}, {"to": "fd01::/48", "via": "fe80::1"}],
            }
        },
        hosts=hosts(gpu1="{scalable_unit: a}", gpu2="{scalable_unit: b}"),
        fabric=ROCE + "    - {name: r, netdev: e, gateway: 'FE80::1', routes: ['fd01::/48'],\n"
        "       subnets6: {a: 'fd00:7::/64', b: 'fd00:8::/64'}}\n",
    ),
    "point_to_point": right(
        {("gpu1", "rail0"): {"address": "10.0.0.0/31"}, ("gpu2", "rail1"): {"address": "10.0.0.3/31"}},
        fabric="fabric:\n  transport: roce\n  mtu: 9000\n  host_offset: -1\n  rails:\n"
        "    - {name: rail0, netdev: e0, subnet: 10.0.0.0/31}\n"
        "    - {name: rail1, netdev: e1, subnet: 10.0.0.2/31}\n",
    ),
    "routed_to_the_host": right(
        {("gpu2", "rail0"): {"address": "10.0.0.3/31", "gateway": "10.0.0.2"}},
        hosts=hosts(**{name: f"{{scalable_unit: {name}, node_index: 1}}" for name in ("gpu1", "gpu2")}),
        fabric=ROUTED,
    ),
    # As in the pools of NVIDIA's Spectrum-X: the k-th /31 of a rail's network, the leaf has the first.
    "a_network_of_each_node": right(
        {
            ("gpu1", "rail0"): {"address": "10.40.0.3/31", "subnet": "10.40.0.2/31", "gateway": "10.40.0.2"},
            ("gpu2", "rail0"): {
                "address": "10.40.0.5/31",
                "routes": [{"to": "10.40.0.0/24", "via": "10.40.0.4"}],
            },
            ("gpu1", "rail1"): {"address": "10.41.0.2/31", "gateway": "10.41.0.3"},
            ("gpu2", "rail1"): {
                "address": "10.41.0.9/31",
                "gateway": "10.41.0.8",
                "routes": [{"to": "10.41.0.0/24", "via": "10.41.0.8"}],
            },
        },
        hosts=ROUTED_HOSTS[HOSTS],
        fabric=ROUTED_HOSTS[FABRIC],
    ),
    "a_bond_that_is_one_device": right(
        {
            ("gpu2", "rail0"): {
                "netdev": "bond0",
                "bond": {"mode": "802.3ad", "ports": ["ens1f0", "ens1f1"]},
                "table": None,
                "address": "10.0.0.2/24",
            },
            ("gpu2", "rail1"): {"netdev": "bond1", "bond": {"mode": "active-backup", "ports": ["a0", "a1"]}},
        },
        fabric=ROCE + "    - {name: rail0, netdev: bond0, bond: {mode: 802.3ad, ports: [ens1f0, ens1f1]},\n"
        "       subnet: 10.0.0.0/24, rate_gbps: 200}\n"
        "    - {name: rail1, netdev: bond1, subnet: 10.0.1.0/24,\n"
        "       bond: {mode: active-backup, ports: [a0, a1]}}\n",
    ),
    "a_rail_that_a_node_lacks": right(
        {("gpu2", "rail2"): {"netdev": "ens2", "address": "10.0.2.2/24", "table": 6102}},
        hosts=hosts(gpu1="", gpu2="{rail_overrides: {rail1: absent}}"),
        fabric=ROCE + rails(3),
    ),
    # Three servers in a ring of cables: each has a fabric of the two cables that end there.
    "a_triangle": right(
        {
            ("gpu1", "ca"): {"netdev": "ens2", "address": "10.0.3.1/24"},
            ("gpu3", "ca"): {"netdev": "ens2", "address": "10.0.3.3/24"},
            ("gpu3", "bc"): {"netdev": "ens1", "address": "10.0.2.3/24"},
        },
        {
            f"host_vars/{node}.yml": ROCE.replace("mtu", "cabling: back_to_back\n  mtu")
            + "".join(
                f"    - {{name: {cable}, netdev: ens{port}, subnet: 10.0.{cut}.0/24}}\n"
                for port, (cable, cut) in enumerate(ends, 1)
            )
            for node, ends in {
                "gpu1": (("ab", 1), ("ca", 3)),
                "gpu2": (("ab", 1), ("bc", 2)),
                "gpu3": (("bc", 2), ("ca", 3)),
            }.items()
        },
        hosts=hosts(gpu1="", gpu2="", gpu3=""),
        fabric=None,
    ),
    "a_gateway_of_one_node": right(
        {("gpu1", "rail0"): {"gateway": "10.0.0.254"}, ("gpu2", "rail0"): {"gateway": "10.0.0.9"}},
        hosts=hosts(gpu1="", gpu2="{rail_overrides: {rail0: {gateway: 10.0.0.9}}}"),
        fabric=ROCE + rails(2, ", gateway: last"),
    ),
    "a_mac_of_each_host": right(
        {
            ("gpu2", "rail0"): {"mac": "52:54:00:00:00:03", "netdev": None},
            ("gpu2", "rail1"): {"mac": "52:54:00:aa:bb:cc", "netdev": "ens1"},
        },
        hosts=hosts(
            gpu1="{rail_overrides: {rail0: {mac: '52:54:00:00:00:01'}, rail1: {mac: '52:54:00:00:00:02'}}}",
            gpu2="{rail_overrides: {rail0: {mac: '52:54:00:00:00:03', netdev: }, "
            "rail1: {mac: '52:54:00:AA:BB:CC'}}}",
        ),
    ),
    "macs_of_infiniband": right(
        {("gpu1", "rail0"): {"mac": "02:" * 19 + "02"}},
        hosts=hosts(gpu1="{rail_overrides: {rail0: {mac: '" + "02:" * 19 + "02'}}}"),
        fabric=INFINIBAND[FABRIC],
    ),
    "vlans": right(
        {("gpu1", "rail0"): {"vlan": 4000, "netdev": "ens0"}}, fabric=ROCE + rails(2, ", vlan: 4000")
    ),
    "two_ports_of_a_card": right(
        {("gpu2", "rail1"): {"hca": "mlx5_0:2", "address": "10.0.1.2/24"}},
        fabric=ROCE
        + "".join(
            f"    - {{name: rail{k}, hca: 'mlx5_0:{k + 1}', subnet: 10.0.{k}.0/24}}\n" for k in range(2)
        ),
    ),
    "two_ports_at_one_address": right(
        {("gpu2", "rail1"): {"pci": "0000:81:00.0", "netdev": "ens817d1", "address": "10.0.1.2/24"}},
        fabric=ROCE
        + "    - {name: rail0, pci: '0000:81:00.0', netdev: ens817, subnet: 10.0.0.0/24}\n"
        + "    - {name: rail1, pci: '0000:81:00.0', netdev: ens817d1, subnet: 10.0.1.0/24}\n",
    ),
    "two_generations": right(
        {
            ("gpu3", "rail1"): {"netdev": "ens1"},
            ("gpu5", "rail1"): {"netdev": "enp10s0np0", "address": "10.0.1.5/24"},
        },
        {"group_vars/old.yml": OLD, "group_vars/new/fabric.yml": NEW},
        hosts="gpu_nodes: {children: {old: {hosts: {'gpu[1:3]': }}, new: {hosts: {'gpu[4:5]': }}}}\n",
        fabric=None,
    ),
    "groups_in_groups": right(
        hosts="gpu_nodes: {children: {row1: }}\nrow1: {children: {rack1: , rack2: }}\n"
        "rack1: {hosts: {gpu1: }}\nrack2: {hosts: {gpu2: }}\nall: {vars: {x: 1}}\n",
    ),
    "range": right({("host32", "rail0"): {"address": "10.0.0.32/24"}}, hosts=hosts(**{"host[01:32]": ""})),
    "ini": right(
        more={
            "inventory": "[gpu_nodes]\ngpu1 ansible_host=192.168.0.1\n"
            "gpu2 ansible_host=192.168.0.2 node_index=2\n"
            "[gpu_nodes:vars]\nansible_user=ops\n",
        },
        hosts=None,
    ),
    "ini_file_given": right(
        more={
            "production": "[rack1]\ngpu[1:2]\n\n[gpu_nodes:children]\nrack1\n",
            "group_vars/gpu_nodes.yml": OLD,
            "host_vars/gpu77.yml": "node_index: 7\n",
        },
        hosts=None,
        fabric=None,
        source="production",
    ),
    "one_file": right(
        more={"site.yml": "all:\n  vars:\n    " + OLD.replace("\n", "\n    ").rstrip() + "\n" + TWO},
        hosts=None,
        fabric=None,
        source="site.yml",
    ),
    "json": right(
        more={
            "hosts.json": '{"gpu_nodes": {"hosts": {"gpu1": {}, "gpu2": {}}}}',
            "group_vars/all.json": '{"fabric": {"transport": "tcp", "mtu": 9000, "rails": '
            '[{"name": "rail1", "netdev": "e", "subnet": "10.0.1.0/24"}]}}',
        },
        hosts=None,
        fabric=None,
    ),
    "group_vars_yaml": right(more={"group_vars/all.yaml": OLD}, fabric=None),
    "group_vars_without_ending": right(more={"group_vars/all": OLD}, fabric=None),
    "folders_of_hosts": right(
        {("gpu2", "rail1"): {"netdev": "e1", "address": "10.0.1.2/24"}},
        {
            "host_vars/gpu2/net/rails.yml": "rail_overrides: {rail1: {netdev: e1}}\n",
            "host_vars/gpu2/index": "node_index: 2\n",
            "host_vars/gpu1/.old.yml": "node_index: 2\n",
            "host_vars/gpu1/index.yml~": "node_index: 2\n",
        },
    ),
    "ports_of_one_address": right(
        hosts=hosts(
            **{f"gpu{k}": f"{{ansible_host: 127.0.0.1, ansible_port: 220{k}}}" for k in (1, 2)},
        )
    ),
    "behind_jump_hosts_of_their_own": right(
        more={
            "group_vars/all/ssh.yml": "ansible_host: 192.168.0.1\n"
            "ansible_ssh_common_args: -o ProxyCommand='nc {{ inventory_hostname }} 22'\n",
        }
    ),
    "windows": right(
        hosts=TWO.replace("\n", "\r\n"), fabric=b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode()
    ),
    "anchors": right(
        {("gpu2", "rail1"): {"address": "10.0.1.2/24", "rate_gbps": 400}},
        hosts="x-way: &way {ansible_user: ops}\n" + hosts(gpu1="{<<: *way}", gpu2="*way"),
        fabric="x: &all {rate_gbps: 400, hca: }\n"
        + ROCE
        + "".join(
            f"    - {{<<: *all, name: rail{k}, netdev: e{k}, subnet: 10.0.{k}.0/24}}\n" for k in (0, 1)
        ),
    ),
    # Eleven lines of aliases that stand for 9 ** 9 values.
    "aliases_of_aliases": right(
        more={
            "group_vars/all/x.yml": "x0: &x0 [1]\n"
            + "".join(f"x{k}: &x{k} [{', '.join([f'*x{k - 1}'] * 9)}]\n" for k in range(1, 10)),
        }
    ),
    "numbers_of_yaml": right(
        more={"host_vars/gpu2.yml": "node_index: 002\n"}, fabric=OLD.replace("9000", "0x2328")
    ),
    "units_by_number": right(
        {("gpu3", "rail0"): {"address": "10.10.2.13/24", "leaf": "leaf-su2-r0"}},
        hosts=UNITS[HOSTS].replace("unit: su1", "unit: 1").replace("unit: su2", "unit: '2'"),
        fabric=UNITS[FABRIC]
        .replace("{su1:", "{1:")
        .replace(" su2: 10", " 2: 10")
        .replace(" su2: l", " '2': l"),
    ),
    "connected_ipoib": right(
        {("gpu2", "rail1"): {"mtu": 65520, "ipoib_mode": "connected"}},
        fabric=INFINIBAND[FABRIC].replace("mtu: 4092", "mtu: 65520\n  ipoib_mode: connected"),
    ),
    "full_names": right(
        {("gpu-2.rack_1.example.org", "rail1"): {"address": "10.0.1.2/24"}},
        hosts=hosts(**{"gpu-1.rack_1.example.org": "", "gpu-2.rack_1.example.org": ""}),
    ),
    "variables_of_others": right(
        more={
            "group_vars/all/others.yml": "bmc_address_list: [1]\nfile_mode: 0644\n"
            "ansible_ssh_password_mechanism: sshpass\n"
            "proxy: http://proxy:3128\nrepo: https://ops:{{ token }}@repo.example.org\nfabric_name: x\n",
            "group_vars/all/words.yml": "max_tokens: 4096\nbmc_credentials: {user: ops}\n"
            "bmc_password: \"{{ lookup('env', 'X') | default('') }}\"\nauth: Basic\n"
            "pins: [{name: MODE, value: x}]\ncmd: curl -u {{ user }} https://x\n",
            "group_vars/other.yml": "x: 1\nkey: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6331\n",
            "host_vars/old9.yml": "x: 1\n",
        }
    ),
    "a_vault_beside": right(more={"group_vars/all/vault.yml": "$ANSIBLE_VAULT;1.1;AES256\n6331\n"}),
    # Ansible's own plugins by their full names, as their documentation writes them.
    "constructed_beside": right(
        {
            ("gpu1", "rail0"): {"netdev": "odd0", "address": "10.0.0.8/24"},
            ("gpu2", "rail0"): {"netdev": "ens0", "address": "10.0.0.9/24"},
        },
        {
            "z.yml": "plugin: ansible.builtin.constructed\nstrict: true\n"
            "compose:\n  node_index: 7 + (inventory_hostname[-1] | int)\n"
            "groups: {odd: inventory_hostname is match('.*1$')}\n",
            "group_vars/odd.yml": "rail_overrides: {rail0: {netdev: odd0}}\n",
        },
    ),
    "generated": right(
        more={
            "nodes.yml": "plugin: ansible.builtin.generator\nlayers: {n: [1, 2]}\n"
            "hosts: {name: 'gpu{{ n }}', parents: [{name: gpu_nodes}]}\n",
        },
        hosts=None,
    ),
    "one_node": right(hosts="gpu_nodes: {hosts: {gpu2: }}\n", fabric=PAIR[FABRIC]),
    "called_expected": right(
        more={f"expected/{HOSTS}": TWO, f"expected/{FABRIC}": OLD}, hosts=None, fabric=None, source="expected"
    ),
}

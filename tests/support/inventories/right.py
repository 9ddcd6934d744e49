"""Right inventories of unusual forms: files, which of them goes to -i, and parts of the plan they give."""

from __future__ import annotations

from typing import NamedTuple

from support.inventories.sound import FABRIC, HOSTS, INFINIBAND, PAIR, UNITS


class Right(NamedTuple):
    """One inventory: path → text, what of each rail is planned, and the path for -i below its folder."""

    files: dict[str, str | bytes]
    planned: dict[tuple[str, str], dict[str, object]]
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

RIGHT = {
    "netdevs_of_each_host": Right(
        {
            HOSTS: """\
gpu_nodes:
  hosts:
    gpu1:
    gpu2: {rail_overrides: {rail0: {netdev: a0}, rail1: {netdev: a1}, rail2: {netdev: ens1}}}
""",
            FABRIC: ROCE + rails(4),
        },
        {
            ("gpu2", "rail2"): {"netdev": "ens1", "address": "10.0.2.2/24"},
            ("gpu1", "rail2"): {"netdev": "ens2"},
        },
    ),
    "ipv6_alone": Right(
        {HOSTS: TWO, FABRIC: ROCE + "    - {name: r, netdev: e, subnet6: 'fd00:7::/64', gateway: last}\n"},
        {
            ("gpu1", "r"): {
                "address": None,
                "address6": "fd00:7::1/64",
                "gateway6": "fd00:7::ffff:ffff:ffff:ffff",
            }
        },
    ),
    "gateway_that_is_link_local": Right(
        {
            HOSTS: "gpu_nodes:\n  hosts:\n    gpu1: {scalable_unit: a}\n    gpu2: {scalable_unit: b}\n",
            FABRIC: ROCE
            + "    - name: r\n      netdev: e\n      gateway: 'FE80::1'\n      routes: ['fd01::/48']\n"
            "      subnets6: {a: 'fd00:7::/64', b: 'fd00:8::/64'}\n",
        },
        {
            ("gpu2", "r"): {
                "address6": "fd00:8::2/64",
                "gateway6": "fe80::1",
                "routes": [{"to": "fd00:7::/64", "via": "fe80::1"}, {"to": "fd01::/48", "via": "fe80::1"}],
            }
        },
    ),
    "point_to_point": Right(
        {
            HOSTS: TWO,
            FABRIC: "fabric:\n  transport: roce\n  mtu: 9000\n  host_offset: -1\n  rails:\n"
            "    - {name: rail0, netdev: e0, subnet: 10.0.0.0/31}\n"
            "    - {name: rail1, netdev: e1, subnet: 10.0.0.2/31}\n",
        },
        {("gpu1", "rail0"): {"address": "10.0.0.0/31"}, ("gpu2", "rail1"): {"address": "10.0.0.3/31"}},
    ),
    "routed_to_the_host": Right(
        {
            HOSTS: "gpu_nodes:\n  hosts:\n    gpu1: {scalable_unit: gpu1, node_index: 1}\n"
            "    gpu2: {scalable_unit: gpu2, node_index: 1}\n",
            FABRIC: ROUTED,
        },
        {("gpu2", "rail0"): {"address": "10.0.0.3/31", "gateway": "10.0.0.2"}},
    ),
    "a_mac_of_each_host": Right(
        {
            HOSTS: """\
gpu_nodes:
  hosts:
    gpu1: {rail_overrides: {rail0: {mac: '52:54:00:00:00:01'}, rail1: {mac: '52:54:00:00:00:02'}}}
    gpu2: {rail_overrides: {rail0: {mac: '52:54:00:00:00:03', netdev: }, rail1: {mac: '52:54:00:AA:BB:CC'}}}
""",
            FABRIC: OLD,
        },
        {
            ("gpu2", "rail0"): {"mac": "52:54:00:00:00:03", "netdev": None},
            ("gpu2", "rail1"): {"mac": "52:54:00:aa:bb:cc", "netdev": "ens1"},
        },
    ),
    "macs_of_infiniband": Right(
        {
            HOSTS: "gpu_nodes:\n  hosts:\n    gpu1: {rail_overrides: {rail0: {mac: '"
            + "02:" * 19
            + "02'}}}\n",
            FABRIC: INFINIBAND[FABRIC],
        },
        {("gpu1", "rail0"): {"mac": "02:" * 19 + "02"}},
    ),
    "vlans": Right(
        {HOSTS: TWO, FABRIC: ROCE + rails(2, ", vlan: 4000")},
        {("gpu1", "rail0"): {"vlan": 4000, "netdev": "ens0"}},
    ),
    "two_ports_of_a_card": Right(
        {
            HOSTS: TWO,
            FABRIC: ROCE
            + "".join(
                f"    - {{name: rail{k}, hca: 'mlx5_0:{k + 1}', subnet: 10.0.{k}.0/24}}\n" for k in range(2)
            ),
        },
        {("gpu2", "rail1"): {"hca": "mlx5_0:2", "address": "10.0.1.2/24"}},
    ),
    "two_generations": Right(
        {
            HOSTS: "gpu_nodes: {children: {old: {hosts: {'gpu[1:3]': }}, new: {hosts: {'gpu[4:5]': }}}}\n",
            "group_vars/old.yml": OLD,
            "group_vars/new/fabric.yml": NEW,
        },
        {
            ("gpu3", "rail1"): {"netdev": "ens1"},
            ("gpu5", "rail1"): {"netdev": "enp10s0np0", "address": "10.0.1.5/24"},
        },
    ),
    "groups_in_groups": Right(
        {
            HOSTS: "gpu_nodes: {children: {row1: }}\nrow1: {children: {rack1: , rack2: }}\n"
            "rack1: {hosts: {gpu1: }}\nrack2: {hosts: {gpu2: }}\nall: {vars: {x: 1}}\n",
            FABRIC: OLD,
        },
        SECOND,
    ),
    "range": Right(
        {HOSTS: "gpu_nodes:\n  hosts:\n    host[01:32]:\n", FABRIC: OLD},
        {("host32", "rail0"): {"address": "10.0.0.32/24"}},
    ),
    "ini": Right(
        {
            "inventory": "[gpu_nodes]\ngpu1 ansible_host=192.168.0.1\n"
            "gpu2 ansible_host=192.168.0.2 node_index=2\n"
            "[gpu_nodes:vars]\nansible_user=ops\n",
            FABRIC: OLD,
        },
        SECOND,
    ),
    "ini_file_given": Right(
        {
            "production": "[rack1]\ngpu[1:2]\n\n[gpu_nodes:children]\nrack1\n",
            "group_vars/gpu_nodes.yml": OLD,
            "host_vars/gpu77.yml": "node_index: 7\n",
        },
        SECOND,
        "production",
    ),
    "one_file": Right(
        {"site.yml": "all:\n  vars:\n    " + OLD.replace("\n", "\n    ").rstrip() + "\n" + TWO},
        SECOND,
        "site.yml",
    ),
    "json": Right(
        {
            "hosts.json": '{"gpu_nodes": {"hosts": {"gpu1": {}, "gpu2": {}}}}',
            "group_vars/all.json": '{"fabric": {"transport": "tcp", "mtu": 9000, "rails": '
            '[{"name": "rail1", "netdev": "e", "subnet": "10.0.1.0/24"}]}}',
        },
        SECOND,
    ),
    "group_vars_yaml": Right({HOSTS: TWO, "group_vars/all.yaml": OLD}, SECOND),
    "group_vars_without_ending": Right({HOSTS: TWO, "group_vars/all": OLD}, SECOND),
    "folders_of_hosts": Right(
        {
            HOSTS: TWO,
            FABRIC: OLD,
            "host_vars/gpu2/net/rails.yml": "rail_overrides: {rail1: {netdev: e1}}\n",
            "host_vars/gpu2/index": "node_index: 2\n",
            "host_vars/gpu1/.old.yml": "node_index: 2\n",
            "host_vars/gpu1/index.yml~": "node_index: 2\n",
        },
        {("gpu2", "rail1"): {"netdev": "e1", "address": "10.0.1.2/24"}},
    ),
    "ports_of_one_address": Right(
        {
            HOSTS: "gpu_nodes:\n  hosts:\n    gpu1: {ansible_host: 127.0.0.1, ansible_port: 2201}\n"
            "    gpu2: {ansible_host: 127.0.0.1, ansible_port: 2202}\n",
            FABRIC: OLD,
        },
        SECOND,
    ),
    "behind_jump_hosts_of_their_own": Right(
        {
            HOSTS: TWO,
            FABRIC: OLD,
            "group_vars/all/ssh.yml": "ansible_host: 192.168.0.1\n"
            "ansible_ssh_common_args: -o ProxyCommand='nc {{ inventory_hostname }} 22'\n",
        },
        SECOND,
    ),
    "windows": Right(
        {HOSTS: TWO.replace("\n", "\r\n"), FABRIC: b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode()},
        SECOND,
    ),
    "anchors": Right(
        {
            HOSTS: "x-way: &way {ansible_user: ops}\ngpu_nodes:\n  hosts:\n    gpu1: {<<: *way}\n"
            "    gpu2: *way\n",
            FABRIC: "x: &all {rate_gbps: 400, hca: }\n"
            + ROCE
            + "    - {<<: *all, name: rail0, netdev: e0, subnet: 10.0.0.0/24}\n"
            + "    - {<<: *all, name: rail1, netdev: e1, subnet: 10.0.1.0/24}\n",
        },
        {("gpu2", "rail1"): {"address": "10.0.1.2/24", "rate_gbps": 400}},
    ),
    # Eleven lines of aliases that stand for 9 ** 9 values.
    "aliases_of_aliases": Right(
        {
            HOSTS: TWO,
            FABRIC: OLD,
            "group_vars/all/x.yml": "x0: &x0 [1]\n"
            + "".join(f"x{k}: &x{k} [{', '.join([f'*x{k - 1}'] * 9)}]\n" for k in range(1, 10)),
        },
        SECOND,
    ),
    "numbers_of_yaml": Right(
        {HOSTS: TWO, FABRIC: OLD.replace("9000", "0x2328"), "host_vars/gpu2.yml": "node_index: 002\n"}, SECOND
    ),
    "units_by_number": Right(
        {
            HOSTS: UNITS[HOSTS]
            .replace("scalable_unit: su1", "scalable_unit: 1")
            .replace("scalable_unit: su2", "scalable_unit: '2'"),
            FABRIC: UNITS[FABRIC]
            .replace("{su1:", "{1:")
            .replace(" su2: 10", " 2: 10")
            .replace(" su2: l", " '2': l"),
        },
        {("gpu3", "rail0"): {"address": "10.10.2.13/24", "leaf": "leaf-su2-r0"}},
    ),
    "connected_ipoib": Right(
        {HOSTS: TWO, FABRIC: INFINIBAND[FABRIC].replace("mtu: 4092", "mtu: 65520\n  ipoib_mode: connected")},
        {("gpu2", "rail1"): {"mtu": 65520, "ipoib_mode": "connected"}},
    ),
    "full_names": Right(
        {
            HOSTS: "gpu_nodes:\n  hosts:\n    gpu-1.rack_1.example.org:\n    gpu-2.rack_1.example.org:\n",
            FABRIC: OLD,
        },
        {("gpu-2.rack_1.example.org", "rail1"): {"address": "10.0.1.2/24"}},
    ),
    "variables_of_others": Right(
        {
            HOSTS: TWO,
            FABRIC: OLD,
            "group_vars/all/others.yml": "bmc_address_list: [1]\nfile_mode: 0644\n"
            "ansible_ssh_password_mechanism: sshpass\n"
            "proxy: http://proxy:3128\nrepo: https://ops:{{ token }}@repo.example.org\nfabric_name: x\n",
            "group_vars/all/words.yml": "max_tokens: 4096\nbmc_credentials: {user: ops}\n"
            "bmc_password: \"{{ lookup('env', 'X') | default('') }}\"\nauth: Basic\n"
            "pins: [{name: MODE, value: x}]\ncmd: curl -u {{ user }} https://x\n",
            "group_vars/other.yml": "x: 1\nkey: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6331\n",
            "host_vars/old9.yml": "x: 1\n",
        },
        SECOND,
    ),
    "a_vault_beside": Right(
        {HOSTS: TWO, FABRIC: OLD, "group_vars/all/vault.yml": "$ANSIBLE_VAULT;1.1;AES256\n6331\n"}, SECOND
    ),
    # Ansible's own plugins by their full names, as their documentation writes them.
    "constructed_beside": Right(
        {
            HOSTS: TWO,
            FABRIC: OLD,
            "z.yml": "plugin: ansible.builtin.constructed\nstrict: true\n"
            "compose:\n  node_index: 7 + (inventory_hostname[-1] | int)\n"
            "groups: {odd: inventory_hostname is match('.*1$')}\n",
            "group_vars/odd.yml": "rail_overrides: {rail0: {netdev: odd0}}\n",
        },
        {
            ("gpu1", "rail0"): {"netdev": "odd0", "address": "10.0.0.8/24"},
            ("gpu2", "rail0"): {"netdev": "ens0", "address": "10.0.0.9/24"},
        },
    ),
    "generated": Right(
        {
            "nodes.yml": "plugin: ansible.builtin.generator\nlayers: {n: [1, 2]}\n"
            "hosts: {name: 'gpu{{ n }}', parents: [{name: gpu_nodes}]}\n",
            FABRIC: OLD,
        },
        SECOND,
    ),
    "one_node": Right({HOSTS: "gpu_nodes: {hosts: {gpu2: }}\n", FABRIC: PAIR[FABRIC]}, SECOND),
    "called_expected": Right({f"expected/{HOSTS}": TWO, f"expected/{FABRIC}": OLD}, SECOND, "expected"),
}

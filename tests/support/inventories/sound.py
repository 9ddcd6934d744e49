"""Sound inventories, which the wrong ones of the other files are made of."""

from __future__ import annotations

FABRIC = "group_vars/all/fabric.yml"
HOSTS = "hosts.yml"

UNITS = {
    HOSTS: """\
gpu_nodes:
  children:
    su1:
      hosts:
        gpu1: {ansible_host: 172.16.0.11, bmc_address: 172.16.8.11}
        gpu2: {ansible_host: 172.16.0.12, bmc_address: 172.16.8.12}
      vars:
        scalable_unit: su1
    su2:
      hosts:
        gpu3: {ansible_host: 172.16.0.13, bmc_address: 172.16.8.13}
      vars:
        scalable_unit: su2
""",
    FABRIC: """\
fabric:
  transport: roce
  mtu: 9000
  host_offset: 10
  rails:
    - name: rail0
      netdev: ens1
      hca: mlx5_0:1
      gateway: first
      subnets: {su1: 10.10.1.0/24, su2: 10.10.2.0/24}
      leaves: {su1: leaf-su1-r0, su2: leaf-su2-r0}
    - name: rail1
      netdev: ens2
      hca: mlx5_1:1
      gateway: last
      subnet: 10.11.0.0/16
      routes: [10.111.0.0/16]
  frontend: {netdev: eno1, dhcp4: true}
  networks:
    - name: storage
      purpose: storage
      netdev: ens9
      subnet: 10.90.0.0/24
      manage: true
    - name: bmc
      purpose: out_of_band
      subnet: 172.16.8.0/24
      bmc: true
""",
}
PAIR = {
    HOSTS: """\
gpu_nodes:
  hosts:
    gpu1:
    gpu2:
""",
    FABRIC: """\
fabric:
  transport: roce
  mtu: 9000
  cabling: back_to_back
  rails:
    - name: rail0
      netdev: ens1
      subnet: 10.0.0.0/24
    - name: rail1
      netdev: ens2
      subnet: 10.0.1.0/24
  frontend: {netdev: eno1}
""",
}
INFINIBAND = {
    HOSTS: PAIR[HOSTS],
    FABRIC: """\
fabric:
  transport: infiniband
  mtu: 4092
  rails:
    - name: rail0
      hca: mlx5_0:1
      netdev: ib0
      subnet: 10.0.0.0/24
    - name: rail1
      hca: mlx5_1:1
      netdev: ib1
      subnet: 10.0.1.0/24
""",
}
COMPUTED = {
    HOSTS: "gpu_nodes: {hosts: {'gpu[001:300]': }}\n",
    FABRIC: """\
fabric:
  transport: roce
  mtu: 9000
  rail_count: 8
  supernet: 10.64.0.0/19
  rail_prefix: 22
  netdev_pattern: ens{rail}np0
  hca_pattern: mlx5_{rail}:1
  gateway: first
  host_offset: 1
  rail_routes: [10.65.0.0/19]
""",
}
ROUTED = {
    HOSTS: """\
gpu_nodes:
  hosts:
    gpu1:
    gpu2: {rail_overrides: {rail1: {address: 10.41.0.9/31, gateway: 10.41.0.8}}}
""",
    FABRIC: """\
fabric:
  transport: roce
  mtu: 9000
  rails:
    - name: rail0
      netdev: ens1
      subnet: 10.40.0.0/24
      node_prefix: 31
      gateway: first
    - name: rail1
      netdev: ens2
      subnet: 10.41.0.0/24
      node_prefix: 31
      gateway: last
""",
}
SOUND = {"units": UNITS, "pair": PAIR, "infiniband": INFINIBAND, "computed": COMPUTED, "routed": ROUTED}

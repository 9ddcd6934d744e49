"""Configuration spaces are put together here by the offsets and bits of the kernel's pci_regs.h."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import pcie

DOWNSTREAM, ROOT_PORT, ENDPOINT = 6, 4, 0
SOURCE_VALIDATION, REQUEST_REDIRECT = 1, 4


def config(port_type=ENDPOINT, read_request_bytes=512, acs=None, length=4096, relaxed=True):
    """A space with power management at 0x40, PCI Express at 0x60, error reporting at 0x100, ACS at 0x148."""
    space = bytearray(length)
    space[0x34] = 0x40
    space[0x40:0x42] = bytes((0x01, 0x60))
    space[0x60:0x62] = bytes((0x10, 0x00))
    struct.pack_into("<H", space, 0x62, port_type << 4 | 2)
    struct.pack_into("<H", space, 0x68, (read_request_bytes // 128).bit_length() - 1 << 12 | 0x20)
    space[0x68] |= 0x10 if relaxed else 0
    if length > 0x100:
        struct.pack_into("<I", space, 0x100, (0x148 if acs is not None else 0) << 20 | 1 << 16 | 0x0001)
    if acs is not None:
        struct.pack_into("<IHH", space, 0x148, 1 << 16 | 0x000D, 0x5F, acs)
    return bytes(space)


@pytest.fixture
def node(tmp_path):
    """A port behind a switch: root port, the switch's upstream and downstream port, the card; and a GPU."""

    def make(
        acs=0,
        read_request_bytes=512,
        iommu="identity",
        vendor="0x10de",
        above=DOWNSTREAM,
        rdma=False,
        relaxed=True,
        others=(),
    ):
        upper = tmp_path / "sys/devices/pci0000:3a/0000:3a:00.0"
        downstream = upper / "0000:3b:00.0/0000:3c:04.0"
        for rail, netdev in (("0", "ens6"), ("1", "ens7")):
            card = downstream / f"0000:3d:00.{rail}"
            (card / "iommu_group").mkdir(parents=True)
            (card / "iommu_group/type").write_text(f"{iommu}\n")
            (card / "config").write_bytes(
                config(read_request_bytes=read_request_bytes if rail == "0" or rdma else 512, relaxed=relaxed)
            )
            if rdma:
                (card / "infiniband" / f"mlx5_{rail}").mkdir(parents=True)
            (tmp_path / "sys/class/net" / netdev).mkdir(parents=True)
            (tmp_path / "sys/class/net" / netdev / "device").symlink_to(card)
        (upper / "config").write_bytes(config(ROOT_PORT, acs=REQUEST_REDIRECT))
        (downstream / "config").write_bytes(config(above, acs=acs))
        for place, (maker, device, kind) in enumerate([(vendor, "0x2330", "0x030200"), *others]):
            function = tmp_path / f"sys/bus/pci/devices/0000:3e:00.{place}"
            function.mkdir(parents=True)
            (function / "class").write_text(f"{kind}\n")
            (function / "vendor").write_text(f"{maker}\n")
            (function / "device").write_text(f"{device}\n")
        return str(tmp_path)

    return make


PORTS = {"ens6": "rail0", "ens7": "rail1"}


@pytest.mark.parametrize(
    ("space", "way"),
    [
        (config(ENDPOINT, 4096), (ENDPOINT, 4096, False, True)),
        (config(DOWNSTREAM, 128, acs=SOURCE_VALIDATION), (DOWNSTREAM, 128, False, True)),
        (config(DOWNSTREAM, 512, acs=SOURCE_VALIDATION | 0x10), (DOWNSTREAM, 512, True, True)),
        (config(length=256, relaxed=False), (ENDPOINT, 512, None, False)),
        (config()[:64], (None, None, None, None)),
        (b"", (None, None, None, None)),
        (bytes(4096), (None, None, None, None)),
    ],
)
def test_a_configuration_space_is_read(space, way):
    assert pcie.decode(space) == way


def test_lists_that_lead_round_in_a_circle_end():
    space = bytearray(4096)
    space[0x34], space[0x40], space[0x41] = 0x40, 0x01, 0x40
    assert pcie.decode(bytes(space)).port_type is None
    space = bytearray(config())
    struct.pack_into("<I", space, 0x100, 0x100 << 20 | 0x0001)
    assert pcie.decode(bytes(space)).redirects is False


def test_access_control_of_a_switch_above_is_found_where_there_are_gpus(node):
    told = pcie.findings(node(acs=REQUEST_REDIRECT), {"ens6": "rail0"})
    assert ["rail0 (ens6)" in one and "0000:3c:04.0" in one and "Fix: " in one for one in told] == [True]


@pytest.mark.parametrize(
    "way",
    [
        {"acs": SOURCE_VALIDATION},
        {"acs": REQUEST_REDIRECT, "vendor": "0x1a03"},
        {"acs": REQUEST_REDIRECT, "above": ROOT_PORT},
        {"rdma": True, "read_request_bytes": 4096},
        {"relaxed": False},  # a virtual machine's port has what its host gives it
    ],
)
def test_a_way_without_hindrance_has_no_findings(node, way):
    assert pcie.findings(node(**way), PORTS) == []


def test_an_iommu_that_translates_is_found(node):
    told = pcie.findings(node(iommu="DMA-FQ"), {"ens6": "rail0"})
    assert ["rail0 (ens6)" in one and "DMA-FQ" in one and "iommu=pt" in one for one in told] == [True]


@pytest.mark.parametrize(("size_bytes", "word"), [(256, "is small"), (4096, "differs")])
def test_reads_that_are_small_or_differ_are_found(node, size_bytes, word):
    [told] = pcie.findings(node(read_request_bytes=size_bytes), PORTS)
    assert word in told
    assert f"rail0 {size_bytes}, rail1 512" in told


def test_reads_of_a_card_with_rdma_are_to_be_as_large_as_they_can(node):
    [told] = pcie.findings(node(rdma=True), PORTS)
    assert "is 512 on rail0, rail1; guides for such cards ask for 4096" in told
    # Bits 12 to 14 of Device Control, of which 5 is 4096 bytes; the others stay.
    assert "setpci -s 0000:3d:00.0 CAP_EXP+8.w=5000:7000" in told


def test_relaxed_ordering_that_is_forbidden_is_found_of_cards_with_rdma(node):
    [told] = pcie.findings(node(rdma=True, read_request_bytes=4096, relaxed=False), PORTS)
    assert "relaxed ordering is forbidden to rail0 (0000:3d:00.0), rail1 (0000:3d:00.1)" in told
    assert "CAP_EXP+8.w=0010:0010" in told


def test_only_the_redirects_are_to_be_cleared(node):
    [told] = pcie.findings(node(acs=REQUEST_REDIRECT | SOURCE_VALIDATION), {"ens6": "rail0"})
    assert "pci=disable_acs_redir=0000:3c:04.0" in told
    # PCI_ACS_RR, _CR and _UF; source validation, which keeps functions apart, is not among them.
    assert told.endswith("ECAP_ACS+0x6.w=0000:001c")


def test_connectx_8s_switch_has_values_of_its_own(node):
    """kernel-boot/rdma_topo: `xx110x1` towards the DMA function, which has two of the redirects set."""
    [told] = pcie.findings(node(acs=0x19, others=[("0x15b3", "0x2100", "0x080100")]), {"ens6": "rail0"})
    assert "rdma_topo check" in told
    assert "disable_acs_redir" not in told


def test_a_software_port_has_no_way(tmp_path):
    assert pcie.findings(str(tmp_path), {"veth0": "rail0"}) == []


def test_a_dpu_that_the_host_can_manage_is_named_with_what_leads_to_it(node, tmp_path):
    root = node()
    (tmp_path / "dev/rshim0").mkdir(parents=True)
    (tmp_path / "dev/rshim").mkdir()
    (tmp_path / "sys/class/net/tmfifo_net0").mkdir()
    ((found),) = pcie.findings(root, PORTS)
    assert "RShim (/dev/rshim0, tmfifo_net0)" in found
    assert "--disable_rshim" in found


def test_a_node_without_rshim_has_no_finding_of_it(node):
    assert pcie.findings(node(), PORTS) == []

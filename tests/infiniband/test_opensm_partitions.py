"""opensm's partitions on a simulated subnet: the file that is written, files that opensm takes or refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import opensm_log
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import opensm_apply
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.opensm_partitions import (
    PartitionsError,
    make_tables,
    read_intent,
    read_table,
    render,
)
from support import simulated as subnets
from support.programs import wait_until

NODES = ("gpu001", "gpu002", "gpu003", "gpu004")
RAILS = ("rail0", "rail1")
PARTITIONS = {
    0x7FFF: {"name": "Default", "members": {"all": "limited", "gpu001": "full"}},
    0x10: {"name": "storage", "members": {"all": "limited", "gpu002": None, "gpu003": "limited"}},
    0x20: {"members": ["gpu003", "gpu004"], "ipoib": False},
}


class Opensm:
    """A simulated subnet whose subnet manager reads a partition file, and is started anew as by its unit."""

    def __init__(self, subnet: subnets.Subnet, path: Path):
        self.subnet, self.path = subnet, path
        self.manager = subnet.manager
        self.mark = opensm_apply.Mark(0, 0)
        self.log = path.with_name("opensm.log")
        self.ports = {
            name: {
                rail: f"0x{subnet.net.devices[f'{name} mlx5_{number}'].guid + 1:x}"
                for number, rail in enumerate(RAILS)
            }
            for name in NODES
        }

    def manager_guid(self) -> str:
        return f"0x{self.subnet.first.guid + 1:016x}"

    def start(self, *options: str) -> str:
        """Start opensm anew with the file, its log added to as in a unit's."""
        if self.manager is not None:
            self.manager.stop()
        self.mark = opensm_apply.mark_log(str(self.log))
        file = ("-P", str(self.path), "-f", str(self.log), *options)
        for _attempt in range(5):
            self.manager = self.subnet.simulation.launch_manager(
                self.subnet.manager_at(self.subnet.first.name, *file)
            )
            if self._has_begun():
                return ""
        return "opensm ends at once"

    def _has_begun(self) -> bool:
        """Wait until it logs its first state; ibsim refuses one that comes while it still has the last."""
        assert self.manager is not None
        process = self.manager.process
        wait_until(lambda: self._has_logged("Entering") or process.poll() is not None, 20)
        return self._has_logged("Entering")

    def _has_logged(self, words: str) -> bool:
        return words in opensm_apply.read_since(str(self.log), self.mark)

    def wait(self, limit_s: float = 20) -> None:
        """Wait until the opensm that was started last has brought the subnet up."""
        assert wait_until(lambda: self._has_logged("SUBNET UP"), limit_s), self.log.read_text()

    def ask(self, argv: list[str]) -> str | None:
        done = self.subnet.run(*argv)
        return done.stdout if done.returncode == 0 else None

    def interface(self) -> opensm_apply.Opensm:
        port = opensm_apply.LocalPort(self.manager_guid())
        return opensm_apply.Opensm((port,), (str(self.log),), self.start, self.ask)

    def tables(self) -> dict[str, frozenset[int] | None]:
        found = {}
        for rails in self.ports.values():
            for guid in rails.values():
                text = self.ask(["smpquery", "-G", "pkeys", guid])
                found[guid] = None if text is None else read_table(text)
        return found


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subnets.Subnet]:
    net = subnets.make_net(nodes=len(NODES), rails=len(RAILS))
    with subnets.simulate(net, tmp_path_factory.mktemp("sim"), manager=False) as subnet:
        yield subnet


@pytest.fixture
def opensm(simulated: subnets.Subnet, tmp_path: Path) -> Iterator[Opensm]:
    running = Opensm(simulated, tmp_path / "partitions.conf")
    yield running
    if running.manager is not None:
        running.manager.stop()


def test_the_tables_are_as_meant_and_a_second_run_changes_nothing(opensm: Opensm) -> None:
    intent = read_intent(PARTITIONS, opensm.ports, [opensm.manager_guid()], False)
    text = render(intent)
    done = opensm_apply.apply(str(opensm.path), text, intent, opensm.interface(), 30)
    assert done == opensm_apply.Applied(True, ())
    again = opensm_apply.apply(str(opensm.path), text, intent, opensm.interface(), 30)
    assert again == opensm_apply.Applied(False, ())
    # Written out, and not by the code under test.
    found = {key: set(entries or ()) for key, entries in opensm.tables().items()}
    assert [found[opensm.ports[name]["rail1"]] for name in NODES] == [
        {0xFFFF, 0x0010},
        {0x7FFF, 0x8010},
        {0x7FFF, 0x0010, 0x8020},
        {0x7FFF, 0x0010, 0x8020},
    ]


def test_both_memberships_at_once(opensm: Opensm) -> None:
    partitions = {0x7FFF: {"members": "all"}, 1: {"members": {"gpu001": "full", "gpu002": "both"}}}
    intent = read_intent(partitions, opensm.ports, [opensm.manager_guid()], True)
    opensm.path.write_text(render(intent))
    interface = opensm.interface()._replace(restart=lambda: opensm.start("-W"))
    opensm_apply.apply(str(opensm.path), render(intent), intent, interface, 30)
    guid = opensm.ports["gpu002"]["rail0"]
    assert set(opensm.tables()[guid] or ()) == {0xFFFF, 0x8001, 0x0001}
    # Without its leave, opensm makes a full member of it; so it is refused before.
    opensm.start()
    opensm.wait()
    assert 0x0001 not in (opensm.tables()[guid] or ())


def test_a_refused_file_is_taken_back(opensm: Opensm) -> None:
    intent = read_intent(PARTITIONS, opensm.ports, [opensm.manager_guid()], False)
    good = render(intent)
    opensm_apply.apply(str(opensm.path), good, intent, opensm.interface(), 30)
    broken = good + "x=0x0030 : gpu001=full ;\n"
    with pytest.raises(PartitionsError) as error:
        opensm_apply.apply(str(opensm.path), broken, intent, opensm.interface(), 30)
    line = len(good.splitlines()) + 1
    assert f"PARSE ERROR: line {line}: bad PortGUID" in str(error.value)
    assert "The old file is back, and opensm runs with it" in str(error.value)
    assert opensm.path.read_text() == good
    opensm.wait()
    again = opensm_apply.apply(str(opensm.path), good, intent, opensm.interface(), 30)
    assert again == opensm_apply.Applied(False, ())
    assert make_tables(intent) == {
        f"0x{int(guid, 16):016x}": table for guid, table in opensm.tables().items()
    }


# Partition files that are public. GUIDs are those of the simulated subnet where the source has real ones.
ACCEPTED = {
    # opensm(8), "This rule is equivalent to how OpenSM used to run prior to the partition manager"
    "opensm(8), open": ("Default=0x7fff,ipoib:ALL=full;\n", [{0xFFFF}] * 4),
    # opensm(8), "in the case of no rule for the Default partition"; NVIDIA, UFM SDN Appliance user manual,
    # "SM Partitions.conf File Format"
    "opensm(8), no rule": ("Default=0x7fff : ALL=limited, SELF=full ;\n", [{0x7FFF}] * 4),
    # NVIDIA, UFM Enterprise user manual, "Appendix - Partitioning": members of one P_Key in two definitions
    "UFM, split members": (
        "IOPartition=0x4, ipoib, sl=0, defmember=full : {0} , {1} ;\n"
        "IOPartition=0x4, ipoib, sl=0, defmember=full : {2} ;\n",
        [{0x7FFF, 0x8004}, {0x7FFF, 0x8004}, {0x7FFF, 0x8004}, {0x7FFF}],
    ),
    # opensm(8), examples: without a membership a member is limited
    "opensm(8), ShareIO": (
        "ShareIO = 0x80 , defmember=full : {0}, {1};\n# comment\nShareIO = 0x80 : {2}, {3}=full;\n",
        [{0x7FFF, 0x8080}, {0x7FFF, 0x8080}, {0x7FFF, 0x0080}, {0x7FFF, 0x8080}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_public_files_that_opensm_takes(opensm: Opensm, name: str) -> None:
    text, tables = ACCEPTED[name]
    # The second rail's ports: that of the subnet manager itself is a full member of the default partition.
    guids = [opensm.ports[node]["rail1"] for node in NODES]
    opensm.path.write_text(text.format(*guids))
    opensm.start()
    opensm.wait()
    start = opensm_log.parse(opensm.log.read_text())
    assert start == opensm_log.OpensmStart((), False, "MASTER")
    found = opensm.tables()
    assert [set(found[guid] or ()) for guid in guids] == tables


REFUSED = {
    # A public hardening guide for GPU clusters, "InfiniBand Security": names of hosts for GUIDs
    "names of hosts": (
        "Default=0x7fff, ipoib: ALL_SWITCHES=full, ALL_CAS=full;\n"
        "HPC_Partition=0x0001: hpc-node-[01-64]=full;\n"
        "AI_Partition=0x0002: ai-node-[01-32]=full;\n",
        "PARSE ERROR: line 2: bad PortGUID",
    ),
    # A public page on traffic isolation in HPC networks: definitions without `;`
    "no end of a definition": (
        "Default=0x7FFF, ipoib: ALL=full\nCompute=0x0001, ipoib: 0x0002c903000001, 0x0002c903000002=full\n",
        "PARSE ERROR: line 2: bad PortGUID",
    ),
    # Tried: a `;` in a line of its own, which opensm(8) does not forbid
    "an end in its own line": (
        "storage=0x0010, ipoib : ALL=limited,\n {0}=full\n;\n",
        "PARSE ERROR: line 3: no partition definition found",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_public_files_that_opensm_drops_leave_everybody_a_full_member(opensm: Opensm, name: str) -> None:
    text, error = REFUSED[name]
    opensm.path.write_text(text.format(opensm.ports["gpu002"]["rail1"]))
    opensm.start()
    opensm.wait()
    start = opensm_log.parse(opensm.log.read_text())
    assert start.fell_back
    assert start.errors == (error,)
    assert set(opensm.tables().values()) == {frozenset({0xFFFF})}

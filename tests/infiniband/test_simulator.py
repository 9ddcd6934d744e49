"""The simulated subnet itself: what it shows, what it refuses, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from railyard.lab.process import LabError, command_lines
from railyard.lab.subnet.faults import Counted, DeviceLost, Exchanged, LinkDown, NodeGuid, Silent
from railyard.lab.subnet.net import End, Rate, render
from railyard.lab.subnet.simulator import Simulation, send
from support import simulated
from support.net_faults import OtherRate
from support.programs import wait_until


def links(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("CA", "SW"))]


def test_a_net_shows_as_it_was_made_and_faults_show_as_made(tmp_path: Path) -> None:
    net = simulated.make_net(nodes=4, rails=2)
    net = OtherRate(End("gpu003 mlx5_0", 1), Rate(1, "EDR")).apply_to(net)
    net = OtherRate(End("gpu004 mlx5_0", 1), Rate(4, "FDR")).apply_to(net)
    with simulated.simulate(net, tmp_path / "sim") as subnet:
        healthy = links(subnet.run("ibnetdiscover", "-p").stdout)
        # Each cable from both ends: 8 to adapters, 8 to spines.
        assert len(healthy) == 2 * 16
        assert sum("4x EDR" in line for line in healthy) == 2 * 14
        assert sum("1x EDR" in line and "gpu003 mlx5_0" in line for line in healthy) == 2
        assert sum("4x FDR" in line and "gpu004 mlx5_0" in line for line in healthy) == 2

        subnet.make(Counted(End("gpu002 mlx5_1", 1), "SymbolErrorCounter", 1000))
        assert "[SymbolErrorCounter == 1000]" in subnet.run("ibqueryerrors").stdout

        subnet.make(LinkDown(End("gpu002 mlx5_0", 1)), DeviceLost("spine2"))
        text = subnet.run("ibnetdiscover", "-p").stdout
        # Printed are five more ports, of leaves: they have no peer.
        assert sum(" - " in line for line in links(text)) == 2 * (16 - 1 - 4)
        assert sum(" - " not in line for line in links(text)) == 1 + 4
        assert "'spine2'" not in text

        subnet.make(Exchanged(End("gpu001 mlx5_1", 1), End("gpu003 mlx5_0", 1)))
        text = subnet.run("ibnetdiscover", "-p").stdout
        assert any("'gpu003 mlx5_0' - 'su1-leaf2'" in line for line in links(text))

        subnet.make(Silent("gpu004 mlx5_1"))
        assert "imed out" in subnet.run("ibnetdiscover", "-p").stderr


def test_two_devices_with_one_guid_show_as_one(tmp_path: Path) -> None:
    net = simulated.make_net(nodes=4, rails=1)
    with simulated.simulate(net, tmp_path / "sim") as subnet:
        subnet.make(NodeGuid("gpu003 mlx5_0", net.devices["gpu002 mlx5_0"].guid))
        found = subnet.run("ibnetdiscover", "-p")
        assert len([line for line in links(found.stdout) if line.startswith("CA")]) == 3


def test_two_managers_with_different_keys_are_both_master(tmp_path: Path) -> None:
    net = simulated.make_net(nodes=2, rails=1)
    with simulated.simulate(net, tmp_path / "sim") as subnet:
        other = subnet.simulation.launch_manager(subnet.manager_at("gpu002 mlx5_0", "-k", "0x22"))
        other.wait_for_sweep()
        assert "non-matching sm_key" in other.log.read_text()


def test_a_command_that_ibsim_refuses_is_an_error(tmp_path: Path) -> None:
    net = simulated.make_net(nodes=2, rails=1)
    with Simulation(render(net), tmp_path / "sim", simulated.find_programs()) as simulation:
        for line, reason in (
            ('Unlink "gpu009 mlx5_0"[1]', "not found"),
            ('Unlink "gpu001 mlx5_0"[7]', "can't unlink port 7"),
            ('PerformanceSet "gpu001 mlx5_0"[1] PortCounters.NoSuchCounter=1', "PerformanceSet"),
            ("Nonsense", "unknown"),
            ("two\nlines", "not one line"),
        ):
            with pytest.raises(LabError, match=reason):
                simulation.command(line)
    with pytest.raises(LabError, match="no ibsim reads"):
        send(tmp_path / "sim", "Dump")


def test_a_net_that_ibsim_cannot_read_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    with (
        pytest.raises(LabError, match="ibsim did not start"),
        Simulation('Hca 1 "a"\n[1] "b"[0]\n', tmp_path / "sim", simulated.find_programs()),
    ):
        pass
    assert processes_of(tmp_path) == []


def test_wrapped_tools_work_as_the_adapter_that_is_named(tmp_path: Path) -> None:
    net = simulated.make_net(nodes=2, rails=2)
    with simulated.simulate(net, tmp_path / "sim") as subnet:
        subnet.simulation.write_wrappers(tmp_path / "bin", "gpu002", "mlx5_0")
        environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        here = tmp_path / "here"
        here.mkdir(mode=0o555)

        def run(*argv: str) -> str:
            done = subprocess.run(
                argv, env=environment, cwd=here, capture_output=True, text=True, check=False
            )
            return done.stdout + done.stderr

        # A direct route without a hop is the adapter itself.
        assert "gpu002 mlx5_0" in run("smpquery", "nodedesc", "-D", "0")
        assert "gpu002 mlx5_1" in run("smpquery", "-C", "mlx5_1", "-P", "1", "nodedesc", "-D", "0")
        assert "State: Active" in run("ibstat")
        assert '"su1-leaf2"' in run("ibswitches")
        assert "sm guid" not in run("sminfo", "-C", "mlx5_9")
        # What a tool that is killed leaves is not where it was called.
        with subprocess.Popen(["ibping", "-S"], env=environment, cwd=here, stdout=subprocess.PIPE) as server:
            time.sleep(0.3)
            server.kill()
        assert list(here.iterdir()) == []


_HELD = """
import sys, time
from pathlib import Path
from support import simulated
with simulated.simulate(simulated.make_net(nodes=2, rails=1), Path(sys.argv[1])):
    print("up", flush=True)
    time.sleep(600)
"""


def processes_of(folder: Path) -> list[int]:
    return [pid for pid, words in command_lines() if str(folder).encode() in words]


def test_nothing_is_left_when_the_program_is_killed(tmp_path: Path) -> None:
    simulated.find_programs()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    argv = [sys.executable, "-c", _HELD, str(tmp_path / "sim")]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "up\n"
            # The program, ibsim and opensm.
            assert len(processes_of(tmp_path)) == 3
        finally:
            holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert wait_until(lambda: not processes_of(tmp_path), 5)

"""The tools run, and none of them is left listening."""

import re

testinfra_hosts = ["ansible://gpu_nodes"]


def test_iperf3_measures_over_loopback(host):
    host.check_output("iperf3 --server --one-off --daemon --bind 127.0.0.1 --port 5299")
    out = host.check_output("iperf3 --client 127.0.0.1 --port 5299 --time 1 --connect-timeout 3000")
    assert re.search(r"[1-9][\d.]* [KMG]bits/sec.*receiver", out), out


def test_sockperf_runs(host):
    out = host.run("sockperf --version")
    assert "sockperf" in (out.stdout + out.stderr)


def test_ping_runs(host):
    assert host.run("ping -c 1 -W 1 127.0.0.1").rc == 0


def test_perftest_only_where_rdma_is_asked(host, name):
    assert host.exists("ib_write_bw") == (name == "gpuserver1")
    assert host.exists("numactl") == (name == "gpuserver1")


def test_nothing_is_left_listening(host):
    assert "iperf3" not in host.check_output("ss --listening --tcp --udp --numeric --processes --no-header")
    assert not host.service("iperf3").is_enabled
    assert not host.service("iperf3").is_running

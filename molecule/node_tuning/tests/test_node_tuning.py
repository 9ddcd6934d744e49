"""What node_tuning leaves on a node: the running kernel, what a reboot will find, the record of before."""

import json

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

UNIT = "railyard-cpu-governor.service"
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
# gpuserver1 has the defaults; on gpuserver2 governor and locked memory are left alone (converge.yml).
TCP_RMEM_BYTES = {"gpuserver1": "4096 131072 134217728", "gpuserver2": "4096 131072 8388608"}


@pytest.fixture
def governors(host):
    """Reads the governor of each CPU, when called."""
    return lambda: set(host.check_output(f"cat {GOVERNORS}").split())


def test_every_cpu_has_the_governor(governors, name):
    assert governors() == {"performance" if name == "gpuserver1" else "powersave"}


def test_unit_sets_the_governor_at_boot(host, name, governors):
    if name != "gpuserver1":
        assert not host.file(f"/etc/systemd/system/{UNIT}").exists
        return
    unit = host.service(UNIT)
    assert unit.is_enabled
    assert unit.is_running, host.run(f"journalctl --no-pager -u {UNIT}").stdout
    # As a boot does it: the governor is the firmware's choice, then the unit runs.
    host.check_output(f"echo powersave | tee {GOVERNORS}")
    host.check_output(f"systemctl restart {UNIT}")
    assert governors() == {"performance"}


def test_idle_states_that_take_long_to_leave_are_disabled_now_and_at_boot(host, name):
    # Of the stand-in's four states the last alone takes longer than 10 us; gpuserver1 limits none.
    switches = "/sys/devices/system/cpu/cpu*/cpuidle/state{}/disable"
    assert set(host.check_output("cat " + switches.format("[0-2]")).split()) == {"0"}
    wanted = {"0"} if name == "gpuserver1" else {"1"}
    assert set(host.check_output("cat " + switches.format(3)).split()) == wanted
    if name != "gpuserver1":
        host.check_output(f"echo 0 | tee {switches.format(3)}")
        host.check_output("systemd-tmpfiles --create railyard-node-tuning.conf")
        assert set(host.check_output("cat " + switches.format(3)).split()) == wanted


def test_socket_buffers_are_set_now_and_at_boot(host, name):
    assert host.check_output("cat /proc/sys/net/ipv4/tcp_rmem").split() == TCP_RMEM_BYTES[name].split()
    drop_in = host.file("/etc/sysctl.d/60-railyard.conf")
    assert f"net.ipv4.tcp_rmem = {TCP_RMEM_BYTES[name]}\n" in drop_in.content_string
    assert (drop_in.user, drop_in.mode) == ("root", 0o644)


def test_sysctl_that_the_node_lacks_is_left_out(host):
    lines = host.file("/etc/sysctl.d/60-railyard.conf").content_string.splitlines()
    keys = [line.partition(" = ")[0] for line in lines if not line.startswith("#")]
    assert keys
    modes = {key: host.file("/proc/sys/" + key.replace(".", "/")).mode for key in keys}
    assert [key for key, mode in modes.items() if not mode & 0o200] == []


def test_tcp_shrinks_its_segments_where_a_small_port_stands_in_the_way(host, name):
    assert host.check_output("cat /proc/sys/net/ipv4/tcp_mtu_probing") == (
        "1" if name == "gpuserver1" else "0"
    )


def test_huge_pages_are_left_out_where_the_node_only_shows_them(host, name):
    # Nodes of containers share those of their host, and have them read-only.
    switch = "/sys/kernel/mm/transparent_hugepage/enabled"
    settable = host.run(f"test -w {switch}").rc == 0
    lines = host.run("cat /etc/tmpfiles.d/railyard-node-tuning.conf").stdout
    assert (f"w {switch} - - - - always" in lines) == (settable and name == "gpuserver1")


def test_a_login_may_open_as_many_files_as_the_node_may_give(host, name):
    soft, hard = host.check_output("su - railyard -c 'ulimit -S -n; ulimit -H -n'").split()
    if name != "gpuserver1":
        assert not host.file("/etc/security/limits.d/60-railyard-nofile.conf").exists
        return
    assert soft == hard
    assert hard == "1048576" or host.run("ulimit -H -n 1048576").rc != 0


def test_a_rank_runs_through_the_wrapper_also_where_there_is_no_gpu(host):
    done = host.run("su - railyard -c 'railyard-bind -- echo rank'")
    assert (done.rc, done.stdout.strip()) == (0, "rank"), done.stderr
    assert "not bound: there is no GPU" in done.stderr


def test_a_login_may_lock_all_the_memory_that_the_node_may_give(host, name):
    # A login through PAM, as a user or slurmd makes one. That it works at all is half of the test.
    soft, hard = host.check_output("su - railyard -c 'ulimit -S -l; ulimit -H -l'").split()
    if name != "gpuserver1":
        assert not host.file("/etc/security/limits.d/60-railyard-memlock.conf").exists
        return
    assert soft == hard
    root_may_raise_it = host.run("ulimit -H -l unlimited").rc == 0
    assert hard == "unlimited" or not root_may_raise_it


def test_services_may_lock_any_memory(host, name):
    shown = host.check_output("systemctl show --property DefaultLimitMEMLOCK")
    assert (shown == "DefaultLimitMEMLOCK=infinity") == (name == "gpuserver1")


def test_services_may_open_as_many_files(host, name):
    shown = host.check_output("systemctl show --property DefaultLimitNOFILE")
    assert (shown == "DefaultLimitNOFILE=1048576") == (name == "gpuserver1")


def test_originals_are_recorded_once(host, name):
    document = json.loads(host.file("/var/lib/railyard/node_tuning/originals.json").content_string)
    assert document["schema"] == 1
    # Two runs (converge, idempotence) came before: a record made again would hold the role's own values.
    governors = {"powersave"} if name == "gpuserver1" else set()
    assert set(document.get("governors", {}).values()) == governors
    # The preference is recorded with the governor, which may change it.
    preferences = set(document.get("energy_preferences", {}).values())
    assert preferences == ({"balance_performance"} if name == "gpuserver1" else set())
    assert document["sysctl"]["net.ipv4.tcp_rmem"].split() != TCP_RMEM_BYTES[name].split()


def test_profiling_is_written_where_it_is_asked_and_can_be_set(host, name):
    text = host.file("/etc/sysctl.d/60-railyard.conf").content_string
    for key, value in (("perf_event_paranoid", "1"), ("kptr_restrict", "0")):
        # Nodes of containers share these with their host, which shows them only.
        settable = host.run(f"test -w /proc/sys/kernel/{key}").rc == 0
        assert (f"kernel.{key} = {value}\n" in text) == (name == "gpuserver2" and settable)


def test_passthrough_is_in_the_menu_and_waits_for_a_reboot(host, name):
    menu = host.run("cat /boot/grub/grub.cfg").stdout
    waits = host.run("cat /var/lib/railyard/waits/node_tuning_iommu.json").stdout
    assert ("iommu.passthrough=1" in menu.split()) == (name == "gpuserver2")
    assert ("boot with iommu.passthrough=1" in waits) == (name == "gpuserver2")

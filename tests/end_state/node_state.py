"""Runs on a node: reads all that the end-state tests look at, in one go, and prints it as one line of JSON.

Standard library only, Python 3.9; changes nothing. Needs root: the netplan files of a node are root's alone.
"""

import glob
import json
import os
import pwd
import shutil
import subprocess

NETPLAN = ("/etc/netplan", "/run/netplan", "/lib/netplan", "/usr/lib/netplan")
TOOLS = ("ping", "iperf3", "sockperf", "netplan", "ib_write_bw", "ibv_devinfo", "numactl")
TOOLS += ("fio", "smartctl", "likwid-bench")
PERFTEST = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat")
OURS = ("iperf3", "sockperf", "runner.pyz", "fio", "smartctl", "likwid-bench", *PERFTEST)
# Those that node_tuning sets by itself; what an inventory adds is named in its file.
SYSCTL = (
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.netdev_max_backlog",
    "net.core.default_qdisc",
    "net.ipv4.tcp_mtu_probing",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.kptr_restrict",
)
# Prints a line per entry in use: device, port, GID, type. Most entries are empty; their type answers EINVAL.
GIDS = """cd /sys/class/infiniband 2>/dev/null || exit 0
for gid in */ports/*/gids/*; do
    read -r value <"$gid" || continue
    case $value in *[1-9a-f]*) ;; *) continue ;; esac
    port=${gid%/gids/*}
    read -r type <"$port/gid_attrs/types/${gid##*/}" || type=unknown
    echo "${port%%/*} ${port##*/} $value ${gid##*/} $type"
done 2>/dev/null
exit 0"""


def output(*argv):
    """A program's standard output, or None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def file_state(path):
    try:
        status = os.stat(path)
        owner = pwd.getpwuid(status.st_uid).pw_name
    except OSError:
        return None
    except KeyError:
        owner = str(status.st_uid)
    return {"mode": status.st_mode & 0o7777, "owner": owner, "text": text(path)}


def netdevs():
    """Netdev → what tells which rail it is: PCI address, port of the card, and RDMA device ports."""
    found = {}
    for path in glob.glob("/sys/class/net/*"):
        device = os.path.realpath(path + "/device")
        at_bus = os.path.exists(path + "/device")
        # ConnectX-3 has two ports on one PCI function; older kernels write the port's number to dev_id.
        numbers = [(text(path + "/" + name) or "").strip() for name in ("dev_port", "dev_id")]
        port = next((int(one, 0) for one in numbers if one and int(one, 0)), 0) + 1
        found[os.path.basename(path)] = {"pci": os.path.basename(device) if at_bus else None, "port": port}
    hcas = {}
    for path in glob.glob("/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/*"):
        parts = path.split("/")
        name = text(path)
        if name and name.strip():
            hcas[parts[4] + ":" + parts[6]] = name.strip()
    return {"netdevs": found, "hcas": hcas}


def arp():
    """Netdev → how it answers and asks for MAC addresses."""
    found = {}
    for folder in glob.glob("/proc/sys/net/ipv4/conf/*"):
        names = ("arp_ignore", "arp_announce")
        found[os.path.basename(folder)] = {
            name: (text(os.path.join(folder, name)) or "").strip() for name in names
        }
    return found


def governors():
    paths = glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return sorted({(text(path) or "unreadable").strip() for path in paths})


def setting(path):
    """A value of the kernel, and whether root may write it: a container and a namespace only show some."""
    value = text(path)
    return None if value is None else {"value": value.strip(), "settable": os.access(path, os.W_OK)}


def tuning():
    """Sysctls and switches of memory that node_tuning sets, and what its files say for the next boot."""
    lines = (text("/etc/sysctl.d/60-railyard.conf") or "").splitlines()
    at_boot = dict(
        [part.strip() for part in line.split("=", 1)]
        for line in lines
        if "=" in line and line[:1] not in "#;"
    )
    keys = [*at_boot, *SYSCTL]
    found = {key: setting("/proc/sys/" + (key if "/" in key else key.replace(".", "/"))) for key in keys}
    thp = "/sys/kernel/mm/transparent_hugepage/"
    tmpfiles = (text("/etc/tmpfiles.d/railyard-node-tuning.conf") or "").splitlines()
    return {
        "sysctl": {key: value for key, value in found.items() if value is not None},
        "sysctl_at_boot": at_boot,
        "lacks_fq": not os.path.isdir("/sys/module/sch_fq")
        and shutil.which("modinfo") is not None
        and output("modinfo", "-n", "sch_fq") is None,
        "command_line": (text("/proc/cmdline") or "").split(),
        "iommu_file": text("/etc/default/grub.d/60-railyard-iommu.cfg") or "",
        "hugepage": {name: setting(thp + name) for name in ("enabled", "defrag")},
        "tmpfiles": [line.split() for line in tmpfiles if not line.startswith("#")],
    }


def clock():
    """How the CPUs choose their clock besides the governor, and which idle states they may enter."""
    cpus = "/sys/devices/system/cpu/cpu[0-9]*/"
    preferences = (text(path) for path in glob.glob(cpus + "cpufreq/energy_performance_preference"))
    idle = {}
    for path in glob.glob(cpus + "cpuidle/state[0-9]*"):
        state = (os.path.basename(path), (text(path + "/latency") or "").strip())
        switch = setting(path + "/disable") or {"value": "unreadable", "settable": False}
        idle.setdefault(state, set()).add(switch["value"] if switch["settable"] else "only shown")
    return {
        "cpufreq_driver": (text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver") or "").strip(),
        "energy_preferences": sorted({value.strip() for value in preferences if value}),
        "idle_states": [[name, latency, sorted(values)] for (name, latency), values in sorted(idle.items())],
        "governor_unit": text("/etc/systemd/system/railyard-cpu-governor.service"),
    }


def interrupts():
    """Netdev → NUMA node, CPUs of it, and which CPUs may serve each of its interrupts."""
    found = {}
    for path in glob.glob("/sys/class/net/*/device"):
        folder = os.path.realpath(path)
        while folder != "/" and not os.path.isdir(folder + "/msi_irqs"):
            folder = os.path.dirname(folder)
        if folder == "/":
            continue
        served = {}
        for number in os.listdir(folder + "/msi_irqs"):
            if (text(f"/sys/kernel/irq/{number}/actions") or "").strip():
                served[number] = (text(f"/proc/irq/{number}/smp_affinity_list") or "").strip()
        found[path.split("/")[4]] = {
            "node": (text(folder + "/numa_node") or "").strip(),
            "cpus": (text(folder + "/local_cpulist") or "").strip(),
            "served": served,
        }
    return {
        "interrupts": found,
        "numa_nodes": (text("/sys/devices/system/node/online") or "").strip(),
        "irq_rules": text("/etc/udev/rules.d/60-railyard-irq-affinity.rules") or "",
    }


def rings():
    """Netdev → its rings as ethtool prints them, of ports that a driver has; and what a boot sets."""
    ports = glob.glob("/sys/class/net/*/device")
    names = [path.split("/")[4] for path in ports if not os.path.exists(path + "/physfn")]
    return {
        "rings": {name: output("ethtool", "-g", name) for name in names},
        "ring_rules": text("/etc/udev/rules.d/60-railyard-rings.rules") or "",
        "ring_unit": text("/etc/systemd/system/railyard-rings@.service") or "",
    }


def processes():
    """Command lines of what a measurement may have left behind."""
    left = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if any(os.path.basename(word) in OURS for word in words[:3]):
            left.append(" ".join(words).strip())
    return left


def rdma():
    """RDMA as `rdma link`, the module lists and sysfs through a shell tell it."""
    gids = [line.split(" ", 4) for line in (output("sh", "-c", GIDS) or "").splitlines()]
    loaded = [line.split(" ", 1)[0] for line in (text("/proc/modules") or "").splitlines()]
    built_in = (text(f"/lib/modules/{os.uname().release}/modules.builtin") or "").splitlines()
    loaded += [os.path.basename(line).split(".")[0].replace("-", "_") for line in built_in]
    devices = glob.glob("/sys/class/infiniband/*")
    return {
        "rdma_links": json.loads(output("rdma", "-j", "link", "show") or "null"),
        "rdma_devices": {
            os.path.basename(path): {
                "is_software": "/virtual/" in os.path.realpath(path),
                "pci": os.path.basename(os.path.realpath(path + "/device")),
                "pci_id": "{}:{}".format(
                    *((text(f"{path}/device/{one}") or "").strip() for one in ("vendor", "device"))
                ),
            }
            for path in devices
        },
        "gids": [dict(zip(("device", "port", "gid", "index", "type"), words)) for words in gids],  # noqa: B905 - 3.9
        "pkeys": [
            {
                "device": path.split("/")[4],
                "port": path.split("/")[6],
                "index": path.split("/")[8],
                "pkey": key,
            }
            for path in glob.glob("/sys/class/infiniband/*/ports/*/pkeys/*")
            for key in [(text(path) or "").strip()]
            if key and int(key, 16)
        ],
        "modules": loaded,
        "modules_at_boot": lines_of("modules-load.d/*.conf"),
        # The unit by which a vendor's driver (DOCA-OFED, MLNX_OFED) loads its modules itself.
        "openibd_enabled": output("systemctl", "is-enabled", "openibd.service") is not None,
        "udev_rules": [line for line in lines_of("udev/rules.d/*.rules") if "rxe" in line],
    }


def versions():
    """Versions of what has a minimum version, as driver and programs print them; None where it is absent."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    devices = glob.glob("/sys/class/infiniband/*/fw_ver")
    return {
        "driver": text("/sys/module/nvidia/version"),
        "nvcc": output(nvcc, "--version"),
        "dcgmi": output("dcgmi", "--version"),
        "dcgm_exporter": output("dcgm-exporter", "--version"),
        "firmware": sorted(
            {
                (text(path) or "").strip()
                for path in devices
                if (text(os.path.dirname(path) + "/device/vendor") or "").strip() == "0x15b3"
            }
        ),
    }


def lines_of(pattern):
    """Lines that are no comment, of files that a distribution or an administrator may have put there."""
    found = []
    for folder in ("/etc", "/run", "/lib", "/usr/lib"):
        for path in glob.glob(os.path.join(folder, pattern)):
            found += [line.strip() for line in (text(path) or "").splitlines()]
    return sorted({line for line in found if line and not line.startswith(("#", ";"))})


def main():
    asked = "; ".join(f"ulimit -{kind} -{what}" for what in "ln" for kind in "SH")
    login = (output("su", "-s", "/bin/sh", "nobody", "-c", asked) or "").split()
    files = sorted(path for folder in NETPLAN for path in glob.glob(folder + "/*.yaml"))
    state = {
        "addresses": json.loads(output("ip", "-j", "address", "show") or "null"),
        "routes": json.loads(output("ip", "-j", "route", "show", "default") or "null"),
        "rules": json.loads(output("ip", "-j", "rule") or "[]")
        + json.loads(output("ip", "-6", "-j", "rule") or "[]"),
        "tables": json.loads(output("ip", "-j", "route", "show", "table", "all") or "[]"),
        "arp": arp(),
        "netplan": {path: file_state(path) for path in files},
        "governors": governors(),
        "login_memlock": login[:2],
        "login_nofile": login[2:],
        "service_memlock": (output("systemctl", "show", "--property", "DefaultLimitMEMLOCK") or "").strip(),
        "service_nofile": (output("systemctl", "show", "--property", "DefaultLimitNOFILE") or "").strip(),
        "rank_wrapper": os.access("/usr/local/bin/railyard-bind", os.X_OK),
        "nccl": {
            path: file_state(path)
            for path in (
                "/etc/nccl.conf",
                "/etc/railyard/nccl.env",
                "/etc/enroot/environ.d/60-railyard-nccl.env",
            )
        },
        "ucx": file_state("/etc/railyard/ucx.env"),
        "tools": {tool: shutil.which(tool) for tool in TOOLS},
        "versions": versions(),
        "listening": (output("ss", "-H", "-l", "-n", "-t", "-u", "-p") or "").splitlines(),
        "processes": processes(),
        "units": (
            output("systemctl", "list-units", "--all", "--no-legend", "--plain", "railyard-*") or ""
        ).splitlines(),
        "pending": os.path.exists("/var/lib/railyard/rail_network/pending.json"),
    }
    state.update(netdevs())
    state.update(rdma())
    state.update(tuning())
    state.update(clock())
    state.update(interrupts())
    state.update(rings())
    print("railyard-state " + json.dumps(state))


main()

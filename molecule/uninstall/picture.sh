#!/bin/sh
# What a node is, as text: two pictures that are equal show the same node.
set -e
export LC_ALL=C
echo "== packages"
dpkg-query --show --showformat '${Package} ${Version} ${db:Status-Abbrev}\n'
echo "== files"
# ld.so.cache is made anew by each library that comes or goes; group- and its like are adduser's copies of the day before.
find_all() {
  find /etc /usr/local /root/.ssh /var/lib/railyard ! -path /etc/ld.so.cache ! -path '/etc/*[dwp]-' "$@" 2>/dev/null
}
find_all \( -type f -o -type l \) -printf '%p %M %U:%G %l\n' | sort
find_all -type f -exec sha256sum {} + | sort -k 2
echo "== folders"
find /etc /var/lib/railyard -type d 2>/dev/null | sort
echo "== units"
systemctl list-unit-files --no-legend --no-pager | grep -v transient | sort
systemctl show --property DefaultLimitMEMLOCK,DefaultLimitNOFILE
# Its word is part of the picture; its status only says that word again.
systemctl is-active iperf3.service || true
echo "== kernel"
# What a node does not have it has in neither picture.
grep -d skip -s . /proc/sys/net/core/[rw]mem_max /proc/sys/net/core/netdev_max_backlog /proc/sys/net/core/default_qdisc \
  /proc/sys/net/ipv4/tcp_[rw]mem /proc/sys/net/ipv4/tcp_mtu_probing /proc/sys/kernel/numa_balancing \
  /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor \
  /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference \
  /sys/devices/system/cpu/cpu*/cpuidle/state*/disable /sys/kernel/mm/transparent_hugepage/* || true
# A port without rings, and a node without ethtool, answer with an error: both pictures lack them.
for port in /sys/class/net/*/device; do
  port=${port%/device}
  ethtool -g "${port##*/}" 2>/dev/null || true
done
ulimit -H -l

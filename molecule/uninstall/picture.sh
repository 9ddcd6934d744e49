#!/bin/sh
# What a node is, as text: two pictures that are equal show the same node.
set -e
export LC_ALL=C
echo "== packages"
dpkg-query --show --showformat '${Package} ${Version} ${db:Status-Abbrev}\n'
echo "== files"
# ld.so.cache is made anew by each library that comes or goes; group- and its like are adduser's copies of the day before.
find /etc /usr/local /root/.ssh /var/lib/railyard ! -path /etc/ld.so.cache ! -path '/etc/*[dwp]-' \( -type f -o -type l \) \
  -printf '%p %M %U:%G %l ' -exec sh -c 'test -L "$1" || sha256sum < "$1"; echo' _ {} \; 2>/dev/null | sort
echo "== folders"
find /etc /var/lib/railyard -type d 2>/dev/null | sort
echo "== units"
systemctl list-unit-files --no-legend --no-pager | sort
# Its word is part of the picture; its status only says that word again.
systemctl is-active iperf3.service || true
echo "== kernel"
cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem /proc/sys/net/ipv4/tcp_mtu_probing
# A node without a governor has none in either picture.
cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor \
  /sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference \
  /sys/devices/system/cpu/cpu*/cpuidle/state*/disable /sys/kernel/mm/transparent_hugepage/* 2>/dev/null || true
ulimit -H -l

#!/bin/sh
# What unattended-upgrades would upgrade: first with the driver's packages held, as the role leaves them, then with the
# hold taken off. Of apt it sees the vendor's repository alone, and no pins: what keeps the driver is the hold.
set -e
parts="doca-ofed mlnx-ofed-kernel-dkms mlnx-ofed-kernel-utils"
export APT_CONFIG=/run/unattended.conf LC_ALL=C
cat > "$APT_CONFIG" <<'CONF'
Unattended-Upgrade::Origins-Pattern:: "origin=Railyard test";
Dir::Etc::sourcelist "/etc/apt/sources.list.d/railyard-rdma-stack.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
CONF
would() {
  unattended-upgrade --dry-run --debug 2>&1 | sed -n "s/^.*Packages that will be upgraded:/$1:/p"
}
would held
apt-mark unhold $parts > /dev/null
trap 'apt-mark hold $parts > /dev/null; rm "$APT_CONFIG"' EXIT
would free

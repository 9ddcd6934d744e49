#!/bin/sh
# Installs Railyard from this archive, without a network:  ./install.sh [FOLDER]    (default: railyard/ beside it)
# Exit status 2: a file of the archive is missing or changed, or no fitting Python is here; nothing was installed.
set -eu
cd "$(dirname "$0")"
folder=${1:-$PWD/railyard}
wanted=$(cat python-version)

say() { printf 'install: %s\n' "$*" >&2; }

if ! bad=$(LC_ALL=C sha256sum --quiet --check SHA256SUMS 2>&1); then
  say "these files of the archive are missing or changed:"
  printf '%s\n' "$bad" | sed -n 's/: FAILED.*//p' | sort -u | sed 's/^/  /' >&2
  say "copy the archive again, and compare its checksum with the release's SHA256SUMS"
  exit 2
fi
for python in "python$wanted" python3; do
  found=$("$python" -c 'import sys, ensurepip, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  [ "$found" = "$wanted" ] && break
  found=
done
if [ -z "${found:-}" ]; then
  say "Python $wanted with its venv module is not here; the archive's packages are built for it (apt: python$wanted-venv)"
  exit 2
fi
if [ -e "$folder" ] && [ ! -e "$folder/pyvenv.cfg" ]; then
  say "$folder is there and is no virtual environment: name another folder, or remove it"
  exit 2
fi
"$python" -m venv --clear "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links wheels --upgrade wheels/railyard-*.whl
say "ready: $folder/bin/railyard ($("$folder/bin/railyard" --version))"

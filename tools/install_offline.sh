#!/bin/sh
# Installs Railyard from this archive, without a network:  ./install.sh [FOLDER]    (default: railyard/ beside it)
# Exit status 2: a file of the archive is missing or changed, no fitting Python is here, or FOLDER is something else;
# nothing was installed. A former installation in FOLDER is kept until the new one works.
set -eu
say() { printf 'install: %s\n' "$*" >&2; }

case ${1:-} in
  -*) sed -n 's/^# //p' "$0" | head -n 3; exit 2 ;;
  '') folder='' ;;
  /*) folder=$1 ;;
  *) folder=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
folder=${folder:-$PWD/railyard}
wanted=$(cat python-version)

say "comparing the archive's files with SHA256SUMS"
if ! [ -s SHA256SUMS ]; then
  say "SHA256SUMS is missing or empty: copy the archive again"
  exit 2
fi
if ! bad=$(LC_ALL=C sha256sum --quiet --strict --check SHA256SUMS 2>&1); then
  say "these files of the archive are missing or changed, or their line in SHA256SUMS is:"
  printf '%s\n' "$bad" | sed -n -e 's/: FAILED.*//p' -e 's/.*improperly formatted.*/SHA256SUMS/p' |
    sort -u | sed 's/^/  /' >&2
  say "copy the archive again, and compare its checksum with the release's SHA256SUMS"
  exit 2
fi
for python in "python$wanted" python3; do
  found=$("$python" -c 'import sys, ensurepip, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  [ "$found" = "$wanted" ] && break
  found=
done
if [ -z "${found:-}" ]; then
  say "Python $wanted with its venv module is not in PATH; the archive's packages are built for it (apt: python$wanted-venv)"
  exit 2
fi
if [ -e "$folder" ] && ! { [ -e "$folder/pyvenv.cfg" ] && [ -e "$folder/bin/railyard" ]; }; then
  say "$folder is there and is no installation of Railyard: name another folder, or remove it"
  exit 2
fi
before=$folder.before
if [ -e "$folder" ]; then
  rm -rf "$before"
  mv "$folder" "$before"
fi
restore() {
  rm -rf "$folder"
  [ ! -e "$before" ] || mv "$before" "$folder"
  say "not installed; what was in $folder before is there again"
}
trap 'restore; exit 1' EXIT INT TERM
say "installing into $folder (about a minute)"
"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links wheels wheels/railyard-*.whl
version=$("$folder/bin/railyard" --version)
trap - EXIT INT TERM
rm -rf "$before"
say "ready: $folder/bin/railyard ($version)"

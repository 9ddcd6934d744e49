"""tools/setup: what it installs, and when it makes the environment anew; by a stand-in interpreter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from railyard.base import paths

REPO = paths.repo_root()
BUILD = "requirements/python3.12-build.txt"
RUN, DEVELOP = "requirements/python3.12.txt", "requirements/python3.12-develop.txt"
# Answers as setup asks an interpreter, makes an "environment" of a copy of itself, and notes pip's words.
PYTHON = """\
#!/bin/sh
case "$1 $2" in
  "- ") echo "$0" ;;
  "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo new >>"$LOG" ;;
  "-m pip") echo "$*" >>"$LOG"; for word; do case $word in /dev/fd/*) cat "$word" >first-pins ;; esac; done ;;
  "-m railyard.lab.prepare") echo "$*" >>"$LOG" ;;
  -c*) echo 3.12 ;;
esac
"""


@pytest.fixture
def setup(tmp_path):
    for name in ("tools/setup", BUILD, RUN, DEVELOP, "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPO / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    log = tmp_path / "log"
    env = {**os.environ, "RAILYARD_PYTHON": str(tmp_path / "python"), "LOG": str(log)}
    env.pop("RAILYARD_VENV", None)

    def run(*argv):
        """Return the pins that were installed, behind `new` where the environment was made for them."""
        log.write_text("")
        subprocess.run(["tools/setup", *argv], cwd=tmp_path, env=env, check=True, capture_output=True)
        return re.findall(r"^new|(?<= -r)\S+", log.read_text(), re.MULTILINE)

    run.folder, run.env = tmp_path, env
    return run


def add_programs(setup, **scripts):
    """Put programs of our own before all others on the PATH; `_` of a name stands for `-`."""
    folder = setup.folder / "programs"
    folder.mkdir()
    for name, text in scripts.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    setup.env["PATH"] = f"{folder}:{setup.env['PATH']}"


def test_users_get_what_they_run_and_developers_the_rest_in_addition(setup):
    assert setup() == ["new", BUILD, RUN]
    assert setup() == []
    assert setup("--develop") == [BUILD, RUN, DEVELOP]
    assert setup("--develop") == []
    assert setup() == []  # `make demo` after `make test` takes nothing away


def test_pip_takes_nothing_that_has_no_hash(setup):
    """What builds the package included: for an isolated build pip downloads the newest of what it needs."""
    setup("--develop")
    installed = [line for line in (setup.folder / "log").read_text().splitlines() if " install " in line]
    assert len(installed) == 2
    assert "--require-hashes" in installed[0]
    assert {"--no-build-isolation", "--no-index", "--no-deps"} <= set(installed[1].split())


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_what_builds_the_package_is_pinned(version):
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["build-system"]
    pins = (REPO / f"requirements/python{version}-build.txt").read_text()
    names = [re.match(r"[\w-]+", one)[0] for one in project["requires"]]
    assert names == re.findall(r"(?m)^([\w-]+)==\S+ \\\n +--hash=sha256:[0-9a-f]{64}$", pins)


@pytest.mark.parametrize("changed", [BUILD, RUN, DEVELOP, "pyproject.toml"])
def test_other_pins_make_the_environment_anew(setup, changed):
    setup("--develop")
    text = (setup.folder / changed).read_text()
    (setup.folder / changed).write_text(f"# another\n{text}")
    assert setup("--develop") == ["new", BUILD, RUN, DEVELOP]


def test_the_lines_of_the_readme_work_as_they_are_typed(tmp_path):
    """After `make setup` up to the plan; a bare PATH, as a new user has it."""
    block = re.search(
        r"^```\n(make setup .*?)^```", (REPO / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )[1]
    lines = block.replace("\\\n", " ").splitlines()
    on_nodes = tuple(f"railyard {verb}" for verb in ("site", "validate", "sweep", "verify"))
    typed = [line for line in lines if not line.startswith(on_nodes)]
    assert len(typed) == len(lines) - 3
    # There are no such nodes here to discover.
    (place,) = [number for number, line in enumerate(typed) if line.startswith("railyard discover -o ")]
    typed[place] = (
        "railyard new-inventory --nodes 'gpu[001-032]' --rails 8 --transport roce --netdev 'ens{rail}np0' "
        "inventories/mine"
    )
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "inventories").mkdir()
    script = "set -e\nmake() { :; }\n" + "\n".join(typed)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "gpu[001-032] " in done.stdout
    assert (tmp_path / "plan.svg").exists()


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_what_the_package_imports_is_pinned_for_users_and_no_tool_of_the_checks(version):
    def names(path):
        lines = (REPO / path).read_text().lower().splitlines()
        return {line.split("==")[0] for line in lines if re.match(r"[a-z]", line)}

    run = names(f"requirements/python{version}.txt")
    develop = names(f"requirements/python{version}-develop.txt")
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    assert {re.match(r"[A-Za-z0-9-]+", one)[0].lower() for one in project["dependencies"]} <= run
    assert not run & {"molecule", "mypy", "ruff", "ansible-lint", "yamllint", "hypothesis"}
    assert not run & develop


@pytest.fixture
def slow_setup(setup):
    """A set-up whose pip writes like the real one, waits until that is reported and ends with $PIP_STATUS."""
    program = setup.folder / "python"
    slow = """\
  *"--require-hashes"*)
    printf 'Collecting a==1\\nWARNING: no such index\\nRequirement already satisfied: b==2\\n'
    until grep -q "are found" "$SEEN"; do sleep 0.1; done
    [ "$PIP_STATUS" = 0 ] || { echo "ERROR: no matching distribution" >&2; exit 1; }
    mkdir -p "$(dirname "$0")/../lib/python3.12/site-packages/a-1.dist-info"
    printf 'Installing collected packages: a, b\\n'
    until grep -q "are in place" "$SEEN"; do sleep 0.1; done ;;
"""
    program.write_text(PYTHON.replace('case "$1 $2" in\n', f'case "$*" in\n{slow}esac\ncase "$1 $2" in\n'))
    (setup.folder / RUN).write_text("a==1 \\\n    --hash=sha256:00\nb==2\n")
    (setup.folder / BUILD).write_text("c==3\n")

    def run(status=0):
        return reported(setup, PIP_STATUS=str(status))

    return run


def reported(setup, *argv, **more):
    """Run the set-up; its output is in a file, $SEEN, so that a stand-in can wait for a line of it."""
    seen = setup.folder / "seen"
    env = setup.env | {"RAILYARD_PROGRESS_EVERY_S": "1", "SEEN": str(seen), **more}
    with seen.open("w") as output:
        done = subprocess.run(
            ["tools/setup", *argv], cwd=setup.folder, env=env, check=False,
            stdout=output, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    return subprocess.CompletedProcess(done.args, done.returncode, seen.read_text(), done.stderr)


def test_while_packages_are_installed_it_reports_how_far_it_is_and_for_how_long(slow_setup):
    done = slow_setup()
    assert done.returncode == 0, done.stderr
    assert re.search(r"setup:   \.venv \(\d+ s so far\): 2 of 3 packages are found", done.stdout)
    assert re.search(r"setup:   \.venv \(\d+ s so far\): 1 of 3 packages are in place", done.stdout)
    assert "the 3 packages in" in done.stdout
    assert "WARNING" not in done.stdout + done.stderr


def test_packages_that_cannot_be_installed_end_it_with_pip_s_error(slow_setup):
    done = slow_setup(status=1)
    assert done.returncode == 1
    assert "ERROR: no matching distribution" in done.stderr
    assert "ready" not in done.stdout


def test_how_far_apt_is_comes_from_its_last_line_for_programs(setup):
    lines = [
        "pmstatus:dpkg-exec:0.0000:Running dpkg",
        "Preparing to unpack",
        "pmstatus:podman:45.5:Unpacking podman",
    ]
    add_programs(
        setup,
        dpkg_query="exit 1",
        sudo='[ "$1" = -n ] && shift; exec "$@"',
        apt_get="case \"$*\" in *' install '*) ;; *) exit;; esac\n"
        f"printf '%s\\n' {' '.join(map(repr, lines))}\n"
        'until grep -q Unpacking "$SEEN"; do sleep 0.1; done',
    )
    done = reported(setup, "--check")
    assert done.returncode == 0, done.stderr
    assert "installing 2 Debian packages: shellcheck netplan.io" in done.stdout
    assert re.search(r"setup:   apt-get install \(\d+ s so far\): 45 %, Unpacking podman", done.stdout)


def unpacking(setup, apt_get):
    """Give the set-up an apt-get, and a dpkg-deb that writes a file of the package's name."""
    add_programs(
        setup,
        dpkg_query="echo installed",
        sudo='exec "$@"',
        apt_get=apt_get,
        dpkg_deb='[ -e "$2" ] && touch "$3/$(basename "$2")"',
    )


FETCHED = ["prometheus", "prometheus-alertmanager", "prometheus-node-exporter"]
SIMULATOR = ["ibsim-utils", "infiniband-diags", "opensm"]
# apt 2.6 on Debian 12, shortened: the name of a library package differs between releases, libc6 is there.
PLANNED = """\
Inst libc6 [2.36-9+deb12u10] (2.36-9+deb12u14 Debian:12.15/oldstable [amd64])
Inst libibumad3 (44.0-2 Debian:12.15/oldstable [amd64])
Conf libibumad3 (44.0-2 Debian:12.15/oldstable [amd64])"""
APT_GET = f"""
echo "apt-get $*" >>"$LOG"
case "$*" in
  *--simulate*) echo "{PLANNED}" ;;
  *) shift 2; for name; do touch "${{name}}_1_all.deb"; done ;;
esac
"""


def test_packages_for_tests_are_unpacked_once_and_installed_nowhere(setup):
    unpacking(setup, APT_GET)
    setup("--check")
    log = (setup.folder / "log").read_text()
    assert f"apt-get -qq download {' '.join(FETCHED)}\n" in log
    assert f"apt-get -qq download {' '.join(sorted([*SIMULATOR, 'libibumad3']))}\n" in log
    assert all("--simulate" in line for line in log.splitlines() if re.match("apt-get .*install ", line))
    for folder, names in ("prometheus", FETCHED), ("ibsim", [*SIMULATOR, "libibumad3"]):
        tree = setup.folder / ".cache" / folder / "tree"
        assert {one.name for one in tree.iterdir()} == {f"{name}_1_all.deb" for name in names}
    setup("--check")
    assert "apt-get" not in (setup.folder / "log").read_text()
    setup("--develop")
    assert "apt-get" not in (setup.folder / "log").read_text()


def test_without_packages_the_set_up_ends_well_and_says_what_is_skipped(setup):
    unpacking(setup, "exit 100")
    done = reported(setup, "--check")
    assert done.returncode == 0, done.stderr
    assert "prometheus could not be fetched: tests that need it will be skipped" in done.stdout
    assert "ready: " in done.stdout
    assert "ibsim-utils could not be fetched: tests that need it will be skipped" in done.stdout
    # It is tried again.
    assert not list(setup.folder.glob(".cache/*/complete"))


def test_the_image_of_the_lab_is_built_while_pip_installs_the_rest(setup):
    # Every Debian package is there.
    add_programs(setup, dpkg_query="echo installed", sudo='exec "$@"')
    log = setup.folder / "log"
    for is_new in (True, False):
        setup("--lab", "vm", "topology.yml", "noble")
        assert ("-m railyard.lab.prepare topology.yml noble" in log.read_text().splitlines()) == is_new
    # PyYAML comes before it, with its hashes and alone.
    first = (setup.folder / "first-pins").read_text()
    assert re.findall(r"^(\S+)==", first, re.MULTILINE) == ["PyYAML"]
    assert "--hash=sha256:" in first

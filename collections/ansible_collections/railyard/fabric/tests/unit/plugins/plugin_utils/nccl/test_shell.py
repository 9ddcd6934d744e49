# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test what the programs of a script see, against bash itself and along branches."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import env_file, shell_tree
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.lint import lint

# Prints its environment; stands for the program of a job and for launchers without options of their own.
_PROGRAM = """#!/bin/sh
for name in $(env | grep -o "^NCCL_[A-Z_]*" | sort); do eval echo "$name=\\$$name"; done
echo --
"""


def read(text, name="x.sh"):
    return env_file.read(text, name)


def variants(text):
    """Return what each program sees, in each combination of branches."""
    return [
        [{name: one.value for name, one in variant.items()} for variant in environment.variants()]
        for environment in read(text).environments
    ]


def only(text):
    """Return what the last program of a script without branches sees."""
    found = variants(text)
    return found[-1][0] if found else {}


def unread(text):
    return [(one.line, one.name, one.harmless) for one in read(text).unread]


def reported(text, name="x.sh"):
    return [(one.line, one.severity, one.code) for one in lint(read(text, name)) if one.severity != "note"]


# Each ends with the one program whose environment is compared.
SCRIPTS = [
    "export NCCL_A=1; torchrun",
    "NCCL_A=1 torchrun",
    "NCCL_A=1; torchrun",
    "NCCL_A=1; export NCCL_A; torchrun",
    "export NCCL_A=1; NCCL_A=2; torchrun",
    "export NCCL_A; NCCL_A=2; torchrun",
    "export NCCL_A=1; export -n NCCL_A; torchrun",
    "export NCCL_A=1; unset NCCL_A; torchrun",
    "declare -x NCCL_A=1; typeset NCCL_B=2; readonly NCCL_C=3; torchrun",
    "set -a; NCCL_A=1; set +a; NCCL_B=1; torchrun",
    "set -o allexport; NCCL_A=1; torchrun",
    "export NCCL_A='a b' NCCL_B=\"c d\" NCCL_C=e\\ f; torchrun",
    "X=1; export NCCL_A=\"$X-${X}\" NCCL_B='$X' NCCL_C=$X$X; torchrun",
    'export NCCL_A=${X:-"1"} NCCL_B=${X:-\'two\'} NCCL_C=${X-three} NCCL_D="${X:-four}"; torchrun',
    'export NCCL_A="${X:-"1"}" NCCL_B="${X:-\'1\'}"; torchrun',
    "X=; export NCCL_A=${X:-1} NCCL_B=${X-2} NCCL_C=${X:+3} NCCL_D=${X+4}; torchrun",
    "X=9; export NCCL_A=${X:-1} NCCL_B=${X-2} NCCL_C=${X:+3} NCCL_D=${X+4}; torchrun",
    "unset X; export NCCL_A=$X.; torchrun",
    ": ${X:=5}; export NCCL_A=$X; torchrun",
    "A=(x 'y z'); A+=(w); export NCCL_A=\"${A[*]}\" NCCL_B=$A; torchrun",
    "export NCCL_A=1; NCCL_A+=2; torchrun",
    "f() { export NCCL_A=$1; local NCCL_B=2; NCCL_C=3; }; f one; torchrun",
    "export NCCL_A=1; f() { local NCCL_A=2; torchrun; }; f",
    "export NCCL_A=1; f() { local NCCL_A=2; }; f; torchrun",
    "f() { return; export NCCL_A=1; }; f; export NCCL_B=1; torchrun",
    "(export NCCL_A=1); torchrun",
    "{ export NCCL_A=1; }; torchrun",
    "export NCCL_A=1 | cat; export NCCL_B=$(export NCCL_C=1; echo 2); export NCCL_B=3; torchrun",
    "eval 'export NCCL_A=1'; torchrun",
    "X='NCCL_A=1 NCCL_B=2'; export $X; torchrun",
    "X='NCCL_A=1 NCCL_B=2'; eval \"export $X\"; torchrun",
    "bash -c 'export NCCL_A=1; torchrun'",
    "env NCCL_A=1 torchrun",
    'export NCCL_A=1; env -i PATH="$PATH" NCCL_B=2 torchrun',
    "export NCCL_A=$((4*1024)) NCCL_B=$((1<<20)) NCCL_C=$(( 2 * 3 * 4 )); torchrun",
    "export NCCL_A=$'a\\tb'; torchrun",
    "true && export NCCL_A=1; torchrun",
    "for i in 1 2; do export NCCL_A=$i; done; torchrun",
    "L=; for i in 1 2; do L=$L,$i; done; export NCCL_A=$L; torchrun",
    "export NCCL_A=1 # NCCL_B=2\n# export NCCL_C=3\ntorchrun",
    "export NCCL_A=1 \\\n  NCCL_B=2\ntorchrun",
    "bash <<EOF\nexport NCCL_A=1\ntorchrun\nEOF",
    "X=1; bash <<EOF\nexport NCCL_A=$X\ntorchrun\nEOF",
    "exec env NCCL_A=1 torchrun",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_program_sees_what_bash_gives_it(script, tmp_path):
    program = tmp_path / "torchrun"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    shown = ran.stdout.split("--\n")[-2]
    expected = dict(line.split("=", 1) for line in shown.splitlines())
    # The program's own printing drops doubled blanks, and so does this.
    assert {name: " ".join(value.split()) for name, value in only(script).items()} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpirun -x NCCL_A=1 x", {"NCCL_A": "1"}),
        ("out=$(mpirun -x NCCL_A=1 x 2>&1)", {"NCCL_A": "1"}),
        ("out=`mpirun -x NCCL_A=1 x`", {"NCCL_A": "1"}),
        ('E="-x PATH=$PATH -x NCCL_A=1"\nmpirun $E x', {"NCCL_A": "1"}),
        ('E="-x NCCL_A=1"\nE="$E -x NCCL_B=2"\nmpirun ${E} x', {"NCCL_A": "1", "NCCL_B": "2"}),
        ('E=(-x NCCL_A="a b")\nE+=(-x NCCL_B=2)\nmpirun "${E[@]}" x', {"NCCL_A": "a b", "NCCL_B": "2"}),
        ('E="mpirun -x NCCL_A=1"\n$E x', {"NCCL_A": "1"}),
        ('E="mpirun -x NCCL_A=1 x"\neval $E', {"NCCL_A": "1"}),
        ("export NCCL_A=0\nmpirun -x NCCL_A=1 x", {"NCCL_A": "1"}),
        ("export NCCL_A=0\nmpirun -x NCCL_A -x NCCL_B=1 x", {"NCCL_A": "0", "NCCL_B": "1"}),
        ("export NCCL_A=0\nsrun --export=ALL,NCCL_B=1 x", {"NCCL_A": "0", "NCCL_B": "1"}),
        ("export NCCL_A=0\nsrun --export=NCCL_B=1 x", {"NCCL_B": "1"}),
        ("srun --export=ALL,NCCL_A=$X,NCCL_B=1 x", {"NCCL_A": None, "NCCL_B": "1"}),
        ("srun --export=\"ALL,NCCL_A='a,b',NCCL_B=1\" x", {"NCCL_A": "a,b", "NCCL_B": "1"}),
        ("srun --export ALL,NCCL_A=1,HOME,NCCL_B=2 x", {"NCCL_A": "1", "NCCL_B": "2"}),
        ("#SBATCH --export=ALL,NCCL_A=1\nsrun x", {"NCCL_A": "1"}),
        ("srun bash -c 'NCCL_A=1 python x'", {"NCCL_A": "1"}),
        ("srun --mpi=pmix env NCCL_A=1 x", {"NCCL_A": "1"}),
        ("mpiexec -genv NCCL_A 1 -env NCCL_B 2 x", {"NCCL_A": "1", "NCCL_B": "2"}),
        ("mpirun --mca mca_base_env_list 'NCCL_A=1;B=2' x", {"NCCL_A": "1"}),
        ("docker run -e NCCL_A=1 --env NCCL_B=2 --env=NCCL_C=3 i",
         {"NCCL_A": "1", "NCCL_B": "2", "NCCL_C": "3"}),
        ("docker exec -e NCCL_A=1 c x", {"NCCL_A": "1"}),
        ("apptainer exec --nv --env NCCL_A=1,NCCL_B=2 i x", {"NCCL_A": "1", "NCCL_B": "2"}),
        ("export APPTAINERENV_NCCL_A=1\napptainer exec i x", {"NCCL_A": "1"}),
        ("NCCL_A=1 deepspeed --num_gpus 8 x", {"NCCL_A": "1"}),
        ("sudo NCCL_A=1 timeout 5 mpirun x", {"NCCL_A": "1"}),
        ("ssh h NCCL_A=1 x", {"NCCL_A": "1"}),
        ("ssh h 'cd x && NCCL_A=1 mpirun x'", {"NCCL_A": "1"}),
        ("setenv NCCL_A 1\nsrun x", {"NCCL_A": "1"}),
        ("mpirun -x NCCL_A=1 x\nexport NCCL_B=2\npython y", {"NCCL_B": "2"}),
    ],
)  # fmt: skip
def test_what_launchers_hand_on(text, expected):
    assert only(text) == expected
    assert [one for one in unread(text) if not one[2]] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a; then export NCCL_A=1; else export NCCL_A=2; fi\nsrun x", [{"NCCL_A": "1"}, {"NCCL_A": "2"}]),
        ("if a; then export NCCL_A=1; fi\nsrun x", [{"NCCL_A": "1"}, {}]),
        ("if a; then V=1; elif b; then V=2; else V=3; fi\nmpirun -x NCCL_A=$V x",
         [{"NCCL_A": "1"}, {"NCCL_A": "2"}, {"NCCL_A": "3"}]),
        # What is set in one arm is not combined with what is set in the other.
        ("if a; then export NCCL_A=1 NCCL_B=1; else export NCCL_C=1; fi\nsrun x",
         [{"NCCL_A": "1", "NCCL_B": "1"}, {"NCCL_C": "1"}]),
        ("case $1 in a) export NCCL_A=1;; b) export NCCL_A=2;; *) exit 1;; esac\nsrun x",
         [{"NCCL_A": "1"}, {"NCCL_A": "2"}]),
        ("case $1 in a) export NCCL_A=1;; esac\nsrun x", [{"NCCL_A": "1"}, {}]),
        ("if a; then echo usage; exit 1; fi\nexport NCCL_A=1\nsrun x", [{"NCCL_A": "1"}]),
        ("[ -n \"$D\" ] && export NCCL_A=1\nsrun x", [{"NCCL_A": "1"}, {}]),
        ("a || export NCCL_A=1\nsrun x", [{"NCCL_A": "1"}, {}]),
        ("cd /x && export NCCL_A=1\nsrun x", [{"NCCL_A": "1"}]),
        ("while a; do export NCCL_A=1; done\nsrun x", [{"NCCL_A": "1"}, {}]),
        ("mpirun ${D:+-x NCCL_A=1} -x NCCL_B=1 x", [{"NCCL_A": "1", "NCCL_B": "1"}, {"NCCL_B": "1"}]),
        ("if a; then mpirun -x NCCL_A=1 x; fi", [{"NCCL_A": "1"}]),
        ("f() { export NCCL_A=1; }\nif a; then f; fi\nsrun x", [{"NCCL_A": "1"}, {}]),
    ],
)  # fmt: skip
def test_branches(text, expected):
    found = variants(text)[-1]
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The same in all branches, whichever is taken.
        ("if a; then export NCCL_P2P_DISABLE=1; else export NCCL_P2P_DISABLE=1; fi\nsrun x",
         [(1, "error", "no_p2p")]),
        ("if a; then export NCCL_P2P_DISABLE=1; fi\nsrun x", [(1, "unknown", "no_p2p")]),
        # A program that runs in one branch alone sees it whenever it runs.
        ("if a; then export NCCL_P2P_DISABLE=1; srun x; fi", [(1, "error", "no_p2p")]),
        # Not in the same branch: no contradiction.
        ("if a; then export NCCL_NET=IB; else export NCCL_IB_DISABLE=1; fi\nsrun x",
         [(1, "unknown", "no_rdma")]),
        # Seen where it was set, and handed on under the same name: not once more at the end.
        ("if a; then\nexport NCCL_P2P_DISABLE=1\nmpirun -x NCCL_P2P_DISABLE=$NCCL_P2P_DISABLE x | tee log\n"
         "else\ny\nfi\nexit 0", [(3, "error", "no_p2p")]),
        # Set where no program ran yet, beside a branch that started some.
        ("if a; then\nmpirun x\nmpirun x\nelse\nexport NCCL_P2P_DISABLE=1\nfi\n./run",
         [(5, "unknown", "no_p2p")]),
        # What the shell puts into a file.
        ("X=106\ncat > x.env <<EOF\nNCCL_IB_TC=$X\nEOF", []),
        # No environment of a half-read command.
        ("export NCCL_DEBUG=WARN\n./x\nmpirun -x NCCL_DEBUG_SUBSYS=NET -x NCCL_DEBUG=INFO x",
         [(3, "warning", "debug"), (3, "warning", "debug")]),
        # What all forms of one command have in common is certain.
        ("export NCCL_DEBUG=WARN\nx\nif a; then V=1; else V=2; fi\n"
         "mpirun -x NCCL_P2P_DISABLE=1 -x NCCL_IB_TC=$V x", [(4, "error", "no_p2p")]),
        # A name that NCCL does not know is one wherever it is set.
        ("if a; then export NCCL_IB_DISABL=1; fi\nsrun x", [(1, "error", "unknown")]),
        # Each program by itself.
        ("NCCL_NET=IB mpirun x\nNCCL_IB_DISABLE=1 mpirun x", [(2, "warning", "no_rdma")]),
        ("export NCCL_P2P_DISABLE=1\n./run\nunset NCCL_P2P_DISABLE\n./run", [(1, "error", "no_p2p")]),
        ("export NCCL_P2P_DISABLE=1\nunset NCCL_P2P_DISABLE\n./run", []),
        ("export NCCL_P2P_DISABLE=1\nexport NCCL_P2P_DISABLE=0\n./run", []),
        ("".join(f"if a; then export NCCL_A{n}_=1; fi\n" for n in range(18)),
         None),
    ],
)  # fmt: skip
def test_findings_along_branches(text, expected):
    found = reported(text)
    if expected is None:
        assert {severity for _line, severity, _code in found} <= {"unknown", "error"}
        assert (1, "unknown", "branches") in found
    else:
        assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --env NCCL_DEBUG=INFO",
        'python - <<EOF\nos.environ["NCCL_DEBUG"] = "INFO"\nEOF',
        "cat <<EOF | frobnicate\nNCCL_DEBUG=INFO\nEOF",
        "echo NCCL_DEBUG=INFO > $SOMEWHERE",
        "sed -i 's/.*/NCCL_DEBUG=INFO/' /etc/nccl.conf",
        "E='-x NCCL_DEBUG=INFO'",
        "source /opt/x/nccl-env.sh",
        ". $NCCL_ENV_FILE",
        "export $(grep NCCL_ x.env | xargs)",
        'eval "$NCCL_SETTINGS"',
        'export NCCL_DEBUG=INFO "x\nexport NCCL_IB_TC=300\n',
        "echo 'x\nexport NCCL_IB_TC=300\n",
        "if a; then export NCCL_DEBUG=INFO\n",
        # Without its ], as in a public script: bash finds it when it runs, the parser before.
        'if [ $S == \\"a\\" || [ $S == \\"b\\"]\nthen\nmpirun -x NCCL_DEBUG=INFO x\nfi',
        "-x NCCL_DEBUG=INFO x",
        "if a; then\nexport NCCL_DEBUG=INFO\n)",
        "(" * 70 + "export NCCL_DEBUG=INFO" + ")" * 70,
        "mpirun $(echo -x NCCL_DEBUG=INFO | tr a b) x\nfrob 'NCCL_DEBUG=INFO'",
    ],
)
def test_what_is_not_read_is_unknown(text):
    assert any(not harmless for _line, _name, harmless in unread(text)), read(text)
    assert "unknown" in {severity for _line, severity, _code in reported(text)}


@pytest.mark.parametrize(
    "text",
    [
        "source /etc/profile",
        ". venv/bin/activate",
        "eval $(conda shell.bash hook)",
        "mpirun $EXTRA -np 8 x",
        "export HF_TOKEN=<token> # x\nexport NCCL_DEBUG=WARN",
    ],
)
def test_what_may_set_something_and_names_nothing_is_a_note(text):
    text += "\nexport NCCL_DEBUG=WARN"
    assert [harmless for _line, _name, harmless in unread(text)] == [True]
    assert reported(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "local nccl_exit=0\nlocal NCCL_WAIT_S=60",
        "f() { local NCCL_DEBUG=INFO; }\nf",
        "x || nccl_exit=$?",
        "echo NCCL_DEBUG=INFO",
        "echo 'NCCL_DEBUG=INFO' | grep x",
        "echo NCCL_DEBUG=$NCCL_DEBUG >> run.log",
        'if [ "$NCCL_DEBUG" = INFO ]; then x; fi',
        "[[ $X == NCCL_DEBUG=INFO ]] && x",
        "# export NCCL_DEBUG=INFO",
        "case $X in NCCL_DEBUG=*) x;; esac",
        "NCCL_TESTS_MAX=8G\n./x -e $NCCL_TESTS_MAX",
        "NCCL_DEBUG=INFO\nmpirun -np 2 x --level=$NCCL_DEBUG",
        "cmake -DNCCL_ROOT=/x",
        "make NCCL_HOME=/opt/nccl MPI=1",
        "docker build --build-arg NCCL_VERSION=2.28 .",
        "wget https://x/NCCL_VERSION=2",
        "export NCCL_CONTAINER_NAME=x\nrun $NCCL_CONTAINER_NAME",
        "unset NCCL_DEBUG",
    ],
)
def test_what_sets_nothing(text):
    assert reported(text) == []
    assert [one for one in unread(text) if not one[2]] == []


def test_what_is_for_a_batch_script_may_be_for_anything():
    text = "sbatch --export=ALL,NCCL_BEGIN_SIZE=8 x.sbatch"
    assert reported(text) == [(1, "unknown", "unknown")]


def test_a_variable_that_is_only_handed_on_is_still_nccls():
    assert reported("export NCCL_FOO_BAR=1\nmpirun -x NCCL_FOO_BAR=$NCCL_FOO_BAR x") != []


@pytest.mark.parametrize(
    ("text", "form", "line"),
    [
        ("cat > /etc/nccl.conf <<EOF\nNCCL_IB_TC='1'\nEOF", "nccl.conf", 2),
        ("x\ncat <<-EOF | sudo tee -a /etc/nccl.conf\n\tNCCL_IB_TC='1'\n\tEOF", "nccl.conf", 3),
        ('echo "NCCL_IB_TC=1" >> /etc/nccl.conf', "nccl.conf", 1),
        ("bash -c 'cat > /etc/nccl.conf' <<'EOF'\nNCCL_IB_TC=1\nEOF", "nccl.conf", 2),
        ("printf '%s\\n' NCCL_IB_TC=1 | tee /etc/environment", "env file", 1),
        ("cat > job.sbatch <<'EOF'\n#!/bin/bash\nexport NCCL_IB_TC=$X\nEOF", "script", 3),
        ("{ echo NCCL_DEBUG=INFO; echo NCCL_IB_TC=1; } > .deepspeed_env", "env file", 1),
        ("kubectl apply -f - <<EOF\nenv:\n- {name: NCCL_IB_TC, value: '1'}\nEOF", "YAML", 3),
    ],
)
def test_files_that_a_script_writes(text, form, line):
    found = read(text)
    assert [one.form for one in found.files] == [form]
    assert line in [one.line for one in found.settings if one.name == "NCCL_IB_TC"]


def test_lines_written_one_by_one_are_one_file():
    text = "echo NCCL_DEBUG_SUBSYS=NET >> x.env\necho NCCL_DEBUG=INFO >> x.env\n"
    assert "no_effect" not in {code for _line, _severity, code in reported(text)}


def test_without_the_parser_nothing_counts_as_read(monkeypatch):
    monkeypatch.setattr(shell_tree, "tree_sitter", None)
    assert reported("export NCCL_DEBUG=WARN") == [(1, "unknown", "not_read")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for n in A B; do export NCCL_$n=1; done; srun x", {"NCCL_A": "1", "NCCL_B": "1"}),
        ("n=A; declare -x NCCL_${n}_B=1; srun x", {"NCCL_A_B": "1"}),
        ("f() { local k=$1; shift; export $k=$1; }; f NCCL_A 1; srun x", {"NCCL_A": "1"}),
        ("f() { shift 2; export NCCL_A=$1; }; f 1 2 3; srun x", {"NCCL_A": "3"}),
        ("parallel 'NCCL_A=1 ./x {}' ::: 1 2", {"NCCL_A": "1"}),
        ("parallel env NCCL_A=1 ./x {} ::: 1 2", {"NCCL_A": "1"}),
        ("find . -exec env NCCL_A=1 ./x {} \\;", {"NCCL_A": "1"}),
    ],
)
def test_names_that_the_script_puts_together_and_arguments_that_it_shifts(text, expected):
    assert only(text) == expected
    assert unread(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "trap 'export NCCL_A=1' USR1; srun x",
        "alias go='NCCL_A=1 ./x'; go",
        "export NCCL_{A,B}_C=1; srun x",
        'declare -A e=([NCCL_A]=1); for k in "${!e[@]}"; do export "$k=${e[$k]}"; done; srun x',
        'setenv("NCCL_A", "1")',
        "set -gx NCCL_A 1",
        "cat > $f <<EOF\nenv:\n- name: NCCL_A\n  value: '1'\nEOF\nkubectl apply -f $f",
        'c=$(cat <<EOF\nexport NCCL_A=1\n./x\nEOF\n)\nsrun bash -c "$c"',
        "c=`cat <<'EOF'\nexport NCCL_A=1\nEOF\n`\nsrun bash -c \"$c\"",
        'c=$(echo NCCL_A=1 ./x); eval "$c"',
        "o=$(printf '%s ' -x NCCL_A=1); mpirun $o ./x",
        "f() { echo NCCL_A=1; }; env $(f) ./x",
        "f() { x; }}\nexit 0\nexport NCCL_A=1",
    ],
)
def test_what_may_set_something_in_a_form_that_is_not_read_is_unknown(text):
    assert [severity for _line, severity, code in reported(text) if code == "not_read"] == ["unknown"]


def test_a_value_that_printf_writes_is_not_known():
    assert only("printf -v NCCL_A %s 1; export NCCL_A; srun x") == {"NCCL_A": None}


def test_windows_line_ends():
    assert only("export NCCL_A=1\r\nsrun x\r\n") == {"NCCL_A": "1"}

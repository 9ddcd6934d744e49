# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read out of a file of settings, in each of its forms."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import env_file


def settings(text, name="x"):
    return [(one.line, one.name, one.value) for one in env_file.read(text, name).settings]


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("/etc/nccl.conf", "export NCCL_DEBUG=WARN\n", env_file.CONF),
        ("/home/x/.nccl.conf", "", env_file.CONF),
        ("a.env", "NCCL_DEBUG=WARN\n", env_file.ENV),
        ("-", "# a\nHOME=/root\nNCCL_DEBUG=WARN\n", env_file.ENV),
        ("a.env", "export NCCL_DEBUG=WARN\n", env_file.SHELL),
        ("job", "#SBATCH --nodes 2\nNCCL_DEBUG=WARN\n", env_file.SHELL),
        ("a.sh", "NCCL_DEBUG=WARN\n", env_file.SHELL),
    ],
)
def test_the_form_of_a_file(name, text, form):
    assert env_file.form_of(text, name) == form


def test_nccls_own_file_is_read_as_nccl_reads_it():
    text = "# NCCL_X=1\nNCCL_IB_HCA==mlx5_0:1\r\n NCCL_A=1\nNCCL_B =1\nNCCL_C= 1\n"
    text += "NCCL_D='1'\nNCCL_E=1 # x\nNCCL_F\n"
    found = env_file.read(text, "nccl.conf")
    # Those whose name is another one to NCCL are not there.
    assert [(one.name, one.value) for one in found.settings] == [
        ("NCCL_IB_HCA", "=mlx5_0:1"),
        ("NCCL_C", "1"),
        ("NCCL_D", "1"),
        ("NCCL_E", "1"),
    ]
    assert [(one.line, why.split(",")[0]) for one, why in found.odd] == [
        (3, "text beside NCCL_A before the = is part of the name"),
        (4, "text beside NCCL_B before the = is part of the name"),
        (5, "the blanks around its value are part of it"),
        (6, "its quotes are part of the value"),
        (7, "the comment behind it is part of the value"),
    ]
    assert found.lost == [8]


def test_a_value_longer_than_nccls_buffer_is_reported():
    # char envValue[1024], one byte of it the end.
    assert env_file.read(f"NCCL_IB_HCA={'m' * 1023}\n", "nccl.conf").odd == []
    assert "1023 bytes" in env_file.read(f"NCCL_IB_HCA={'m' * 1024}\n", "nccl.conf").odd[0][1]


def test_the_first_counts_in_nccls_own_file_and_the_last_elsewhere():
    text = "NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\n"
    assert env_file.read(text, "nccl.conf").counting()["NCCL_DEBUG"].value == "WARN"
    assert env_file.read(text, "a.env").counting()["NCCL_DEBUG"].value == "INFO"


def test_an_environment_as_env_prints_it():
    text = "HOME=/root\nBASH_FUNC_x%%=() {  echo\n}\nNCCL_DEBUG=WARN\nNCCL_IB_HCA\n"
    found = env_file.read(text, "-")
    assert [one.name for one in found.settings] == ["NCCL_DEBUG"]
    assert found.lost == []  # a name alone is docker's
    assert not found.empty


def test_what_a_launcher_repeats_in_an_environment_sets_nothing():
    text = "SLURM_EXPORT_ENV=ALL,NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n"
    assert env_file.read(text, "-").unread == []
    assert [one.name for one in env_file.read("X=-x NCCL_DEBUG=INFO\n", "-").unread] == ["NCCL_DEBUG"]


def test_a_text_of_another_kind_is_empty():
    assert env_file.read('{"NCCL_DEBUG": "WARN"}', "x.json").empty


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpirun -x A=a#b -x NCCL_DEBUG=INFO x", [("NCCL_DEBUG", "INFO")]),
        ("export NCCL_IB_HCA=$HCAS", [("NCCL_IB_HCA", None)]),
        ("export NCCL_A=$(x | awk '{print $5}') NCCL_B=1", [("NCCL_A", None), ("NCCL_B", "1")]),
        ("export NCCL_A=`x y` NCCL_B=1", [("NCCL_A", None), ("NCCL_B", "1")]),
        (
            "mpirun \\\n -x NCCL_ALGO=Ring -x NCCL_PROTO \\\n  -xNCCL_IB_SL=1",
            [("NCCL_ALGO", "Ring"), ("NCCL_IB_SL", "1")],
        ),
        ("cat > /etc/nccl.conf <<EOF\nNCCL_A=it's\nNCCL_B=1\nEOF", [("NCCL_A", "it's"), ("NCCL_B", "1")]),
    ],
)
def test_scripts(text, expected):
    assert [one[1:] for one in settings(text, "x.sh")] == expected


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("NCCL_A=1", [False]),
        ("B=1 NCCL_A=1; python x", [False]),
        ("NCCL_A=1 python x", [True]),
        ("NCCL_A=1 B=2 \\\n  python x", [True]),
        ("if x; then NCCL_A=1 python x; fi", [True]),
        ("if x; then\n  NCCL_A=1\nfi", [False]),
        ("if x; then NCCL_A=1; fi", [False]),
        ("export NCCL_A=1", [True]),
        ("NCCL_A=1\nexport NCCL_A", [True]),
        ("NCCL_A=1\nmpirun -x NCCL_A x", [False]),  # mpirun takes it from its own environment
        ("set -a\nNCCL_A=1", [True]),
        ("cat >x.env <<'EOF'\nNCCL_A=1\nEOF\nNCCL_B=1", [True, False]),
        ("cat <<<x\nNCCL_A=1\nx", [False]),
        ("bash <<-END\n\texport NCCL_A=1\n\tEND\n", [True]),
    ],
)
def test_what_programs_see_of_a_script(text, seen):
    assert [one.exported for one in env_file.read(text, "x.sh").settings] == seen


def test_a_here_document_is_counted_in_the_lines_below_it():
    assert settings("cat >x.env <<EOF\na\nNCCL_A=1\nEOF\nexport NCCL_B=1\n", "x.sh") == [
        (3, "NCCL_A", "1"),
        (5, "NCCL_B", "1"),
    ]


def test_lines_of_a_script_are_counted_over_continued_ones():
    assert settings("a \\\n b\nexport NCCL_A=1\n", "x.sh") == [(3, "NCCL_A", "1")]


def test_slurms_list_is_read_as_it_was_meant_and_marked():
    found = env_file.read(
        "#SBATCH --export=ALL,NCCL_IB_HCA=a,b,NCCL_DEBUG=INFO\nsrun --export=ALL,NCCL_A=1 x", "x"
    ).settings
    assert [(one.line, one.name, one.value, one.listed) for one in found] == [
        (1, "NCCL_IB_HCA", "a,b", True),
        (1, "NCCL_DEBUG", "INFO", True),
        (2, "NCCL_A", "1", True),
    ]

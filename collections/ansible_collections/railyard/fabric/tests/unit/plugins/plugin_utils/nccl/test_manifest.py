# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test what is read out of YAML."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import env_file
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import UnreadableError


def settings(text):
    return [(one.line, one.name, one.value) for one in env_file.read(text, "x.yaml").settings]


def unread(text):
    return [(one.line, one.name) for one in env_file.read(text, "x.yaml").unread if not one.harmless]


@pytest.mark.parametrize(
    "text",
    [
        "environment:\n  NCCL_A: ${A:-1}\n",
        "environment:\n- NCCL_A=$A\n",
        "env:\n- {name: NCCL_A, value: '${A}'}\n",
        "env:\n- {name: NCCL_A, value: !Sub '${A}'}\n",
    ],
)
def test_a_value_that_another_program_puts_in_is_not_known(text):
    assert [(name, value) for _line, name, value in settings(text)] == [("NCCL_A", None)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n- {key: NCCL_A, val: 1}\n", 2),
        ("a: {NCCL_A: {value: 1}}\n", 1),
        ("a:\n- [NCCL_A, 1]\n", 2),
        ("env:\n- {key: NCCL_A, val: 1}\n", 2),
        ("env: {NCCL_A: [1]}\n", 1),
        ("a: |\n  - op: add\n    value:\n      name: NCCL_A\n      value: 1\n", 4),
    ],
)
def test_a_name_of_nccl_in_a_form_that_is_not_read_is_unknown(text, line):
    assert unread(f"{text}---\nenv: {{NCCL_B: 1}}\n") == [(line, "NCCL_A")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env:\n- name: NCCL_A\n  value: '1'\n- {name: NCCL_B, value: \"2\"}\n",
         [(3, "NCCL_A", "1"), (4, "NCCL_B", "2")]),
        ("env:\n- name: NCCL_A\n  valueFrom: {configMapKeyRef: {name: a, key: b}}\n", [(3, "NCCL_A", None)]),
        ("env:\n- name: NCCL_A\n  value: $(HCAS)\n", [(3, "NCCL_A", None)]),
        ("env:\n- {name: NCCL_A, value: '{{ .Values.a }}'}\n", [(2, "NCCL_A", None)]),
        ("Environment:\n- Name: NCCL_A\n  Value: 1\n", [(3, "NCCL_A", "1")]),
        ("environment:\n- NCCL_A=1\n- B=2\n", [(2, "NCCL_A", "1")]),
        ("environment:\n  NCCL_A: 1\n  B: 2\n", [(2, "NCCL_A", "1")]),
        ("kind: ConfigMap\ndata:\n  NCCL_A: '1'\n", [(3, "NCCL_A", "1")]),
        ("kind: ConfigMap\ndata:\n  nccl.conf: |\n    NCCL_A=1\n    # x\n    NCCL_B=2\n",
         [(4, "NCCL_A", "1"), (6, "NCCL_B", "2")]),
        ("kind: ConfigMap\ndata:\n  run.sh: |\n    #!/bin/bash\n    export NCCL_A=1\n", [(5, "NCCL_A", "1")]),
        ("command: [bash, -c, 'NCCL_A=1 x']\n", [(1, "NCCL_A", "1")]),
        ("args: ['-c', 'NCCL_A=1 x']\ncommand: [bash]\n", [(2, "NCCL_A", "1")]),
        ("command:\n- bash\n- -c\n- |\n  x\n  NCCL_A=1 x\nenv:\n- {name: NCCL_B, value: '2'}\n",
         [(6, "NCCL_A", "1"), (8, "NCCL_B", "2")]),
        ("command:\n- mpirun\n- -x\n- NCCL_A=1\n- -x\n- NCCL_B=$(B)\n- x\n",
         [(4, "NCCL_A", "1"), (6, "NCCL_B", None)]),
        ('args:\n- bash\n- -c\n- "mpirun \\\n    -x NCCL_A=1 \\\n    x"\n', [(5, "NCCL_A", "1")]),
        ("command:\n- bash\n- -c\n- >-\n  mpirun\n  -x NCCL_A=1\n  x\n", [(6, "NCCL_A", "1")]),
        ("command:\n- bash\n- -c\n- mpirun\n  -x NCCL_A=1\n  x\n", [(5, "NCCL_A", "1")]),
        ("steps:\n- run: |\n    export NCCL_A=1\n    x\n", [(3, "NCCL_A", "1")]),
        ("a:\n  env: &e\n  - {name: NCCL_A, value: '1'}\nb:\n  env: *e\n", [(3, "NCCL_A", "1")]),
        ("b: &b {NCCL_A: 1}\nc:\n  <<: *b\n  NCCL_B: 2\n", [(1, "NCCL_A", "1"), (4, "NCCL_B", "2")]),
        ("---\nNCCL_A: 1\n---\nNCCL_A: 2\n", [(2, "NCCL_A", "1"), (4, "NCCL_A", "2")]),
        ("NCCL_A: null\nNCCL_B:\nNCCL_C: ''\n", [(3, "NCCL_C", "")]),
        ("a: !Ref NCCL_X\nNCCL_A: !Sub '1'\n", [(2, "NCCL_A", "1")]),
        ("a: &a\n  NCCL_A: 1\n  b: *a\n", [(2, "NCCL_A", "1")]),
    ],
)  # fmt: skip
def test_settings(text, expected):
    assert settings(text) == expected
    assert unread(text) == []


def test_documents_are_not_mistaken_for_each_other():
    # Each document's nodes were known by addresses that the next one's could take.
    text = "".join(f"---\nenv:\n- {{name: NCCL_A, value: '{number}'}}\n" for number in range(50))
    assert len(settings(text)) == 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("note: set NCCL_DEBUG=INFO first\n", (1, "NCCL_DEBUG")),
        ("x: ['NCCL_DEBUG=INFO']\n", (1, "NCCL_DEBUG")),
        ("options:\n  extra: -x NCCL_DEBUG=INFO\n", (2, "NCCL_DEBUG")),
        ("env:\n- name: MPI_OPTIONS\n  value: -x NCCL_DEBUG=INFO\n", (3, "NCCL_DEBUG")),
        ("command: [python, train.py, '--env', NCCL_DEBUG=INFO]\n", (1, "NCCL_DEBUG")),
        ("x:\n- source /opt/nccl_env.sh\n", (2, "")),
        ("x: |\n  import os\n  os.environ['NCCL_DEBUG'] = 'INFO'\n", (3, "NCCL_DEBUG")),
    ],
)
def test_what_is_not_read(text, expected):
    assert expected in unread(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("env:\n\t- name: NCCL_A\n", 2),
        ("env:\n{{- if .Values.x }}\n- name: NCCL_A\n{{- end }}\n", 2),
        ("a: *b\n", 1),
        ("[" * 100_000, 1),
        ("a: {" * 100_000, 1),
        ("a: b: c\n", 1),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_line(text, line):
    with pytest.raises(UnreadableError) as raised:
        env_file.read(text, "x.yaml")
    assert raised.value.line == line


def test_each_container_is_a_program_of_its_own():
    text = "a:\n- env:\n  - {name: NCCL_NET, value: IB}\n- env:\n  - {name: NCCL_IB_DISABLE, value: '1'}\n"
    seen = [sorted(one.variants()[0]) for one in env_file.read(text, "x.yaml").environments]
    assert seen == [["NCCL_NET"], ["NCCL_IB_DISABLE"]]


def test_a_command_sees_its_containers_environment():
    text = "env:\n- {name: NCCL_NET, value: IB}\ncommand: [mpirun, -x, NCCL_IB_TC=1, x]\n"
    seen = [sorted(one.variants()[0]) for one in env_file.read(text, "x.yaml").environments]
    assert seen[-1] == ["NCCL_IB_TC", "NCCL_NET"]


def test_yaml_without_settings_is_empty():
    assert env_file.read("a: 1\n", "x.yaml").empty
    assert not env_file.read("note: NCCL_DEBUG=INFO\n", "x.yaml").empty

"""managed_files by plain ansible-playbook: a role writes the bytes of Ansible's own template module."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.programs import playbook

TEMPLATE = """\
# {{ ansible_managed | default('text') }}
{% for rail in rails %}
{{ rail }}={{ some_role_value }}
{% if loop.last %}
last: "{{ lookup('ansible.builtin.file', 'data') }}"
{% endif %}
{% endfor %}

"""
TASKS = """\
- name: Write with Ansible's own module
  ansible.builtin.template:
    src: etc/a.conf.j2
    dest: "{{ node }}/template.conf"
    mode: "0644"
- name: Write
  railyard.fabric.managed_files:
    files:
      - {path: "{{ node }}/etc/a.conf", template: etc/a.conf.j2}
      - {path: "{{ node }}/b", content: "{{ some_role_value }}\\n", mode: "0755"}
    unwanted: ["{{ node }}/old", "{{ node }}/b"]
  register: done
- name: Keep the result
  ansible.builtin.copy:
    content: "{{ done }}"
    dest: "{{ node }}/result.json"
    mode: "0644"
  check_mode: false
"""


@pytest.fixture
def play(tmp_path):
    role, node = tmp_path / "roles/some_role", tmp_path / "node"
    for folder in ("tasks", "templates/etc", "defaults", "files"):
        (role / folder).mkdir(parents=True)
    node.mkdir()
    (node / "old").write_text("old\n")
    (role / "templates/etc/a.conf.j2").write_text(TEMPLATE)
    (role / "tasks/main.yml").write_text(TASKS)
    (role / "defaults/main.yml").write_text("some_role_value: é 1\n")
    (role / "files/data").write_text("of the role\n")
    (tmp_path / "play.yml").write_text(
        "- hosts: localhost\n  connection: local\n  gather_facts: false\n  roles: [some_role]\n"
    )

    def run(*options):
        variables = {"node": str(node), "rails": ["a", "b"], "ansible_python_interpreter": sys.executable}
        done = playbook(tmp_path / "play.yml", "localhost,", "-e", json.dumps(variables), *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return node, done.stdout, json.loads((node / "result.json").read_text())

    return run


def test_a_role_writes_the_bytes_of_ansibles_template_module(play):
    node, shown, checked = play("--check", "--diff")
    assert sorted(one.name for one in node.iterdir()) == ["old", "result.json"]
    assert '+last: "of the role"' in shown
    node, _shown, done = play()
    assert done == checked
    assert (node / "etc/a.conf").read_bytes() == (node / "template.conf").read_bytes()
    assert b"b=\xc3\xa9 1\n" in (node / "etc/a.conf").read_bytes()
    assert (node / "b").stat().st_mode & 0o777 == 0o755
    assert [Path(path).name for path in done["changed_files"]] == ["a.conf", "b", "old"]
    _node, _shown, again = play()
    assert (again["changed"], again["changed_files"]) == (False, [])

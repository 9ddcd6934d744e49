# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates are rendered on the controller, and one request takes all files to the node."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import lookup_loader
from ansible.template import Templar
from ansible_collections.railyard.fabric.plugins.action import managed_files


class Action(managed_files.ActionModule):
    """The action with a node that answers `reply`."""

    def __init__(self, arguments, variables):
        loader = DataLoader()
        super().__init__(
            task=SimpleNamespace(
                args=arguments, async_val=0, check_mode=False, action=managed_files.__name__
            ),
            connection=SimpleNamespace(_shell=SimpleNamespace(tmpdir=None)),
            play_context=SimpleNamespace(check_mode=False),
            loader=loader,
            templar=Templar(loader=loader, variables=variables),
            shared_loader_obj=None,
        )
        self.sent = []
        self.reply = {"changed": True, "invocation": {"module_args": arguments}}

    def _execute_module(self, module_name, module_args, task_vars):
        self.sent.append((module_name, module_args))
        return dict(self.reply)


@pytest.fixture
def act(tmp_path, monkeypatch):
    # Without Ansible's import of collections, which stays for the whole process, the full name is not found.
    short = SimpleNamespace(get=lambda name, **options: lookup_loader.get(name.split(".")[-1], **options))
    monkeypatch.setattr(managed_files, "lookup_loader", short)
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "a.conf.j2").write_text(
        "{# gone #}\n{% for one in rails %}\nrail {{ one }}\n{% endfor %}\n\n"
    )
    (templates / "undefined.j2").write_text("{{ nowhere }}\n")

    def run(*files, **others):
        variables = {"ansible_search_path": [str(tmp_path)], "rails": ["é0", "1"]}
        action = Action({"files": list(files), **others}, variables)
        return action, action.run(task_vars=variables)

    return run


def test_one_request_takes_rendered_templates_and_contents(act):
    action, result = act(
        {"path": "/etc/a", "template": "a.conf.j2"},
        {"path": "/etc/b", "template": "a.conf.j2", "mode": "0755"},
        {"path": "/etc/c", "content": "{{ text }}\n"},
        {"path": "/a.conf"},  # its template is its path and .j2
        unwanted=["/etc/d"],
        role="some_role",
        units=["x.service"],
    )
    ((name, sent),) = action.sent
    assert name == "railyard.fabric.managed_files"
    # As the module `template` writes it: blocks trimmed, all line ends kept.
    text = "rail é0\nrail 1\n\n"
    assert [(one["path"], one["content"], one["mode"]) for one in sent["files"]] == [
        ("/etc/a", text, "0644"),
        ("/etc/b", text, "0755"),
        ("/etc/c", "{{ text }}\n", "0644"),
        ("/a.conf", text, "0644"),
    ]
    assert all(one["template"] is None for one in sent["files"])
    assert (sent["unwanted"], sent["role"], sent["units"]) == (["/etc/d"], "some_role", ["x.service"])
    # The contents are not printed a second time.
    assert result["changed"]
    assert "invocation" not in result


@pytest.mark.parametrize(
    ("name", "words"), [("undefined.j2", "nowhere"), ("not_there.j2", "could not be found")]
)
def test_a_template_that_cannot_be_rendered_is_named_with_its_file(act, name, words):
    with pytest.raises(AnsibleActionFail, match=f"/etc/a: template {name} cannot be rendered: .*{words}"):
        act({"path": "/etc/a", "template": name})


@pytest.mark.parametrize(
    "file",
    [
        {"path": "/etc/a"},
        {"path": "/etc/a", "template": "a.conf.j2", "content": "text"},
        {"template": "a.conf.j2"},
        {"path": "/etc/a", "content": "text", "owner": "nobody"},
    ],
)
def test_options_that_do_not_fit_together_are_refused(act, file):
    with pytest.raises(AnsibleError):
        act(file)

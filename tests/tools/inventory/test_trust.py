"""No command runs code of an inventory unless the person who calls it asks for that."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import trust
from railyard import cli
from railyard.base.errors import UserError
from railyard.operate import commands, quick, verify
from railyard.operate.ansible import ansible_environment
from railyard.plan import view
from support.inventories.on_disk import write
from support.inventories.sound import SOUND
from support.programs import BIN, railyard, run

#: A file in the inventory folder -> what it holds; each makes `ran` beside the folder where it is run.
GENERATOR = (
    "plugin: ansible.builtin.generator\nlayers: {n: [3]}\n"
    "hosts: {name: \"gpu{{ n }}{{ lookup('pipe', 'touch RAN') }}\", parents: [{name: others}]}\n"
)
CONSTRUCTED = "plugin: constructed\nstrict: true\ncompose:\n  odd: lookup('pipe', 'touch RAN')\n"
SCRIPT = "#!/bin/sh\ntouch RAN\necho '{}'\n"


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv(trust.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "site", SOUND["pair"])
    return tmp_path / "site"


def put(site: Path, name: str, text: str, linked: bool) -> Path:
    """Write what makes `RAN` when it is run; linked: outside of the folder, with a link in it."""
    path = site / name
    target = site.parent / f"elsewhere-{name}" if linked else path
    target.write_text(text.replace("RAN", str(site.parent / "ran")))
    if text.startswith("#!"):
        target.chmod(0o755)
    if linked:
        path.symlink_to(target)
    return target


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("nodes.sh", SCRIPT, "it is a program"),
        ("nodes", SCRIPT, "it is a program"),
        ("nodes.yml", SCRIPT, "it is a program"),
        ("z.yml", GENERATOR, "it names the inventory plugin ansible.builtin.generator"),
        ("z.yaml", CONSTRUCTED, "it names the inventory plugin constructed"),
        ("z.yml", '"\\x70lugin": constructed\n', "it names the inventory plugin constructed"),
        ("z.yml", "{plugin: [a, b]}\n", "it names the inventory plugin"),
    ],
)
def test_code_of_an_inventory_is_named_and_not_run(site, capsys, name, text, what, linked):
    target = put(site, name, text, linked)
    assert view.run(["site"], False) == 2
    said = capsys.readouterr()
    assert f"site/{name}: {what}" in said.err
    assert "--trust-inventory" in said.err
    assert said.out == ""
    assert (f"(a link to {target})" in said.err) == linked
    for refused in (
        lambda: commands.checked_inventory(["site"], None),
        lambda: commands.operate("site", ["site"], [], site.parent / "reports"),
        lambda: quick.quick(["site"], []),
        lambda: verify.verify(["site"], []),
    ):
        with pytest.raises(UserError, match=what):
            refused()
    assert not (site.parent / "ran").exists()
    assert not (site.parent / "reports").exists()


@pytest.mark.parametrize(
    ("name", "text", "given"),
    [
        ("nodes.sh", SCRIPT, "folder"),
        ("nodes.sh", SCRIPT, "file"),
        ("z.yml", GENERATOR, "folder"),
        ("z.yml", GENERATOR, "file"),
        ("z.yml", CONSTRUCTED, "folder"),
    ],
)
def test_ansible_that_a_command_starts_runs_no_more_of_it(site, name, text, given):
    """The file may change between our look and Ansible's."""
    put(site, name, text, linked=False)
    source = site if given == "folder" else site / name

    def listed(environment):
        argv = [BIN / "ansible-inventory", "-i", source, "--list"]
        return run(argv, env=os.environ | environment)

    assert listed(ansible_environment()).returncode != 0
    assert not (site.parent / "ran").exists()
    trusted = {**ansible_environment(), trust.VARIABLE: ",".join(trust.ALL)}
    listed(trusted)
    assert (site.parent / "ran").exists()  # else this test would show nothing


def test_trust_is_for_this_process_and_what_it_starts(site, monkeypatch):
    monkeypatch.setenv(trust.VARIABLE, "")  # monkeypatch takes away what `trust` sets
    monkeypatch.delenv(trust.VARIABLE)
    assert ansible_environment()[trust.VARIABLE] == "host_list,yaml,ini,toml"
    put(site, "nodes.sh", SCRIPT, linked=False)
    trust.trust()
    assert view.run(["site"], True) == 0
    assert (site.parent / "ran").exists()
    assert ansible_environment()[trust.VARIABLE] == ",".join(trust.ALL)


def test_a_listed_plugin_is_used_and_no_other(site, monkeypatch, capsys):
    put(site, "z.yml", CONSTRUCTED, linked=False)
    monkeypatch.setenv(trust.VARIABLE, "host_list,yaml,ini,toml,constructed")
    assert view.run(["site"], True) == 0, capsys.readouterr().err
    assert (site.parent / "ran").exists()
    put(site, "z2.yml", GENERATOR, linked=False)
    put(site, "nodes.sh", SCRIPT, linked=False)
    assert view.run(["site"], True) == 2
    said = capsys.readouterr().err
    assert "z2.yml: it names the inventory plugin ansible.builtin.generator" in said
    assert "nodes.sh: it is a program" in said


def test_the_default_is_ansibles_without_what_runs_code():
    from ansible import constants

    default = constants.config.get_configuration_definition("INVENTORY_ENABLED")["default"]
    assert list(trust.ALL) == default
    assert set(trust.ALL) - set(trust.STATIC) == {"script", "auto"}


def test_static_inventories_need_no_flag(site, capsys):
    (site / "more.ini").write_text("[others]\nhost9 x=1\n")
    (site / "more.toml").write_text("[others2.hosts]\nhost8 = {}\n")
    (site / "group_vars" / "others.yml").write_text("a: 1\n")
    (site / "host_vars").mkdir(exist_ok=True)
    (site / "host_vars" / "host9.yml").write_text("b: \"{{ lookup('pipe', 'touch ran') }}\"\n")
    # A file system without modes: everything may be executed there, and is text all the same.
    (site / "hosts.yml").chmod(0o755)
    assert view.run(["site"], True) == 0, capsys.readouterr().err
    assert not (site.parent / "ran").exists()


def test_a_configuration_beside_the_inventory_is_not_read(site, monkeypatch):
    put(site, "nodes.sh", SCRIPT, linked=False)
    settings = "[inventory]\nenable_plugins = script, auto, yaml, ini\n"
    (site / "ansible.cfg").write_text(settings)
    (site.parent / "ansible.cfg").write_text(settings)
    done = railyard("plan", "-i", site, cwd=site)
    assert done.returncode == 2
    assert "nodes.sh: it is a program" in done.stderr
    assert not (site.parent / "ran").exists()


def test_the_option_of_the_command(site):
    put(site, "nodes.sh", SCRIPT, linked=False)
    done = railyard("plan", "-i", site, "--json", "--trust-inventory")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["nodes"]) == {"gpu1", "gpu2"}
    assert (site.parent / "ran").exists()


def test_every_command_that_takes_an_inventory_takes_the_option():
    import typer

    found = {}
    groups = [("", typer.main.get_command(cli.app))]
    for above, group in groups:
        for name, command in getattr(group, "commands", {}).items():
            groups.append((f"{above}{name} ", command))
            options = {option for param in command.params for option in param.opts}
            if "--inventory" in options:
                found[f"{above}{name}"] = "--trust-inventory" in options
    assert set(found.values()) == {True}, found
    assert {"plan", "site", "validate", "verify", "parse", "lint-nccl", "baseline save"} <= set(found)
    assert "trust_inventory" not in inspect.signature(cli.plan.__wrapped__).parameters

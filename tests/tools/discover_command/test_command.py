"""`railyard discover` apart from Ansible: options, files, questions, what is printed, exit statuses."""

from __future__ import annotations

import copy
import shutil
import sys

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from railyard.discover import hosts, run
from railyard.operate.ansible_args import AnsibleArguments
from support.discover.nodes import made_up, wire

NAMES = ("gpu1", "gpu2")
RAILS = [{"netdev": f"ens{slot}np0", "pci": f"0000:{slot}8:00.0"} for slot in (1, 2)]


def nodes(rails=RAILS, **changes):
    """Return two nodes that are cabled rail by rail."""
    made = [made_up(name, copy.deepcopy(list(rails)), **copy.deepcopy(changes)) for name in NAMES]
    wire(made, [[(name, rail["netdev"]) for name in NAMES] for rail in rails])
    return {node["key"]: bare_node.read(node) for node in made}


@pytest.fixture
def read(monkeypatch):
    """Let reading the nodes come to this; return how it was called."""
    calls = []

    def stand_in(reading):
        def answer(meant, settings, _out):
            calls.append((meant, settings))
            return reading

        monkeypatch.setattr(run, "read", answer)
        return calls

    monkeypatch.setattr(hosts, "_is_known", lambda name: True)
    stand_in(None)
    return stand_in


@pytest.fixture
def never_read(read):
    """Return the calls that there must not be."""
    return read(None)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["gpu1"], ["--output: no folder is named"]),
        (["-o", "x"], ["NODES: no node is named", "--hosts-from"]),
        (["-o", "x", "-i", "y", "gpu1"], ["--inventory: it belongs to --diff"]),
        (["--diff"], ["--diff: no inventory is named"]),
        (
            ["--diff", "-i", "x", "-o", "y", "--yes"],
            ["--output: it has no meaning with --diff", "--yes: it has"],
        ),
        (["-o", "x", "gpu1", "--forks", "many"], ["--forks"]),
        (["-o", "x", "--limit", "gpu1"], ["--limit: the nodes are named without an option"]),
        (["-o", "x", "gpu1", "--listen-s", "0"], ["--listen-s: 0 is out of range"]),
        (["-o", "x", "gpu1", "--limit-s", "1"], ["--limit-s: 1 is out of range"]),
        (["-o", "x", "gpu1", "-u", "{{ x }}"], ["--user: '{{ x }}' is not a user name"]),
        (["-o", "x", "gpu["], ["NODES: 'gpu['"]),
        (["-o", "x", "--hosts-from", "/nowhere"], ["/nowhere: there is no such file"]),
        (["-o", "/", "gpu1"], ["is not a name for an inventory"]),
        (["--diff", "-i", "/nowhere"], ["/nowhere"]),
    ],
)
def test_bad_input_ends_with_2_before_a_node_is_contacted(call, never_read, argv, said):
    status, _out, error = call("discover", *argv)
    assert (status, never_read) == (2, [])
    assert [words in error for words in said] == [True] * len(said), error


@pytest.mark.parametrize("name", ["hosts.yml", "README.md", "group_vars/all/gpus.yml", "discovered.txt"])
def test_an_existing_file_is_refused_before_a_node_is_contacted(call, never_read, tmp_path, name):
    file = tmp_path / "mine" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    status, _out, error = call("discover", "-o", str(tmp_path / "mine"), "gpu1")
    assert (status, never_read) == (2, [])
    assert f"has {name} already" in error
    assert "--force" in error
    assert file.read_text() == "mine\n"


def discover(call, folder, *argv):
    status, out, error = call("discover", "-o", str(folder), *NAMES, *argv)
    return status, out + error


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_is_written_and_printed(call, read, tmp_path):
    read(run.Reading(nodes()))
    status, said = discover(call, tmp_path / "mine")
    assert status == 0, said
    lines = said.splitlines()
    rows = [line.split() for line in lines if line.startswith("rail")]
    assert rows[1] == ["rail0", "ens1np0", "0000:18:00.0", "400", "2", "beacons"]
    assert rows[2] == ["rail1", "ens2np0", "0000:28:00.0", "400", "2", "beacons"]
    assert f"Written: {tmp_path}/mine" in lines
    assert "subnets" in said[said.index("Assumed:") : said.index("Written:")]
    assert [f"  {name}" in lines for name in contents(tmp_path / "mine")] == [True] * 5
    assert lines[-1] == f"Next: railyard plan -i {tmp_path}/mine"
    assert call("plan", "-i", str(tmp_path / "mine"))[0] == 0
    modes = {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "mine").rglob("*") if path.is_file()}
    assert len(modes) == 1


def test_force_writes_the_same_bytes_and_leaves_other_files(call, read, tmp_path):
    read(run.Reading(nodes()))
    folder = tmp_path / "mine"
    discover(call, folder)
    before = contents(folder)
    (folder / "host_vars").mkdir()
    (folder / "host_vars" / "gpu1.yml").write_text("mine: 1\n")
    (folder / "hosts.yml").write_text("# old\n")
    # Of an earlier discovery, in which some nodes had other ports.
    (folder / "group_vars" / "nodes_by_ports_1.yml").write_text("rail_overrides: {rail0: {netdev: ens7}}\n")
    status, said = discover(call, folder, "--force")
    assert status == 0, said
    assert contents(folder) == {**before, "host_vars/gpu1.yml": "mine: 1\n"}
    assert sorted(tmp_path.iterdir()) == [folder]


def test_what_does_not_plan_with_the_folder_s_other_files_is_not_written(call, read, tmp_path):
    read(run.Reading(nodes()))
    folder = tmp_path / "mine"
    (folder / "host_vars").mkdir(parents=True)
    (folder / "host_vars" / "gpu1.yml").write_text("rail_overrides: {rail7: {netdev: ens9}}\n")
    status, said = discover(call, folder)
    assert status == 2
    assert "rail7" in said
    assert list(contents(folder)) == ["host_vars/gpu1.yml"]


FAILED = {"gpu3": "it does not answer. Fix: check that the node is up"}


def test_a_node_that_failed_is_3_and_the_rest_is_written(call, read, tmp_path):
    read(run.Reading(nodes(), FAILED))
    status, said = discover(call, tmp_path / "mine", "gpu3")
    assert status == 3
    assert "✗ gpu3: it does not answer. Fix: check that the node is up" in said.splitlines()
    assert "gpu3: not read, and not in the inventory" in said
    files = contents(tmp_path / "mine")
    assert "gpu3" not in files["hosts.yml"]
    assert "gpu3" in files["README.md"]


def test_beacons_that_could_not_be_fetched_are_not_known(call, read, tmp_path):
    found = nodes()
    found["gpu2"]["beacons"] = None
    read(run.Reading(found, unheard={"gpu2": "it hung after login. Fix: look at its load"}))
    status, said = discover(call, tmp_path / "mine")
    assert status == 3
    assert "gpu2: what its ports heard: it hung after login." in said


@pytest.mark.parametrize("reading", [run.Reading(nodes(), interrupted=True), run.Reading({}, FAILED)])
def test_nothing_is_written_of_an_interrupted_reading_or_of_none(call, read, tmp_path, reading):
    read(reading)
    status, said = discover(call, tmp_path / "mine", "gpu3")
    assert (status, (tmp_path / "mine").exists()) == (3, False)
    assert "nothing is written" in said


# Without a default route and with a login address that no port has, nothing tells which port is the frontend.
UNCLEAR = {"default_route": [], "login_address": None}


def test_an_open_question_is_listed_and_nothing_is_written(call, read, tmp_path):
    read(run.Reading(nodes(**UNCLEAR), FAILED))
    status, said = discover(call, tmp_path / "mine", "gpu3", "--yes")
    assert (status, (tmp_path / "mine").exists()) == (2, False)
    assert "? gpu[1-2]: by which interface" in said
    assert "  1. eno1" in said.splitlines()
    assert "Nothing is written" in said


@pytest.fixture
def typed(monkeypatch):
    """Type these lines at a terminal."""

    def type_(*lines):
        left = list(lines)

        def read_line(_prompt=""):
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr("builtins.input", read_line)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        return left

    return type_


def test_a_question_is_repeated_on_a_terminal_until_a_candidate_is_chosen(call, read, typed, tmp_path):
    read(run.Reading(nodes(**UNCLEAR)))
    left = typed("", "eno1", "7", "0", "1")
    status, said = discover(call, tmp_path / "mine")
    assert (status, left) == (0, []), said
    assert "netdev: eno1" in contents(tmp_path / "mine")["group_vars/all/fabric.yml"]


def test_with_yes_there_is_no_prompt_on_a_terminal(call, read, typed, tmp_path):
    read(run.Reading(nodes(**UNCLEAR)))
    left = typed("1")
    assert discover(call, tmp_path / "mine", "--yes")[0] == 2
    assert left == ["1"]


def test_a_question_without_an_answer_writes_nothing(call, read, typed, tmp_path):
    read(run.Reading(nodes(**UNCLEAR)))
    typed()
    status, said = discover(call, tmp_path / "mine")
    assert (status, (tmp_path / "mine").exists()) == (2, False)
    assert "a question was not answered" in said


def test_the_table_fits_80_columns(call, read, tmp_path):
    rails = [
        {"netdev": f"enp{160 + at}s0f0np0v{at}"[:15], "pci": f"0000:{at:02x}:00.0"} for at in range(16, 28)
    ]
    leafs = [{**rail, "leaf": f"a-long-name-of-a-leaf-switch-{at}"} for at, rail in enumerate(rails)]
    read(run.Reading(nodes(leafs)))
    status, said = discover(call, tmp_path / "mine")
    assert status == 0, said
    lines = said.splitlines()
    begins = next(number for number, line in enumerate(lines) if line.startswith("rail "))
    ends = next(number for number, line in enumerate(lines) if line.startswith("Order of the rails"))
    table = lines[begins:ends]
    assert len(table) >= 12
    assert max(map(len, table)) <= 80
    # No name is cut for it.
    assert [
        rail["netdev"] in line
        for rail, line in zip(rails, [row for row in table if "0000:" in row], strict=True)
    ]
    assert "…" not in "".join(table)


def test_what_a_node_says_does_not_reach_the_terminal_as_it_is(call, read, tmp_path):
    found = nodes(hostname="\x1b[2Jgpu\n✗ gpu9: bad", product="\x1b[31m")
    found["gpu1"]["ports"][1]["model"] = "\x1b]0;x\x07"
    read(run.Reading(found, {"gpu3": "it could not be read (\x1b[2J\nrailyard: fine). Fix: \x1b"}))
    _status, said = discover(call, tmp_path / "mine", "gpu3")
    assert "\x1b" not in said
    assert not any(line.startswith("railyard: fine") for line in said.splitlines())


def test_the_requests_to_the_nodes(call, read, tmp_path):
    calls = read(run.Reading(nodes()))
    options = ("-u", "me", "-K", "--link-up", "--forks", "7", "--listen-s", "9", "--limit-s", "33")
    discover(call, tmp_path / "mine", *options)
    [(meant, settings)] = calls
    assert (settings.link_up, settings.listen_s, settings.limit_s) == (True, 9, 33)
    assert (settings.ansible.user, settings.ansible.forks) == ("me", 7)
    assert "--ask-become-pass" in settings.ansible.argv
    assert [(host.key, host.user) for host in meant.hosts] == [("gpu1", "me"), ("gpu2", "me")]


@pytest.mark.parametrize(
    ("nodes_", "forks", "least_s"), [(1, None, 66), (50, None, 66), (51, None, 126), (9, 3, 186)]
)
def test_the_first_node_listens_until_the_last_one_has_begun(nodes_, forks, least_s):
    longest_s = run.Settings(AnsibleArguments([], forks=forks or 0)).longest_s(nodes_)
    assert least_s <= longest_s <= 3 * least_s


@pytest.fixture
def inventory(call, read, tmp_path):
    """Return an inventory that was discovered from the nodes as they are."""
    read(run.Reading(nodes()))
    assert discover(call, tmp_path / "mine")[0] == 0
    return tmp_path / "mine"


def renamed():
    found = nodes()
    for port in (
        found["gpu2"]["facts"]["hcas"][0],
        found["gpu2"]["facts"]["netdevs"][1],
        found["gpu2"]["ports"][1],
    ):
        port["hca"] = "mlx5_7:1"
    found["gpu2"]["facts"]["hcas"][0]["device"] = "mlx5_7"
    return found


@pytest.mark.parametrize(
    ("reading", "status", "said"),
    [
        (run.Reading(nodes()), 0, ["No difference."]),
        (
            run.Reading(renamed()),
            1,
            ["gpu2 rail0: RDMA device: was roce_ens1np0:1, is mlx5_7:1", "1 difference."],
        ),
        (
            run.Reading({"gpu1": nodes()["gpu1"]}, {"gpu2": "it does not answer. Fix: x"}),
            3,
            ["✗ gpu2: it does not", "gpu2: not read, and not compared"],
        ),
        (
            run.Reading({}, dict.fromkeys(("gpu1", "gpu2"), "it does not answer. Fix: x")),
            3,
            ["✗ gpu2: it does not", "No node could be read; nothing was compared."],
        ),
        # What is not known counts more than a difference.
        (
            run.Reading({"gpu2": renamed()["gpu2"]}, {"gpu1": "it does not answer. Fix: x"}),
            3,
            ["1 difference."],
        ),
        (run.Reading(interrupted=True), 3, ["Interrupted."]),
    ],
)
def test_what_changed_since(call, read, inventory, reading, status, said):
    before = contents(inventory)
    read(reading)
    found, out, error = call("discover", "--diff", "-i", str(inventory))
    assert found == status, out + error
    assert [words in out for words in said] == [True] * len(said), out
    assert contents(inventory) == before


def test_an_inventory_that_was_not_discovered_is_compared_by_what_it_says(call, read, inventory):
    (inventory / "discovered.txt").unlink()
    read(run.Reading(nodes()))
    status, out, _error = call("discover", "--diff", "-i", str(inventory))
    assert status == 0
    assert "The inventory has no discovered.txt" in out


def test_some_nodes_are_compared(call, read, inventory):
    calls = read(run.Reading({"gpu2": nodes()["gpu2"]}))
    assert call("discover", "--diff", "-i", str(inventory), "gpu2")[0] == 0
    assert [host.key for host in calls[-1][0].hosts] == ["gpu2"]
    assert calls[-1][0].inventories == [str(inventory)]
    calls.clear()
    assert call("discover", "--diff", "-i", str(inventory), "gpu3")[0] == 2
    assert calls == []


def test_a_bad_inventory_is_2_before_a_node_is_contacted(call, read, inventory):
    shutil.rmtree(inventory / "group_vars")
    calls = read(run.Reading(nodes()))
    calls.clear()
    assert call("discover", "--diff", "-i", str(inventory))[0] == 2
    assert calls == []

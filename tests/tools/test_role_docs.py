import re
import textwrap

import pytest
import role_docs
from railyard.base import paths

SPEC = """
argument_specs:
  main:
    options:
      demo_size_bytes:
        type: int
        default: 9000
        description: How big | how small.
      demo_names:
        type: list
        elements: str
        default: []
        description: [One., Two.]
"""
DEFAULTS = "demo_size_bytes: 9000\ndemo_names: []\n"
README = f"# demo\n\n{role_docs.BEGIN}\nold\n{role_docs.END}\n\nafter\n"


@pytest.fixture
def demo_role(tmp_path):
    role = tmp_path / "demo"
    for folder in ("meta", "defaults"):
        (role / folder).mkdir(parents=True)
    (role / "meta/argument_specs.yml").write_text(SPEC)
    (role / "defaults/main.yml").write_text(DEFAULTS)
    (role / "README.md").write_text(README)
    return role


def run(role, *options):
    return role_docs.main(["--roles", str(role.parent), *options])


def test_writes_the_table_and_nothing_else(demo_role):
    assert run(demo_role) == 0
    table = textwrap.dedent(
        r"""
        | Variable | Type | Default | Meaning |
        |---|---|---|---|
        | `demo_size_bytes` | int | `9000` | How big \| how small. |
        | `demo_names` | list of str | `[]` | One. Two. |
        """
    )
    assert (
        demo_role / "README.md"
    ).read_text() == f"# demo\n\n{role_docs.BEGIN}{table}{role_docs.END}\n\nafter\n"


def test_check_fails_on_a_stale_table_and_leaves_it(demo_role, capsys):
    assert run(demo_role, "--check") == 1
    assert "README.md is stale" in capsys.readouterr().err
    assert (demo_role / "README.md").read_text() == README


def test_check_passes_after_writing(demo_role):
    run(demo_role)
    assert run(demo_role, "--check") == 0


@pytest.mark.parametrize(
    ("defaults", "complaint"),
    [
        ("demo_size_bytes: 9000\n", "demo_names is in meta/argument_specs.yml but not in defaults"),
        (DEFAULTS + "demo_more: 1\n", "demo_more is in defaults/main.yml but not in meta"),
        ("demo_size_bytes: 1500\ndemo_names: []\n", "demo_size_bytes is 1500 in defaults/main.yml, 9000 in"),
        ("demo_size_bytes: '9000'\ndemo_names: []\n", "demo_size_bytes is '9000'"),
        ("demo_size_bytes: [\n", "not YAML"),
        ("- demo\n", "a mapping is expected"),
    ],
)
def test_defaults_that_differ_from_the_specs(demo_role, capsys, defaults, complaint):
    run(demo_role)
    (demo_role / "defaults/main.yml").write_text(defaults)
    assert run(demo_role, "--check") == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(("first", "second"), [(True, 1), (False, 0), (1, 1.0), ([True], [1])])
def test_values_that_python_calls_equal_differ(demo_role, capsys, first, second):
    import yaml

    spec = {"type": "raw", "default": first, "description": "X."}
    document = {"argument_specs": {"main": {"options": {"demo_x": spec}}}}
    (demo_role / "meta/argument_specs.yml").write_text(yaml.safe_dump(document))
    (demo_role / "defaults/main.yml").write_text(yaml.safe_dump({"demo_x": second}))
    assert run(demo_role) == 1
    assert "demo_x is" in capsys.readouterr().err


def test_a_template_folded_elsewhere_is_the_same(demo_role):
    spec = SPEC.replace("default: 9000", 'default: "{{ fabric.mtu | int }}"').replace(
        "type: int", "type: raw"
    )
    (demo_role / "meta/argument_specs.yml").write_text(spec)
    (demo_role / "defaults/main.yml").write_text(
        "demo_size_bytes: >-\n  {{ fabric.mtu\n  | int }}\ndemo_names: []\n"
    )
    assert run(demo_role) == 0


@pytest.mark.parametrize("readme", ["# demo\n", f"{role_docs.END}{role_docs.BEGIN}", role_docs.BEGIN * 2])
def test_readme_without_one_pair_of_markers(demo_role, capsys, readme):
    (demo_role / "README.md").write_text(readme)
    assert run(demo_role) == 1
    assert "the table goes between" in capsys.readouterr().err


def test_variable_without_the_prefix_of_its_role(demo_role, capsys):
    (demo_role / "meta/argument_specs.yml").write_text(SPEC.replace("demo_names", "names"))
    (demo_role / "defaults/main.yml").write_text(DEFAULTS.replace("demo_names", "names"))
    assert run(demo_role) == 1
    assert "names does not begin with the role's name" in capsys.readouterr().err


def test_no_role_at_all_is_no_success(tmp_path):
    assert role_docs.main(["--roles", str(tmp_path), "--check"]) == 1


def test_what_was_run_on_which_distribution_has_one_place() -> None:
    """docs/support.md says it; a README that says it too contradicts it sooner or later."""
    names = re.compile(r"\b(?:Debian|Ubuntu)\b[^.]*?\bhas(?: not|n't) been (?:run|tried|tested)\b", re.S)
    found = {
        str(file.relative_to(paths.repo_root())): match.group(0)
        for file in sorted((paths.repo_root() / "roles").glob("*/README.md"))
        if (match := names.search(file.read_text(encoding="utf-8")))
    }
    assert found == {}, "say it in docs/support.md, and link there"

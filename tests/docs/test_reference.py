"""docs/reference is what the code says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from generate_reference import ROOT, main, pages
from reference_commands import commands_page
from reference_schema import keys_page

from sparkctl.cli.app import COMMANDS, load_command
from sparkctl.registry import schema

REFERENCE = ROOT / "docs" / "reference"
WRITTEN = pages()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == WRITTEN[name], "make reference"


def test_a_changed_page_is_named_and_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("generate_reference.pages", lambda: WRITTEN)
    shutil.copytree(REFERENCE, tmp_path, dirs_exist_ok=True)
    assert main(["--check", str(tmp_path)]) == 0
    page = tmp_path / "commands.md"
    page.write_text(page.read_text(encoding="utf-8").replace("--max-regs", "--max-registers"), encoding="utf-8")
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{page} is not what the code says: make reference\n"
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0


def test_the_command_line_has_the_same_exit_code(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "docs" / "tools" / "generate_reference.py"), "--check", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == len(WRITTEN)


def test_every_option_of_every_command_is_on_the_page() -> None:
    page = commands_page()
    for row in COMMANDS:
        command = load_command(row.name)
        for path, part in [(row.name, command), *((f"{row.name} {n}", c) for n, c in _parts(command))]:
            _, _, section = page.partition(f" sparkctl {path}\n")
            section = section.partition("\n#")[0]
            for param in part.params:
                if param.param_type_name == "option" and not param.hidden and param.name != "help":
                    assert max(param.opts, key=len) in section, (path, param.opts)


def _parts(command: typer.main.TyperCommand) -> list[tuple[str, typer.main.TyperCommand]]:
    return list(getattr(command, "commands", {}).items())


def test_a_new_key_of_the_schema_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys_page()

    class Axis(schema.AxisSpec):
        unit: str = schema.Field(default="lanes", description="What a value counts.")

    Axis.__name__ = "AxisSpec"
    changed = Axis.model_json_schema()["properties"]["unit"]
    whole = schema.json_schema()
    whole["$defs"]["AxisSpec"]["properties"]["unit"] = changed
    monkeypatch.setattr("reference_schema.json_schema", lambda: whole)
    assert set(keys_page().splitlines()) - set(before.splitlines()) == {
        "| `unit` | text | `lanes` | What a value counts. |"
    }


def test_every_key_of_the_schema_has_a_meaning() -> None:
    whole = schema.json_schema()
    for name, spec in [("top", whole), *whole["$defs"].items()]:
        for key, part in spec["properties"].items():
            assert part.get("description"), (name, key)

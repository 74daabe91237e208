"""What a build left behind is checked by the next one, and made again where it was changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from sparkctl.build import PlanResult
from sparkctl.runtime.manifest import read_manifest

pytestmark = pytest.mark.nvcc

UP_TO_DATE = {"alpha.n1": "up to date", "alpha.n2": "up to date", "beta.n1": "up to date"}
DAMAGES = {
    "emptied": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "garbage of the same size": lambda data: b"\xa5" * len(data),
}


def statuses(result: PlanResult) -> dict[str, str]:
    return {edge.name: edge.status for edge in result.edges if edge.is_variant}


def repairs(result: PlanResult) -> dict[str, str | None]:
    return {edge.name: edge.reason for edge in result.edges if not edge.is_variant}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_library_is_linked_again(built, damage: str) -> None:
    library = built.folder() / "libsparkctl.so"
    before = library.read_bytes()
    library.write_bytes(DAMAGES[damage](before))
    result = built.build()
    assert statuses(result) == UP_TO_DATE
    assert repairs(result) == {"link": "libsparkctl.so was changed since it was built"}
    assert library.read_bytes() == before
    assert repairs(built.build()) == {}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", ["o", "ptxas"])
def test_a_damaged_output_is_made_again(built, damage: str, suffix: str) -> None:
    output = built.folder() / f"obj/beta.n1.{suffix}"
    before = output.read_bytes()
    output.write_bytes(DAMAGES[damage](before))
    result = built.build()
    assert statuses(result) == {**UP_TO_DATE, "beta.n1": "cached"}
    assert {edge.name: edge.reason for edge in result.edges if edge.reason} == {
        "beta.n1": f"beta.n1.{suffix} was changed since it was built"
    }
    assert output.read_bytes() == before
    assert statuses(built.build()) == UP_TO_DATE


def test_registers_edited_in_a_log_reach_no_report(built) -> None:
    log = built.folder() / "obj/beta.n1.ptxas"
    log.write_text(re.sub(r"Used \d+ registers", "Used 255 registers", log.read_text()))
    (built.folder() / "manifest.json").unlink()
    report = built.sparkctl("regs", "beta", "--arch", "sm_90", "--json")
    assert report.returncode == 0, report.stderr
    assert "255" not in report.stdout
    assert all(variant.registers < 255 for variant in read_manifest(built.folder()).variants)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"schema_version": 99}', "\udcff"])
def test_a_damaged_manifest_is_written_again(built, text: str) -> None:
    manifest = built.folder() / "manifest.json"
    before = manifest.read_bytes()
    manifest.write_bytes(text.encode(errors="surrogateescape"))
    result = built.build()
    assert statuses(result) == UP_TO_DATE
    assert not result.linked
    assert repairs(result) == {"manifest": "manifest.json was changed since it was built"}
    assert manifest.read_bytes() == before
    assert repairs(built.build()) == {}


def test_explain_says_why_and_a_dry_run_changes_nothing(built) -> None:
    library = built.folder() / "libsparkctl.so"
    library.write_bytes(b"")
    reason = "libsparkctl.so was changed since it was built"
    preview = built.sparkctl("build", "--arch", "sm_90", "--dry-run", "--explain")
    assert f"# link: {reason}" in preview.stdout.splitlines()
    assert library.read_bytes() == b""
    done = built.sparkctl("build", "--arch", "sm_90", "--explain", "--json")
    (link,) = (edge for edge in json.loads(done.stdout)["libraries"][0]["edges"] if edge["name"] == "link")
    assert (link["status"], link["reason"]) == ("built", reason)
    screen = built.sparkctl("build", "--arch", "sm_90", "--explain")
    assert "3 up to date" in screen.stdout
    assert "link" not in screen.stdout


def test_a_new_time_alone_makes_nothing_again(built) -> None:
    names = ("obj/alpha.n1.o", "obj/alpha.n2.ptxas", "libsparkctl.so", "manifest.json")
    for name in names:
        os.utime(built.folder() / name)
    result = built.build()
    assert statuses(result) == UP_TO_DATE
    assert not result.linked
    assert repairs(result) == {}


def test_a_damaged_object_that_is_not_selected_leaves_the_library_and_comes_back(built) -> None:
    (built.folder() / "obj/alpha.n1.ptxas").write_text("")
    result = built.build("beta")
    assert result.dropped == ("alpha.n1",)
    assert statuses(built.build()) == {**UP_TO_DATE, "alpha.n1": "cached"}


def test_a_link_that_failed_leaves_no_foreign_library_in_place(built, tmp_path: Path) -> None:
    """The objects are known, the library never was: whatever lies there is not taken for it."""
    state = built.folder() / "state.json"
    data = json.loads(state.read_text())
    data["products"] = {}
    state.write_text(json.dumps(data))
    (built.folder() / "libsparkctl.so").write_bytes(b"foreign")
    result = built.build()
    assert result.linked
    assert (built.folder() / "libsparkctl.so").read_bytes().startswith(b"\x7fELF")


def test_the_command_of_a_failed_link_can_be_pasted(tiny) -> None:
    alpha = (tiny.root / "csrc/alpha.cu").read_text()
    tiny.write("csrc/alpha.cu", alpha + "int defined_twice = 1;\n")
    (link,) = tiny.build(backend="emulator").failed
    assert link.name == "link"
    pasted = subprocess.run(["/bin/sh", "-c", link.command], cwd=tiny.root, capture_output=True, text=True, check=False)
    assert pasted.returncode == link.exit_code
    assert pasted.stderr.strip() == link.output.strip()
    assert "multiple definition of `defined_twice'" in pasted.stderr

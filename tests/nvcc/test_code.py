"""SASS and PTX of real compiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkctl.arch import Arch
from sparkctl.errors import WorkFailed
from sparkctl.toolchain import find_toolchain, run_tool
from sparkctl.workflows.code import disassemble

pytestmark = pytest.mark.nvcc


def kernel_of(project: Any, *words: str) -> dict[str, Any]:
    result = project.sparkctl(*words, "--json")
    assert result.returncode == 0, result.stderr
    (kernel,) = json.loads(result.stdout)["kernels"]
    return dict(kernel)


def test_the_mix_has_every_instruction_that_cuobjdump_prints(tiny: Any) -> None:
    kernel = kernel_of(tiny, "sass", "alpha.n1", "--arch", "sm_90", "--listing")
    cuobjdump, _ = find_toolchain(environ=tiny.environ).require_disassembler()
    text = run_tool([cuobjdump, "-sass", kernel["file"]]).stdout
    code = [line.split("*/", 1)[1] for line in text.splitlines() if line.lstrip().startswith("/*0") and ";" in line]
    printed = [[word for word in line.split(";")[0].split() if not word.startswith("@")] for line in code]
    ends = max(number for number, words in enumerate(printed) if words[0] == "EXIT")
    assert [i["opcode"] for i in kernel["listing"]] == [words[0] for words in printed[: ends + 1]]
    assert {"group": "global load", "name": "LDG.32", "count": 1, "in_loops": 0} in kernel["mix"]
    assert kernel["registers"] > 0


def test_line_numbers_name_the_projects_source(tiny: Any) -> None:
    kernel = kernel_of(tiny, "sass", "alpha.n1", "--arch", "sm_90", "--by-line", "--profile", "lineinfo")
    (line,) = [line for line in kernel["lines"] if line["by_group"].get("global store")]
    assert (line["file"], line["line"]) == ("csrc/alpha.cu", 3)


def test_ptx_is_of_the_variants_own_flags_and_made_once(tiny: Any) -> None:
    first = kernel_of(tiny, "ptx", "alpha.n2", "--arch", "sm_90", "--set", "level=7", "--listing")
    assert "0f41500000" in json.dumps(first["listing"])  # 13.0 = 3.0 * 2 + 7
    kept = tiny.root / "build"
    (file,) = kept.rglob("alpha.n2.ptx")
    before = file.stat().st_mtime_ns
    assert kernel_of(tiny, "ptx", "alpha.n2", "--arch", "sm_90", "--set", "level=7", "--listing") == first
    assert file.stat().st_mtime_ns == before
    tiny.write("csrc/common/scale.h", "#define SCALE 5.0f\n")
    again = kernel_of(tiny, "ptx", "alpha.n2", "--arch", "sm_90", "--set", "level=7", "--listing")
    assert again["listing"] != first["listing"]


def test_an_object_of_ptx_alone_is_said(tiny: Any, tmp_path: Path) -> None:
    tools = find_toolchain(environ=tiny.environ)
    source = tiny.write("csrc/k.cu", "__global__ void k(float* x) { x[0] = 1; }\n")
    for code, folder in (("compute_90", "ptx"), ("sm_90", "sass")):
        (tmp_path / folder).mkdir()
        words = ["-c", f"-gencode=arch=compute_90,code={code}", source, "-o", tmp_path / f"{folder}.o"]
        run_tool([tools.require_nvcc().path, *words])
    said = "no SASS for sm_90 in it"
    with pytest.raises(WorkFailed, match=said):
        disassemble(*tools.require_disassembler(), tmp_path / "ptx.o", Arch(9, 0), tmp_path / "ptx")
    with pytest.raises(WorkFailed, match="no SASS for sm_80 in it; it has code for sm_90"):
        disassemble(*tools.require_disassembler(), tmp_path / "sass.o", Arch(8, 0), tmp_path / "sass")


def git(root: Path, *words: str) -> None:
    run_tool(["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@example.org", *words])


def test_vs_shows_what_a_change_of_the_source_did(tiny: Any) -> None:
    tiny.write(".gitignore", "build/\n")
    git(tiny.root, "init", "-q")
    git(tiny.root, "add", "-A")
    git(tiny.root, "commit", "-qm", "before")
    tiny.write("csrc/beta.cu", (tiny.root / "csrc/beta.cu").read_text().replace("+=", "*="))
    for form, added in (("sass", "FADD"), ("ptx", "add.f32")):
        result = tiny.sparkctl(form, "alpha.n1", "beta", "--arch", "sm_90", "--vs", "HEAD", "--json")
        assert result.returncode == 0, result.stderr
        alpha, beta = json.loads(result.stdout)["kernels"]
        assert (alpha["status"], beta["status"]) == ("same", "changed")
        assert added in [kind["name"] for kind in beta["old"]["mix"]]
        assert added not in [kind["name"] for kind in beta["new"]["mix"]]
    tiny.write("csrc/beta.cu", "nonsense\n")
    git(tiny.root, "commit", "-qam", "broken")
    git(tiny.root, "checkout", "-q", "HEAD~1", "--", "csrc")
    result = tiny.sparkctl("sass", "beta", "--arch", "sm_90", "--vs", "HEAD")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: HEAD (")
    unknown = tiny.sparkctl("sass", "beta", "--arch", "sm_90", "--vs", "nowhere")
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (
        2,
        "error: --vs nowhere: no such revision or saved report",
    )

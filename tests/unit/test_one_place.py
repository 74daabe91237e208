"""Rules that hold over the whole tree: compiler flags in flags.yaml alone, kernel names, what git ignores."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from sparkctl.errors import UsageError
from sparkctl.registry import load_registry

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
REGISTRY = load_registry(ROOT / "flags.yaml")
# Read, to know whether a build has line numbers; never given.
RECOGNISED = {("sparkctl/build/model.py", "-lineinfo")}
SOURCES = [path for suffix in ("*.h", "*.cuh", "*.cu", "*.cpp") for path in CSRC.rglob(suffix)]


def compiler_options() -> set[str]:
    """Every option that flags.yaml gives to a compiler; short ones mean other things elsewhere."""
    text = re.sub(r"#[^\n]*", "", (ROOT / "flags.yaml").read_text(encoding="utf-8"))
    return {word for word in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text) if len(word) > 2}


def literals(path: Path) -> Iterator[str]:
    """The strings of a Python file that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)
    }  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def strays(root: Path) -> set[tuple[str, str]]:
    """Options of flags.yaml that a Python file holds too, as (file, option)."""
    options = compiler_options()
    files = (root / "sparkctl").rglob("*.py")
    return {(str(p.relative_to(root)), text) for p in files for text in literals(p) if text in options}


def test_no_python_file_holds_a_compiler_option_of_flags_yaml() -> None:
    assert {"-O3", "--use_fast_math", "--extra-device-vectorization", "-funroll-loops"} <= compiler_options()
    assert strays(ROOT) - RECOGNISED == set()


def test_an_option_in_a_python_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "sparkctl").mkdir()
    (tmp_path / "sparkctl" / "x.py").write_text('"""-O3"""\nARGS = ["--use_fast_math"]\n', encoding="utf-8")
    assert strays(tmp_path) == {("sparkctl/x.py", "--use_fast_math")}


@pytest.mark.parametrize("name", ["Makefile", "pyproject.toml"])
def test_no_build_file_holds_a_compiler_option(name: str) -> None:
    words = set(re.findall(r"[^\s\"',\[\]]+", (ROOT / name).read_text(encoding="utf-8")))
    assert words & compiler_options() == set()


def test_no_source_sets_what_a_flag_sets() -> None:
    defines = {flag.define for flag in REGISTRY.flags.values() if flag.define}
    assert "SPARK_MIN_BLOCKS" in defines
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"#\s*pragma\s+GCC\s+optimi[sz]e|__attribute__\(\(optimize", text), path
        assert set(re.findall(r"#\s*define\s+(\w+)", text)) & defines == set(), path


def test_every_launch_bound_is_the_registrys() -> None:
    found = [
        (path.name, words.replace(" ", ""))
        for path in SOURCES
        for words in re.findall(r"__launch_bounds__\(([^)]*)\)", path.read_text(encoding="utf-8"))
        if "emulator" not in path.parts
    ]
    assert len(found) >= 6
    assert {words for _, words in found} <= {"SPARK_BLOCK", "SPARK_BLOCK,SPARK_MIN_BLOCKS"}


@pytest.mark.parametrize(
    "name",
    [
        "attn_decode_kv",
        "decode_split_kv",
        "attn_decode_split_k",
        "attn_decode_split_kv_tma",
        "attn_decode_split_kv_mma_",
        "attn_prefill",
        "fa_split",
    ],
)
def test_a_kernel_with_another_kind_of_name_is_refused(tmp_path: Path, name: str) -> None:
    text = (ROOT / "flags.yaml").read_text(encoding="utf-8")
    shutil.copytree(CSRC, tmp_path / "csrc")
    renamed = text.replace("\n  attn_decode_split_kv:\n", f"\n  {name}:\n")
    assert renamed != text
    (tmp_path / "flags.yaml").write_text(renamed, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_registry(tmp_path / "flags.yaml")
    assert "does not match the naming pattern" in str(caught.value)


def ignored(*paths: str) -> list[str]:
    """Those of the paths that git would not add."""
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        input="\n".join(paths),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.split()


@pytest.fixture
def checkout() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")


@pytest.mark.usefixtures("checkout")
def test_git_takes_every_source() -> None:
    made_up = [f"csrc/{folder}/new{suffix}" for folder in ("attention", "decode") for suffix in (".h", ".cuh", ".cu")]
    assert ignored(*(str(path.relative_to(ROOT)) for path in SOURCES), *made_up, "csrc/bindings/new.cpp") == []


@pytest.mark.usefixtures("checkout")
def test_git_ignores_what_a_build_makes() -> None:
    artefacts = [
        "build/emulator-sm_90-release/libsparkctl.so",
        "csrc/decode/x.o",
        "csrc/decode/x.ptxas",
        "csrc/decode/x.cubin",
        "compile_commands.json",
        "sparkctl/__pycache__/x.pyc",
    ]
    assert ignored(*artefacts) == artefacts


@pytest.mark.usefixtures("checkout")
def test_git_holds_nothing_that_it_ignores() -> None:
    held = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--ignored", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert held == ""


def test_pytest_looks_into_every_folder_of_tests() -> None:
    """Its default leaves out folders named `build`, and with them tests/unit/build."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    left_out = settings["tool"]["pytest"]["ini_options"]["norecursedirs"]
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    hidden = [str(file) for file in files for part in file.parts[:-1] if any(fnmatch(part, p) for p in left_out)]
    assert hidden == []

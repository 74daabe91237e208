"""`sparkctl init` on three trees that hold no file of ours, and the commands that then work there."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkctl.arch import parse_arch
from sparkctl.cli.app import main
from sparkctl.registry import Registry, load_registry
from sparkctl.toolchain import Toolchain, find_toolchain, run_tool
from sparkctl.workflows.regs import report_regs, verify_with_objects

pytestmark = pytest.mark.nvcc
TREES = Path(__file__).parents[1] / "data" / "trees"
ARCHS = {"single": "sm_90", "headers": "sm_90", "linked": "sm_80,sm_90"}


@dataclass
class Screen:
    code: int
    out: str
    err: str


Run = Callable[..., Screen]


@pytest.fixture
def toolchain(environ: dict[str, str]) -> Toolchain:
    found = find_toolchain(environ=environ)
    if found.nvcc is None:
        pytest.skip("no nvcc: pip install 'sparkctl[toolchain]'")
    return found


@pytest.fixture
def run(
    toolchain: Toolchain, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs the program in a folder, with the session's compile cache."""
    monkeypatch.setenv("SPARKCTL_CACHE_DIR", environ["SPARKCTL_CACHE_DIR"])

    def call(folder: Path, *words: str) -> Screen:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = main(["-q", *words])
        said = capsys.readouterr()
        return Screen(code, said.out, said.err)

    return call


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(TREES / name, tmp_path / name))

    return copy


def kernels_of(folder: Path) -> dict[str, tuple[str, int | None, bool]]:
    return {k.name: (k.source, block_of(k.block), k.link) for k in load_registry(folder).kernels.values()}


def block_of(text: str | None) -> int | None:
    return None if text is None else int(text)


def numbers_of_objects(registry: Registry, archs: Sequence[str], toolchain: Toolchain) -> dict[tuple[str, str], int]:
    """Registers by mangled function and arch, as cuobjdump prints them."""
    if toolchain.cuobjdump is None:
        pytest.skip("no cuobjdump: pip install 'sparkctl[toolchain]'")
    found = {}
    for arch in archs:
        for built in sorted((registry.root / "build" / f"cuda-{arch}-release" / "obj").glob("[!t]*.o")):
            text = run_tool([toolchain.cuobjdump, "--dump-resource-usage", built]).stdout
            found |= {(f, arch): int(n) for f, n in re.findall(r"Function (\S+):\s*\n\s*REG:(\d+)", text)}
    return found


@pytest.mark.parametrize("name", ARCHS)
def test_regs_after_init_agrees_with_the_objects(
    name: str, tree: Callable[[str], Path], run: Run, toolchain: Toolchain, environ: dict[str, str]
) -> None:
    folder = tree(name)
    assert run(folder, "init", "--arch", ARCHS[name]).code == 0
    registry = load_registry(folder)
    report = report_regs(
        registry, (), archs=[parse_arch(arch) for arch in ARCHS[name].split(",")], toolchain=toolchain, environ=environ
    )
    held = numbers_of_objects(registry, ARCHS[name].split(","), toolchain)
    assert {(row.usage.function, row.arch.name): row.registers for row in report.rows} == held
    assert verify_with_objects(report, toolchain) == ()


def test_one_source_is_one_kernel(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("single")
    screen = run(folder, "init")
    assert screen.code == 0
    assert "wrote" in screen.out and "sparkctl regs --update" in screen.out
    assert kernels_of(folder) == {"scale": ("scale.cu", 256, True)}
    assert load_registry(folder).archs == ()


def test_headers_are_found_and_programs_stay_out_of_the_library(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("headers")
    screen = run(folder, "init", "-I", "third")
    assert screen.code == 0
    assert "-Iinclude: src/lengths.cu includes geometry/length.h" in screen.out
    assert "includes limits.hpp" not in screen.out  # given
    assert kernels_of(folder) == {
        "clamp_kernel": ("src/inner/clamp.cu", 64, True),
        "fill": ("src/inner/program.cu", None, False),
        "lengths": ("src/lengths.cu", None, True),
    }
    assert load_registry(folder).profiles["release"].nvcc == ("-O3", "-Ithird", "-Iinclude")


def test_device_code_of_another_source_is_linked(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("linked")
    assert run(folder, "init", "--arch", "sm_80,sm_90").code == 0
    registry = load_registry(folder)
    assert [arch.name for arch in registry.archs] == ["sm_80", "sm_90"]
    assert (registry.helpers, registry.profiles["release"].nvcc) == (("mix.cu",), ("-O3", "-rdc=true"))
    for arch in ("sm_80", "sm_90"):
        ctypes.CDLL(str(folder / "build" / f"cuda-{arch}-release" / "libsparkctl.so"))  # nothing is left unresolved
    rows = json.loads(run(folder, "regs", "--json").out)["kernels"]
    assert [(row["arch"], row["static_smem_bytes"]) for row in rows] == [("sm_80", None), ("sm_90", None)]


def test_every_command_works_there(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("headers")
    assert run(folder, "init").code == 0
    for words in (["build"], ["flags"], ["flags", "check"], ["list"], ["sass"], ["ptx"], ["regs", "--update"]):
        screen = run(folder, *words)
        assert (screen.code, screen.err) == (0, ""), words
    assert "up to date" in run(folder, "build").out
    assert "shared_lengths" in run(folder, "regs").out
    assert run(folder, "regs", "--check").code == 0
    source = folder / "src" / "lengths.cu"
    source.write_text(source.read_text(encoding="utf-8").replace("kept[128]", "kept[256]"), encoding="utf-8")
    changed = run(folder, "regs", "--check")
    assert changed.code == 1 and "static smem" in changed.out


def test_regs_holds_a_tree_against_a_revision(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("single")
    assert run(folder, "init").code == 0
    git = ["git", "-C", str(folder), "-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for words in (["init", "-q"], ["add", "scale.cu", "flags.yaml"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    source = folder / "scale.cu"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("const int i", "__shared__ float s[4]; s[threadIdx.x % 4] = a; __syncthreads();\n"
                                   "  a = s[n % 4];\n  const int i"), encoding="utf-8")  # fmt: skip
    screen = run(folder, "regs", "--vs", "HEAD", "--json")
    assert screen.code == 0
    assert '"static_smem_bytes"' in screen.out and "HEAD" in screen.out


def test_a_source_that_does_not_compile_is_left_out_and_told(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("single")
    (folder / "broken.cu").write_text("__global__ void broken() { nonsense; }\n", encoding="utf-8")
    screen = run(folder, "init")
    assert screen.code == 1
    assert "left out  broken.cu: does not compile for sm_90" in screen.out
    assert 'identifier "nonsense" is undefined' in screen.out
    assert list(kernels_of(folder)) == ["scale"]


def test_where_nothing_compiles_nothing_is_written(tmp_path: Path, run: Run) -> None:
    (tmp_path / "broken.cu").write_text('#include "absent.h"\n', encoding="utf-8")
    screen = run(tmp_path, "init")
    assert screen.code == 1
    assert "absent.h is not in this tree: name its folder with -I" in screen.err
    assert not (tmp_path / "flags.yaml").exists()


def test_a_header_in_two_folders_is_asked_for(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("headers")
    shutil.copytree(folder / "third", folder / "other")
    screen = run(folder, "init")
    assert screen.code == 1
    assert "limits.hpp lies below other and third: name one of them with -I" in screen.out


def test_a_kernel_for_newer_archs_only_says_so_in_min_arch(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("single")
    text = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900\n#error needs sm_90\n#endif\n__global__ void fresh() {}\n"
    (folder / "fresh.cu").write_text(text, encoding="utf-8")
    assert run(folder, "init", "--arch", "sm_80,sm_90").code == 0
    oldest = {kernel.name: kernel.min_arch.name for kernel in load_registry(folder).kernels.values()}
    assert oldest == {"fresh": "sm_90", "scale": "sm_80"}


def test_a_name_that_two_sources_define_is_linked_once(tree: Callable[[str], Path], run: Run) -> None:
    folder = tree("single")
    shutil.copy(folder / "scale.cu", folder / "second.cu")
    screen = run(folder, "init")
    assert screen.code == 0
    assert sorted((source, link) for source, _, link in kernels_of(folder).values()) == [
        ("scale.cu", True),
        ("second.cu", False),
    ]


def test_a_flags_yaml_is_replaced_whole_or_not_at_all(
    tree: Callable[[str], Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tree("single")
    path = folder / "flags.yaml"
    path.write_text("mine\n", encoding="utf-8")

    def fail_with(error: BaseException) -> None:
        def write(target: Path, text: str) -> bool:
            raise error

        monkeypatch.setattr("sparkctl.workflows.init.write_text", write)

    fail_with(KeyboardInterrupt())
    assert run(folder, "init", "--force").code == 130
    fail_with(PermissionError(13, "Permission denied"))
    screen = run(folder, "init", "--force")
    assert (screen.code, screen.err) == (1, f"error: {path}: Permission denied\nhint: is the folder writable?\n")
    assert path.read_text(encoding="utf-8") == "mine\n"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert main(["-q", "init", "--force"]) == 0
    assert list(kernels_of(folder)) == ["scale"]

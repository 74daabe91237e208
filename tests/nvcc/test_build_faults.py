"""Builds that are interrupted, killed, raced, broken, or given hostile text."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from sparkctl.build import PlanResult
from sparkctl.build.ninja_run import NinjaRun
from sparkctl.errors import SparkctlError, WorkFailed

pytestmark = pytest.mark.nvcc

EMULATOR = ("build", "--backend", "emulator", "-j3")


def statuses(result: PlanResult) -> dict[str, str]:
    return {edge.name: edge.status for edge in result.edges if edge.is_variant}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited 20 s for {what}")


def first_line(stream: IO[str]) -> str:
    assert select.select([stream], [], [], 20)[0], "nothing was said for 20 s"
    return stream.readline()


def processes_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in line:
                found.append(line)
    return found


@pytest.fixture
def slow(tiny, tmp_path: Path):
    """The emulator's compiler writes half an object and then hangs on alpha, until the file `go` is there."""
    tiny.slow_compiler = tmp_path / "slow-g++"
    tiny.slow_compiler.write_text(
        f"""#!/bin/sh
case "$*" in
  *alpha.cu*-o*)
    if [ ! -e "{tmp_path}/go" ]; then
      for word; do case "$word" in *.o) echo half > "$word";; esac; done
      touch "{tmp_path}/started"
      sleep 300
    fi;;
esac
exec g++ "$@"
"""
    )
    tiny.slow_compiler.chmod(tiny.slow_compiler.stat().st_mode | stat.S_IXUSR)
    tiny.started, tiny.go = tmp_path / "started", tmp_path / "go"
    tiny.environ |= {"CXX": str(tiny.slow_compiler), "CCACHE_DISABLE": "1"}
    yield tiny
    end_processes(str(tmp_path))


def test_an_interrupt_ends_compilers_removes_halves_and_the_next_build_is_right(slow) -> None:
    build = slow.start(*EMULATOR)
    wait_for(slow.started.exists, "the compiler")
    wait_for((slow.folder("emulator") / "obj/beta.n1.o").exists, "beta")
    assert (slow.folder("emulator") / "obj/alpha.n1.o").read_text() == "half\n"
    time.sleep(0.3)
    build.send_signal(signal.SIGINT)
    _, stderr = build.communicate(timeout=60)
    assert build.returncode == 130, stderr
    assert stderr.strip().splitlines()[-1] == "error: interrupted"
    assert not processes_with(str(slow.slow_compiler))
    assert not list(slow.folder("emulator").glob("obj/alpha*.o"))
    assert not (slow.folder("emulator") / "tmp").exists()
    slow.go.touch()
    assert statuses(slow.build(backend="emulator")) == {
        "alpha.n1": "built",
        "alpha.n2": "built",
        "beta.n1": "up to date",
    }


def test_a_killed_build_blocks_no_one_and_leaves_no_compiler(slow) -> None:
    build = slow.start(*EMULATOR)
    wait_for(slow.started.exists, "the compiler")
    build.send_signal(signal.SIGKILL)
    build.communicate(timeout=20)
    slow.go.touch()
    result = slow.build(backend="emulator")
    assert not result.failed
    assert "up to date" not in statuses(result).values()
    assert not processes_with(str(slow.slow_compiler))
    assert (slow.folder("emulator") / "obj/alpha.n1.o").stat().st_size > 100


def test_compilers_that_outlive_a_killed_group_are_waited_for(slow) -> None:
    """Even ninja is killed here: its compilers still hold the lock, so nobody writes beside them."""
    build = slow.start(*EMULATOR)
    wait_for(slow.started.exists, "the compiler")
    children = Path(f"/proc/{build.pid}/task/{build.pid}/children").read_text().split()
    build.send_signal(signal.SIGSTOP)
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    build.send_signal(signal.SIGKILL)
    build.communicate(timeout=20)
    second = slow.start(*EMULATOR)
    try:
        waiting = first_line(second.stderr)
        assert f"waiting for process {build.pid} on " in waiting
        assert "it is gone, its compilers are still ending" in waiting
    finally:
        end_processes(str(slow.slow_compiler))
        slow.go.touch()
    _, stderr = second.communicate(timeout=60)
    assert second.returncode == 0, stderr


def end_processes(text: str) -> None:
    """End the compilers of this test, by their ids."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if text in line:
                    os.killpg(os.getpgid(int(entry.name)), signal.SIGKILL)
            except OSError:
                continue


def test_of_two_builds_at_once_the_second_says_whom_it_waits_for(slow) -> None:
    first = slow.start(*EMULATOR)
    wait_for(slow.started.exists, "the compiler")
    second = slow.start(*EMULATOR, "--json")
    waiting = first_line(second.stderr)
    assert waiting.startswith(f"waiting for process {first.pid} on "), waiting
    slow.go.touch()
    end_sleeps(first.pid)
    first_out, first_err = first.communicate(timeout=60)
    second_out, second_err = second.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0), first_err + second_err
    edges = json.loads(second_out)["libraries"][0]["edges"]
    assert {edge["status"] for edge in edges} == {"up to date"}
    rows = [line.split()[:2] for line in first_out.splitlines()[1:4]]
    assert rows == [["alpha.n1", "built"], ["alpha.n2", "built"], ["beta.n1", "built"]]


def end_sleeps(pid: int) -> None:
    """Wake the compilers below `pid`."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        end_sleeps(int(child))
        if (Path("/proc") / child / "cmdline").read_bytes().startswith(b"sleep\0"):
            os.kill(int(child), signal.SIGKILL)


def test_a_broken_kernel_shows_its_own_output_and_the_others_are_built(tiny) -> None:
    tiny.write("csrc/alpha.cu", '#include "common/tiny.h"\nthis is not C++;\n')
    done = tiny.sparkctl("build")
    assert done.returncode == 1
    assert "alpha.n1 failed (cuda-sm_90-release), exit code" in done.stderr
    assert "csrc/alpha.cu(2): error: " in done.stderr
    assert "nvcc -x cu -c csrc/alpha.cu" in done.stderr
    assert "beta" not in done.stderr
    assert "2 failed" in done.stdout
    objects = sorted(path.name for path in (tiny.folder() / "obj").glob("*.[op]*") if path.suffix != ".stats")
    assert objects == ["beta.n1.o", "beta.n1.ptxas"]
    assert not (tiny.folder() / "libsparkctl.so").exists()


def test_a_repaired_kernel_is_built_and_linked(tiny) -> None:
    source = (tiny.root / "csrc/alpha.cu").read_text()
    tiny.write("csrc/alpha.cu", "nonsense")
    assert tiny.build(backend="emulator").failed
    tiny.write("csrc/alpha.cu", source)
    result = tiny.build(backend="emulator")
    assert result.linked
    assert not result.failed


def test_a_compiler_that_crashes_is_named_with_its_signal(slow) -> None:
    slow.slow_compiler.write_text('#!/bin/sh\ncase "$*" in *alpha.cu*) kill -SEGV $$;; esac\nexec g++ "$@"\n')
    done = slow.sparkctl(*EMULATOR)
    assert done.returncode == 1
    assert "alpha.n1 failed (emulator-sm_90-release), killed by signal 11" in done.stderr


def test_a_full_disk_is_one_clear_error(slow) -> None:
    slow.slow_compiler.write_text(
        '#!/bin/sh\ncase "$*" in *alpha.cu*) echo "error writing: No space left on device" >&2; exit 1;; esac\n'
        'exec g++ "$@"\n'
    )
    done = slow.sparkctl(*EMULATOR)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert f"hint: free some space for {slow.root / 'build'}; the rest is built; " in done.stderr
    assert not list(slow.folder("emulator").glob("obj/alpha*.o"))


def test_a_disk_too_full_for_ninja_itself_is_to_be_freed(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, run: NinjaRun, **__: object) -> None:
        run.returncode = 1
        run.messages.append("build stopped: Error writing to deps log: No space left on device.")

    monkeypatch.setattr("sparkctl.build.runner.run_ninja", stop)
    with pytest.raises(WorkFailed, match="ninja stopped: build stopped: Error writing to deps log") as caught:
        tiny.build(backend="emulator")
    assert caught.value.hint == f"free some space for {tiny.root / 'build'}"


@pytest.mark.parametrize("kind", ["file", "dangling link"])
@pytest.mark.parametrize("name", ["build", "build/emulator-sm_90-release"])
def test_a_file_in_place_of_a_build_folder_is_to_be_moved_away(tiny, kind: str, name: str) -> None:
    place = tiny.root / name
    place.parent.mkdir(exist_ok=True)
    if kind == "file":
        place.write_text("a file where the folder should be")
    else:
        place.symlink_to("nowhere")
    done = tiny.sparkctl("build", "--backend", "emulator")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: cannot build in {tiny.root / 'build'}: {place} is not a folder\n"
        f"hint: move it away: mv {place} {place}.old\n"
    )


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A call that makes build folders as a user meets them who may only read; root can write anywhere."""

    def refuse(self: object, **_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "build/.lock")

    return lambda: monkeypatch.setattr("sparkctl.build.locks.FileLock.acquire", refuse)


def test_a_read_only_folder_that_is_up_to_date_is_good_enough(built, read_only) -> None:
    read_only()
    result = built.build()
    assert set(statuses(result).values()) == {"up to date"}
    assert result.library.exists()


@pytest.mark.parametrize("missing", ["obj/alpha.n1.o", "libsparkctl.so", "manifest.json", "state.json"])
def test_a_read_only_folder_in_which_something_is_missing_is_an_error(built, read_only, missing: str) -> None:
    (built.folder() / missing).unlink()
    read_only()
    with pytest.raises(WorkFailed, match=r"cannot build in .*Permission denied") as caught:
        built.build()
    assert caught.value.hint == "make the folder writable, or free some space"


def test_a_read_only_folder_with_an_older_source_is_an_error(built, read_only) -> None:
    built.write("csrc/common/scale.h", "#define SCALE 12.5f\n")
    read_only()
    with pytest.raises(WorkFailed, match="Permission denied"):
        built.build()


@pytest.mark.parametrize("backend", ["cuda", "emulator"])
def test_spaces_and_unicode_in_paths_work(tiny, tmp_path: Path, backend) -> None:
    place = tmp_path / 'größer & kleiner\'s "Ordner" 内核 $HOME'
    tiny.root.rename(place)
    tiny.root = place
    assert not tiny.build(backend=backend).failed
    assert set(statuses(tiny.build(backend=backend)).values()) == {"up to date"}
    tiny.write("csrc/common/scale.h", "#define SCALE 11.0f\n")
    assert statuses(tiny.build(backend=backend))["alpha.n1"] == "built"


@pytest.mark.parametrize("backend", ["cuda", "emulator"])
def test_very_long_paths_work(tiny, tmp_path: Path, backend) -> None:
    place = tmp_path.joinpath(*(letter * 200 for letter in "abcdefgh"), "project")
    place.parent.mkdir(parents=True)
    tiny.root.rename(place)
    tiny.root = place
    assert not tiny.build(backend=backend).failed
    assert set(statuses(tiny.build(backend=backend)).values()) == {"up to date"}


def test_spaces_in_source_names_and_headers_work(tiny) -> None:
    tiny.write("csrc/with space.h", "#define SCALE 2.0f\n")
    alpha = (tiny.root / "csrc/alpha.cu").read_text()
    tiny.write("csrc/al pha.cu", alpha.replace("common/scale.h", "with space.h"))
    registry = (tiny.root / "flags.yaml").read_text()
    tiny.write("flags.yaml", registry.replace("csrc/alpha.cu", "csrc/al pha.cu"))
    assert not tiny.build("alpha").failed
    assert set(statuses(tiny.build("alpha")).values()) == {"up to date"}
    tiny.write("csrc/with space.h", "#define SCALE 4.0f\n")
    assert set(statuses(tiny.build("alpha")).values()) == {"built"}


HOSTILE = (
    "; touch PWNED",
    "$(touch PWNED)",
    "`touch PWNED`",
    "' ; touch PWNED ; '",
    '" ; touch PWNED ; "',
    "\\' ; touch PWNED ; \\'",
    "\\$(touch PWNED)",
    "\n touch PWNED",
    "| touch PWNED",
    "& touch PWNED",
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("backend", ["cuda", "emulator"])
def test_hostile_text_in_any_field_runs_nothing(tiny, tmp_path: Path, text: str, backend) -> None:
    """Whether it is refused or compiled, nothing of it is run."""
    quoted = json.dumps(text)
    registry = (tiny.root / "flags.yaml").read_text()
    fields = {
        "source": registry.replace("source: csrc/beta.cu", f"source: {quoted}"),
        "nvcc option": registry.replace("nvcc: []", f"nvcc: [{quoted}]"),
        "define by option": registry.replace("nvcc: []", f"nvcc: [{json.dumps('-DX=' + text)}]"),
        "passed on": registry.replace("nvcc: []", f"nvcc: [{json.dumps('-Xcompiler=' + text)}]"),
        "ptxas option": registry.replace("ptxas: [-v]", f"ptxas: [{quoted}]"),
        "host option": registry.replace("host: [-O0, -g]", f"host: [{quoted}]"),
        "macro": registry.replace("define: TINY_LEVEL", f"define: {quoted}"),
        "axis value": registry.replace("size: {values: [1], short: n}", f"size: {{values: [{quoted}], short: n}}"),
        "axis short": registry.replace("size: {values: [1], short: n}", f"size: {{values: [1], short: {quoted}}}"),
        "block": registry.replace("block: 32", f"block: {quoted}"),
        "kernel": registry.replace("  beta:", f"  {quoted}:"),
        "profile": registry.replace("  lineinfo:", f"  {quoted}:"),
        "family": registry.replace("family: tiny", f"family: {quoted}"),
    }
    for field, content in fields.items():
        assert content != registry, field
        tiny.write("flags.yaml", content)
        for profile in ("release", text) if field == "profile" else ("release",):
            attempt(lambda profile=profile: tiny.build("beta", backend=backend, profile=profile))
    tiny.write("flags.yaml", registry)
    attempt(lambda: tiny.build("beta", backend=backend, sets={"extra": text}))
    attempt(lambda: tiny.build("beta", backend=backend, sets={"level": text}))
    attempt(lambda: tiny.build(text, backend=backend))
    attempt(lambda: tiny.build("beta", backend=backend, nvcc=text))
    for name in ("CXX", "SPARKCTL_NVCC", "CUDA_HOME", "CCACHE_DIR", "TMPDIR", "SPARKCTL_CCACHE"):
        before = dict(tiny.environ)
        tiny.environ[name] = text
        attempt(lambda: tiny.build("beta", backend=backend))
        tiny.environ = before
    place = tmp_path / f"project {text}".replace("\n", " ")
    tiny.root.rename(place)
    tiny.root = place
    attempt(lambda: tiny.build("beta", backend=backend))
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith("PWNED")]
    assert not Path("PWNED").exists()


def attempt(build: Callable[[], object]) -> None:
    with contextlib.suppress(SparkctlError):
        build()

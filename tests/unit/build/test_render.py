"""Lines of the report that depend on numbers which a real build cannot fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkctl.build.model import EdgeResult, PlanResult
from sparkctl.render.build import _cache_text, _compiler_text, times_as_fast
from sparkctl.toolchain import CompilerChoice

NVCC = Path("/cuda/bin/nvcc")
COMPILER = CompilerChoice("nvcc 13.0.88", NVCC, "wheels", "CUDA_HOME not set; PATH: none", ())
PASSING = CompilerChoice("nvcc 13.0.88", NVCC, "wheels", "CUDA_HOME: no /x; PATH: none", ("CUDA_HOME: no /x",))


def plan(*edges: EdgeResult, wall_s: float = 2.0) -> PlanResult:
    return PlanResult("l", Path("/l"), COMPILER, Path("/l/x.so"), None, edges, linked=True, wall_s=wall_s)


def hits(count: int, saved_s: float | None) -> list[EdgeResult]:
    return [EdgeResult(f"k{number}", "cached", time_s=0.1, saved_s=saved_s) for number in range(count)]


@pytest.mark.parametrize(
    ("jobs", "count", "saved_s", "expected"),
    [
        (1, 4, 3.0, (12 / 1 + 2) / 2),
        (2, 4, 3.0, (12 / 2 + 2) / 2),
        (64, 4, 3.0, (12 / 4 + 2) / 2),  # four edges keep no more than four jobs busy
        (2, 0, 0.0, 1.0),
    ],
)
def test_saved_seconds_count_over_the_jobs_that_they_could_have_filled(
    jobs: int, count: int, saved_s: float, expected: float
) -> None:
    assert times_as_fast(plan(*hits(count, saved_s)), jobs) == pytest.approx(expected)


def test_the_cache_line_says_hits_seconds_and_ratio() -> None:
    text = "4 hits, 12.0 s of compiling saved: about 4.0 times as fast as without the cache"
    assert _cache_text(plan(*hits(4, 3.0)), 2) == text
    assert _cache_text(plan(*hits(4, 3.0), *hits(1, None)), 2) == f"5{text[1:]} (1 never measured)"
    assert _cache_text(plan(*hits(1, None)), 2) == "1 hit; what they would have taken was never measured"


def test_the_compiler_line_is_short_and_never_hides_what_was_passed_over() -> None:
    assert _compiler_text(COMPILER, full=False) == "nvcc 13.0.88 at /cuda/bin/nvcc (wheels)"
    assert _compiler_text(COMPILER, full=True) == (
        "nvcc 13.0.88 at /cuda/bin/nvcc (wheels: CUDA_HOME not set; PATH: none)"
    )
    assert _compiler_text(PASSING, full=False) == (
        "nvcc 13.0.88 at /cuda/bin/nvcc (wheels; passed over CUDA_HOME: no /x)"
    )
    assert _compiler_text(PASSING, full=True) == (
        "nvcc 13.0.88 at /cuda/bin/nvcc (wheels: CUDA_HOME: no /x; PATH: none)"
    )

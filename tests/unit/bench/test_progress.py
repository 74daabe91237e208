"""The time that is left, as the bar says it."""

import io

import pytest
from rich.console import Console

from sparkctl.render.bench_progress import FIRST_GUESS_S, CaseProgress, format_left, remaining_s


def test_before_a_case_has_ended_it_is_a_guess() -> None:
    assert remaining_s([], 0.0, 4) == 4 * FIRST_GUESS_S
    assert remaining_s([], 1.0, 4) == 4 * FIRST_GUESS_S - 1.0
    assert remaining_s([], 99.0, 4) == 3 * FIRST_GUESS_S


def test_then_it_is_the_mean_of_those_that_ended() -> None:
    assert remaining_s([4.0, 8.0], 2.0, 3) == 4.0 + 2 * 6.0
    assert remaining_s([4.0, 8.0], 60.0, 1) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "about 1 s left"), (12.4, "about 12 s left"), (200.0, "about 3 min left")]
)
def test_it_reads_as_people_say_it(seconds: float, text: str) -> None:
    assert format_left(seconds) == text


def test_the_bar_shows_case_count_and_estimate_and_goes_away() -> None:
    screen = io.StringIO()
    clock = iter(range(0, 1000, 5))
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    progress = CaseProgress(console, now=lambda: float(next(clock)))
    progress.at(1, 3, "1 × 4k [x]")
    progress.at(2, 3, "8 × 4k [x]")
    progress._bar.refresh()
    progress.stop()
    shown = screen.getvalue()
    assert "8 × 4k [x]" in shown
    assert "1/3" in shown
    assert " s left" in shown
    assert shown.endswith("\x1b[2K") or "\x1b[2K" in shown


def test_a_pipe_gets_a_line_per_case_and_quiet_nothing() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=100)
    CaseProgress(console).at(1, 2, "1 × 4k")
    CaseProgress(console, quiet=True).at(2, 2, "8 × 4k")
    assert screen.getvalue() == "[1/2] 1 × 4k\n"

"""`sparkctl bench --from`, `--history`, `--baseline`, `--plot`: results shown and drawn, with no device."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from sparkctl.bench import plots
from sparkctl.bench.history import history_path, record_run
from sparkctl.bench.saved import load_run
from sparkctl.cli.app import main
from sparkctl.cli.bench_output import choose_baseline
from sparkctl.render.bench_plot import plot_lines

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/h200"


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["bench", *args])
    out, err = capsys.readouterr()
    return code, "\n".join(line.rstrip() for line in out.splitlines()), err


def on_terminal(columns: int, *args: str, **environ: str) -> str:
    """What a terminal of so many columns gets."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "sparkctl", "bench", *args]
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **environ}
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=env, cwd=ROOT) as process:
        os.close(follower)
        parts = []
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the terminal is gone with its program
                break
            if not part:
                break
            parts.append(part)
        process.wait()
    os.close(leader)
    assert process.returncode == 0
    return b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")


SCREEN = """\
attn_decode_split_kv_mma.bf16.d128, 32/8 heads, cold L2; case: batch × kv_len
          time  noise           % of  % of          eager   SDPA   SDPA
case        µs      %  TB/s  ceiling  peak  splits     µs  cuDNN  flash
1 × 4k    8.67    0.2  1.94       63    40      16  14.79  1.24×  2.07×
8 × 4k   34.71    0.1  3.87       89    81       2  37.74  1.05×  1.12×
1 × 16k  20.12    0.3  3.34       81    70      16  22.72  1.11×  1.48×
8 × 16k  123.3    0.1  4.35       97    91       2  125.5  1.02×  1.04×

× is the peer's time over ours: above 1 ours is faster.
device    NVIDIA H200, sm_90, 132 SMs, 60 MiB L2, peak 4.8 TB/s (datasheet), SM
          at 1980 MHz
software  driver 580.159.04, CUDA 13.0, torch 2.11.0+cu130, cuDNN 91900, nvcc
          13.0.88
revision  sparkctl 0.1.0, commit bf1aef08b3d2, profile release
repeat    sparkctl bench --seq 4k,16k --batch 1,8 --heads 32/8 --head-dim 128
          --dtype bf16 --l2 cold --peers sdpa --budget 3 --profile release"""

BARS = """\

attn_decode_split_kv_mma.bf16.d128, TB/s; │ the read ceiling
1 × 4k   █████████████████████▌            │                  1.94 of 3.10, 63 %
8 × 4k   ██████████████████████████████████████████▉     │    3.87 of 4.34, 89 %
1 × 16k  █████████████████████████████████████         │      3.34 of 4.11, 81 %
8 × 16k  ████████████████████████████████████████████████▎ │  4.35 of 4.51, 97 %"""

ASCII_BARS = """\

attn_decode_split_kv_mma.bf16.d128, TB/s; | the read ceiling
1 x 4k   #####################             |                  1.94 of 3.10, 63 %
8 x 4k   ###########################################     |    3.87 of 4.34, 89 %
1 x 16k  #####################################         |      3.34 of 4.11, 81 %
8 x 16k  ################################################  |  4.35 of 4.51, 97 %"""


def test_a_saved_run_is_shown_as_if_it_were_just_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(capsys, "--from", "decode")
    assert (code, out) == (0, SCREEN)
    assert err == f"{RESULTS / 'decode.json'}, measured 2026-12-01T04:39:13+00:00\n"
    assert run(capsys, "--from", "benchmarks/results/h200/decode.json", "-q") == (0, SCREEN, "")


def test_a_terminal_has_bars_beneath_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = on_terminal(80, "--from", "decode", "-q", NO_COLOR="1")
    assert "\n".join(line.rstrip() for line in out.splitlines()) == SCREEN + "\n" + BARS
    coloured = on_terminal(80, "--from", "decode", "-q")
    assert "\033[36m█████" in coloured
    assert re.sub(r"\033\[[0-9;]*m", "", coloured).rstrip() == out.rstrip()
    wide = on_terminal(120, "--from", "ab_fapipe", "-q", NO_COLOR="1")
    assert max(map(len, wide.splitlines())) == 120
    assert sum(bool(re.search("FAPIPE=1 +███", line)) for line in wide.splitlines()) == 4


def test_bars_can_be_left_out_and_are_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "█" not in on_terminal(80, "--from", "decode", "--no-plot")
    assert "█" not in run(capsys, "--from", "decode")[1]


def test_an_encoding_without_blocks_gets_plain_characters() -> None:
    out = on_terminal(80, "--from", "decode", "-q", NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert "\n".join(line.rstrip() for line in out.splitlines()).endswith(ASCII_BARS)


def test_bars_fit_any_width_and_are_none_where_they_have_no_room() -> None:
    rows = load_run(RESULTS / "decode_dims.json").rows
    for width in (60, 80, 100, 120):
        assert {len(str(line)) for line in plot_lines(rows, width)} == {width}
    assert {len(str(line)) for line in plot_lines(rows, 300)} == {120}
    assert plot_lines(rows, 40) == []
    assert plot_lines([], 80) == []


def test_a_bar_crosses_the_mark_only_above_the_ceiling() -> None:
    from sparkctl.bench.results import Sample, Series

    row = load_run(RESULTS / "decode.json").rows[3]
    fast = Series(tuple(Sample(row.series.median_us * 0.8) for _ in range(20)), 1, "precise")
    line, over = plot_lines([row, replace(row, series=fast)], 80)
    assert not line.tail.strip()
    assert over.tail.startswith("██████")
    assert len(str(line)) == len(str(over)) == 80


def test_csv_json_and_markdown_of_a_saved_run_say_how_to_repeat_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--from", "paged", "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == len({row["repeat"] for row in rows}) == 16
    first = rows[0]
    assert (first["gpu"], first["driver"], first["stop"], first["samples"]) == (
        "NVIDIA H200",
        "580.159.04",
        "precise",
        "20",
    )
    assert all(row["noise"] and row["commit"] and row["started"] for row in rows)
    _, out, _ = run(capsys, "--from", "paged", "--json")
    assert [row["repeat"] for row in json.loads(out)["rows"]] == [row["repeat"] for row in rows]
    _, out, _ = run(capsys, "--from", "paged", "--markdown")
    assert [line for line in out.splitlines() if line.startswith("sparkctl bench ")] == [row["repeat"] for row in rows]


def test_a_saved_run_is_not_measured_so_nothing_that_decides_a_case_goes_with_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "attn_combine", "--from", "decode", "--seq", "4k", "--ab", "stages=1,2")
    assert (code, out) == (2, "")
    assert err == (
        "error: --from takes no KERNEL, no --seq, no --ab: it shows a saved run\nhint: leave out --from to measure\n"
    )
    assert run(capsys, "--from", "decode", "--csv", "--json")[0] == 2
    assert run(capsys, "--from", "decode", "--estimate", "H200")[0] == 2


def test_what_cannot_be_read_is_one_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "--from", "decoder")
    assert code == 2
    assert err.startswith("error: no saved result 'decoder'\nhint: did you mean 'decode'?\n      saved: ab_fapipe, ")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    code, _, err = run(capsys, "--from", str(broken))
    assert (code, err.count("error:")) == (2, 1)
    assert err.startswith(f"error: {broken}: not JSON: ")
    code, _, err = run(capsys, "--from", "benchmarks/results/h200/decode_sweep.json")
    assert code == 2
    assert "a result of kind decode_sweep" in err
    code, _, err = run(capsys, "--from", str(tmp_path))
    assert code == 2


AGAINST = """\

against benchmarks/results/h200/paged.json: commit 1aff6ebc10e2, measured
2026-12-01T01:47:24+00:00
         baseline    now
case           µs     µs  ratio     interval  verdict
1 × 4k       8.67   8.67  1.001  0.998–1.003     same
8 × 4k      34.87  34.71  1.005  1.003–1.006     same
1 × 16k     20.12  20.12  1.000  0.996–1.007     same
8 × 16k     123.8  123.3  1.004  1.002–1.007     same
4 same
ratio: the baseline's time over this run's: above 1 this run is faster. Not
interleaved: the two were measured at different times, so clocks and temperature
are in the ratio; --ab decides small differences. interval: from both medians'
intervals at 99.5%; faster, slower: all of it is more than 1% from 1; same:
within 2%.
12 rows of the baseline were not measured now"""


def test_a_baseline_is_held_against_the_run_in_every_form(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "--from", "decode", "--baseline", "paged", "-q")
    assert (code, out) == (0, f"{SCREEN}\n{AGAINST}")
    _, out, _ = run(capsys, "--from", "decode", "--baseline", "paged", "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert {row["baseline_verdict"] for row in rows} == {"same"}
    assert float(rows[0]["baseline_ratio"]) == pytest.approx(1.0006, abs=1e-3)
    _, out, _ = run(capsys, "--from", "decode", "--baseline", "paged", "--json")
    record = json.loads(out)
    schema = json.loads((ROOT / "docs/bench.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(record)
    assert (record["baseline"]["interleaved"], record["baseline"]["rows"][0]["verdict"]) == (False, "same")
    _, out, _ = run(capsys, "--from", "decode", "--baseline", "paged", "--markdown")
    assert "| 1 × 4k | 8.67 | 8.67 | 1.001 | 0.998–1.003 | same |" in out
    assert "- 12 rows of the baseline were not measured now" in out


def test_a_missing_baseline_lists_those_there_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "--from", "decode", "--baseline", "yesterday")
    assert (code, out) == (2, "")
    assert err.startswith("error: no saved result 'yesterday'\nhint: saved: ab_fapipe, ")
    code, _, err = run(capsys, "--from", "ab_stages", "--baseline", "decode", "--csv")
    assert code == 2
    assert "--csv with --ab has no place for --baseline" in err
    broken = tmp_path / "broken.json"
    broken.write_text("[")
    assert run(capsys, "--from", "decode", "--baseline", str(broken))[0] == 2


def test_of_one_name_the_baseline_of_the_runs_own_gpu_is_taken() -> None:
    now = load_run(RESULTS / "decode.json")
    other = replace(now, environment=replace(now.environment, gpu="NVIDIA B200"))
    found = choose_baseline(now, [(Path("b200/decode.json"), other), (Path("h200/decode.json"), now)])
    assert found is not None
    assert (found.source, found.comparable) == ("h200/decode.json", True)
    found = choose_baseline(now, [(Path("b200/decode.json"), other)])
    assert found is not None
    assert (found.source, found.comparable) == ("b200/decode.json", False)
    assert choose_baseline(now, []) is None


def picture(path: Path) -> bytes:
    assert [file.name for file in path.parent.glob(".*tmp")] == []
    return path.read_bytes()


def test_a_run_is_drawn_as_png_and_as_svg_that_says_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "--from", "decode", "--plot", str(tmp_path / "run.png"))
    assert code == 0
    assert "1 × 16k" in out
    assert f"drawn in {tmp_path / 'run.png'}" in err
    assert picture(tmp_path / "run.png").startswith(b"\x89PNG")
    svg = tmp_path / "run.svg"
    assert run(capsys, "--from", "paged", "--markdown", "--plot", str(svg))[0] == 0
    text = picture(svg).decode()
    for word in ("NVIDIA H200", "roofline", "scaling", "FLOP/byte", "TB/s", "4k", "16k", "SDPA cuDNN", "pages of 64"):
        assert word in text, word
    assert run(capsys, "--from", "paged", "--csv", "--plot", str(svg))[0] == 0
    assert picture(svg).decode() == text


@pytest.mark.parametrize("name", ["decode_dims", "ab_fapipe", "splits_rule"])
def test_every_kind_of_run_can_be_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    assert run(capsys, "--from", name, "--plot", str(tmp_path / "run.svg"))[0] == 0
    assert "32/" in (text := picture(tmp_path / "run.svg").decode()) or "FAPIPE=1, batch 8" in text


def test_a_picture_that_cannot_be_is_refused_before_anything_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, words in (
        ("run.jpeg", "unknown extension '.jpeg'"),
        ("run", "no extension"),
        ("none/run.png", f"no folder {tmp_path / 'none'}"),
    ):
        code, out, err = run(capsys, "--from", "decode", "--plot", str(tmp_path / name))
        assert (code, out) == (2, "")
        assert err.startswith(f"error: --plot {tmp_path / name}: {words}\nhint: ")
    (tmp_path / "folder.svg").mkdir()
    code, _, err = run(capsys, "--from", "decode", "--plot", str(tmp_path / "folder.svg"))
    assert (code, "a folder" in err) == (2, True)
    code, _, err = run(capsys, "--from", "decode", "--plot", "/proc/run.png")
    assert (code, err.count("error: --plot /proc/run.png: ")) == (2, 1)
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    code, out, err = run(capsys, "--from", "decode", "--plot", str(tmp_path / "run.png"))
    assert (code, out) == (3, "")
    assert err.startswith("error: --plot needs matplotlib, which is not installed\nhint: pip install 'sparkctl[plot]'")


HISTORY = """\
attn_decode_split_kv_mma.bf16.d128 on NVIDIA H200
1 × 4k, 32/8, d128, bf16  ▁▁  2 runs, 8.67 µs
                                time  noise           % of           against
date, UTC         commit          µs      %  TB/s  ceiling  splits    before
2026-12-01 04:39  bf1aef08b3d2  8.67    0.2  1.94       63      16         –
2026-12-01 04:39  bf1aef08b3d2  8.67    0.2  1.94       63      16  (+0.0 %)

"""


@pytest.fixture
def recorded() -> Path:
    """Two equal runs in this test's own history."""
    path = history_path(os.environ)
    for _ in range(2):
        assert record_run(path, load_run(RESULTS / "decode.json")) is None
    return path


def test_the_history_of_a_kernel_on_a_screen_of_80_columns(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(capsys, "--history", "attn_decode_split_kv_mma", "--plot", str(tmp_path / "history.svg"))
    assert code == 0
    assert out.startswith(HISTORY)
    assert max(map(len, out.splitlines())) <= 80
    assert err == f"drawn in {tmp_path / 'history.svg'}\n"
    assert "1 × 4k, 32/8, d128, bf16: 8.668 µs" in picture(tmp_path / "history.svg").decode()


def test_the_history_as_json_and_csv(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--history", "attn_*", "--json")
    record = json.loads(out)
    assert (record["schema_version"], record["kind"], len(record["rows"])) == (1, "bench_history", 8)
    _, out, _ = run(capsys, "--history", "attn_*", "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert [float(row["time_us"]) for row in rows] == [row["time_us"] for row in record["rows"]]
    assert rows[0]["repeat"].startswith("sparkctl bench --seq 4k")


def test_only_the_latest_ten_runs_are_listed_without_v(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(10):
        record_run(recorded, load_run(RESULTS / "decode.json"))
    _, out, _ = run(capsys, "--history", "attn_*")
    assert out.count("2026-12-01") == 40
    assert out.count("2 older: -v lists them") == 4
    _, out, _ = run(capsys, "--history", "attn_*", "-v")
    assert out.count("2026-12-01") == 48


def test_a_history_that_says_nothing_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--history", "attn_x")
    assert (code, out) == (2, "")
    assert err.startswith("error: no run was recorded yet: ")
    path = history_path(os.environ)
    record_run(path, load_run(RESULTS / "decode.json"))
    code, _, err = run(capsys, "--history", "attn_x")
    assert code == 2
    assert err.startswith("error: no run of 'attn_x' in the history\nhint: ")
    assert "recorded: attn_decode_split_kv_mma" in err
    code, _, err = run(capsys, "--history", "attn_x", "--seq", "4k", "--markdown")
    assert (code, "--history takes no --seq, no --markdown: it shows what was recorded" in err) == (2, True)
    path.write_bytes(b"broken" * 1000)
    code, _, err = run(capsys, "--history", "attn_x")
    assert (code, err.count("error: "), "move the file away" in err) == (1, 1, True)

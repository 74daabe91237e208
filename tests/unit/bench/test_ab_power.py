"""benchmarks/ab_power.py on a device that is made up: noise like a GPU's, a planted slowdown, its calibration, bars."""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fake_device import FakeDevice, fake_library

from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.facts import DeviceFacts
from sparkctl.bench.results import Sample
from sparkctl.errors import MissingTool, WorkFailed
from sparkctl.registry import find_project, load_registry
from sparkctl.runtime import Library

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "ab_power.py"
FACTS = DeviceFacts("NVIDIA H200", "sm_90", 132, 20_000, None, "13.0", "2.11", None, "3.12", "no NVML here")
CASE_US, MHZ = 18.0, 1980


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("ab_power", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ab_power", module)
    spec.loader.exec_module(module)
    cases = (DecodeCase(1, 64, Heads(4, 2), 64), DecodeCase(2, 32, Heads(4, 2), 64))
    for name, value in {"CASES": cases, "VARIANT": "attn_decode_split_kv_mma.bf16.d64"}.items():
        monkeypatch.setattr(module, name, value)
    return module


def noisy(seed: int, *, noise: float, cost: float = 1.0) -> Callable[[str, int], Sample]:
    """Noise, a drift and two clocks that both arms share, spikes; a cycle of planted work costs `cost` cycles."""
    draw, drift = random.Random(seed), [1.0]

    def sample_of(name: str, index: int) -> Sample:
        drift[0] *= draw.gauss(1.0, 0.0002)
        clock = 1.0 if int(index / 50) % 2 else 1.006
        spike = 1.05 if draw.random() < 0.02 else 1.0
        cycles = int(name.partition("+")[2] or 0)
        time_us = (CASE_US + cost * cycles / MHZ) * drift[0] * clock * spike * draw.gauss(1.0, noise)
        return Sample(round(time_us / 0.004) * 0.004, MHZ)  # events count in 0.5 µs, over some 110 calls

    return sample_of


def open_lab(script: ModuleType, sample_of: Callable[[str, int], Sample]) -> Any:
    device = FakeDevice(sample_of)

    def open_library(cycles: int) -> Library:
        library = fake_library(device)
        library.module.decode = lambda *args: args[6].fill_(1.0)
        if cycles:
            library.module.names = [f"{name}+{cycles}" for name in library.module.names]
        return library

    return script.Lab(device, device, FACTS, open_library, warm_up_s=0.0)


def test_equal_arms_and_a_planted_slowdown_reach_their_bars_in_noise_like_a_gpus(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = open_lab(script, noisy(3, noise=0.003, cost=0.8))
    options = argparse.Namespace(out=tmp_path / "power.json", aa=200, planted=100, budget=0.4)
    assert script.run(load_registry(find_project() / "flags.yaml"), lab, options) == 0
    record = json.loads(options.out.read_text())
    assert (record["kind"], record["passed"]) == ("ab_power", True)
    assert record["environment"]["gpu"] == "NVIDIA H200"
    assert record["command"] == "python benchmarks/ab_power.py power.json --aa 200 --planted 100 --budget 0.4"
    equal, planted = record["equal_arms"], record["planted"]
    assert (equal["count"], equal["least"], len(equal["comparisons"])) == (200, 198, 200)
    assert equal["verdicts"]["same"] >= 198
    assert (planted["count"], planted["least"], planted["flag"]) == (100, 95, "planted_work")
    assert planted["verdicts"]["slower"] >= 95
    assert planted["slowdown"] == pytest.approx(0.02, abs=0.003)
    assert planted["cycles"] == pytest.approx(0.02 * CASE_US * MHZ / 0.8, rel=0.15)
    assert 0.017 <= planted["interval"]["low"] <= planted["slowdown"] <= planted["interval"]["high"] <= 0.023
    assert {one["case"] for one in equal["comparisons"]} == {case.label for case in script.CASES}
    assert set(equal["comparisons"][0]) == {"case", "ratio", "interval", "verdict", "rounds", "throttled"}
    shown = capsys.readouterr().out
    assert "a kernel against itself: " in shown
    assert shown.count("passed") == 2


def test_noise_that_hides_two_percent_misses_the_bars(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = open_lab(script, noisy(5, noise=0.08))
    pair = script.make_pair(lab, script.CASES[0], [("one", lab.open_library(0)), ("other", lab.open_library(0))])
    found = script.compare_often([pair], 20, script.StopRule(20, 40), 0.0)
    assert not script.report(found, "same", 0.99, "equal arms")["passed"]
    assert "20 wanted: MISSED" in capsys.readouterr().out


def test_an_arm_that_is_slower_by_itself_is_not_called_the_same(script: ModuleType) -> None:
    lab = open_lab(script, noisy(1, noise=0.001))
    pair = script.make_pair(lab, script.CASES[0], [("one", lab.open_library(0)), ("other", lab.open_library(700))])
    assert {one.verdict for one in script.compare_often([pair], 10, script.StopRule(), 0.4)} == {"slower"}


def test_work_that_costs_nothing_cannot_be_planted(script: ModuleType) -> None:
    lab = open_lab(script, noisy(1, noise=0.001, cost=0.0))
    with pytest.raises(WorkFailed, match=r"no planted work is 2% ± 0\.3%: 7\d\d cycles"):
        script.calibrate(lab, script.CASES[0], lab.open_library(0))


def test_the_next_try_is_on_the_line_through_the_last_two(script: ModuleType) -> None:
    assert script.next_cycles([(1000, 0.04)]) == 500
    assert script.next_cycles([(1000, 0.001)]) == 2000
    assert script.next_cycles([(1000, 0.014), (2000, 0.024)]) == 1600


def test_arms_with_other_outputs_or_none_are_found_out(script: ModuleType) -> None:
    lab = open_lab(script, noisy(1, noise=0.001))
    base, other = lab.open_library(0), lab.open_library(0)
    other.module.decode = lambda *args: args[6].fill_(2.0)
    pair = script.make_pair(lab, script.CASES[0], [("one", base), ("other", other)])
    pair.compare(script.StopRule(2, 2), 0.0)
    with pytest.raises(WorkFailed, match="the arms' outputs differ"):
        pair.check_outputs()
    pair.refresh()
    with pytest.raises(WorkFailed, match="NaN in the outputs"):
        pair.check_outputs()


def test_the_equal_arms_stay_in_the_file_when_the_second_half_fails(script: ModuleType, tmp_path: Path) -> None:
    lab = open_lab(script, noisy(1, noise=0.001, cost=0.0))
    options = argparse.Namespace(out=tmp_path / "power.json", aa=4, planted=4, budget=0.25)
    with pytest.raises(WorkFailed):
        script.run(load_registry(find_project() / "flags.yaml"), lab, options)
    record = json.loads(options.out.read_text())
    assert (len(record["equal_arms"]["comparisons"]), record["passed"]) == (4, False)
    assert record["error"].startswith("no planted work is 2% ± 0.3%")


def test_a_missed_bar_is_exit_code_1_and_no_device_is_3(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = open_lab(script, noisy(3, noise=0.002))
    monkeypatch.setattr(script, "SAME_SHARE", 1.5)
    options = argparse.Namespace(out=tmp_path / "power.json", aa=4, planted=4, budget=0.25)
    assert script.run(load_registry(find_project() / "flags.yaml"), lab, options) == 1
    assert json.loads(options.out.read_text())["passed"] is False

    def no_device() -> None:
        raise MissingTool("no device")

    monkeypatch.setattr(script, "find_bench_arch", no_device)
    monkeypatch.setattr(sys, "argv", ["ab_power.py", str(tmp_path / "none.json")])
    assert script.main() == 3
    assert "error: no device" in capsys.readouterr().err
    assert not (tmp_path / "none.json").exists()


def test_a_long_series_with_too_wide_an_interval_does_not_calibrate(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = open_lab(script, noisy(2, noise=0.03))
    monkeypatch.setattr(script, "LONG", script.StopRule(30, 30))
    with pytest.raises(WorkFailed, match="no planted work"):
        script.calibrate(lab, script.CASES[0], lab.open_library(0))


def test_the_first_half_is_in_the_file_before_the_second_begins(script: ModuleType, tmp_path: Path) -> None:
    lab = open_lab(script, noisy(1, noise=0.001))
    options = argparse.Namespace(out=tmp_path / "power.json", aa=4, planted=4, budget=0.25)
    open_library, seen = lab.open_library, list[int]()

    def look(cycles: int) -> Library:
        if cycles:
            seen.append(len(json.loads(options.out.read_text())["equal_arms"]["comparisons"]))
        return open_library(cycles)

    look_lab = script.Lab(lab.device, lab.clocks, lab.facts, look, warm_up_s=0.0)
    assert script.run(load_registry(find_project() / "flags.yaml"), look_lab, options) == 0
    assert set(seen) == {4}

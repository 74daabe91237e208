"""The run through pytest: one item a variant, counts counted at run time, failures kept. A torch kernel stands in."""

import math
import os
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from sparkctl.registry import find_project, load_registry, select_variants
from sparkctl.testing import failures, prepare, suite
from sparkctl.testing.guard import Outputs, guarded, guarded_output
from sparkctl.testing.model import DecodeCase
from sparkctl.testing.plugin import run_pytest
from sparkctl.testing.prepare import Prepared, Target
from sparkctl.testing.reference import attention_reference, plain_emulation
from sparkctl.testing.results import Selection

CASES = (DecodeCase((5,)), DecodeCase((0,)), DecodeCase((9, 3), group=3, slack=1))


class StandInLibrary:
    """Counts launches like the emulator's library."""

    launches = 0

    def emulator_launch_count(self):
        return self.launches


@pytest.fixture
def registry():
    return load_registry(find_project(None) / "flags.yaml")


@pytest.fixture
def variants(registry):
    return select_variants(registry, ["attn_decode_split_kv"], where={"head_dim": ["32"]})


@pytest.fixture
def target():
    return Target(StandInLibrary(), "cpu")


@pytest.fixture
def kernel(monkeypatch):
    """The stand-in's faults; a test sets what it wants to go wrong."""
    faults = {"launches": 2, "spoil": lambda case, outputs, turn: None}

    def prepare_decode(target, variant, case):
        dtype = str(variant.value("dtype"))
        inputs = prepare.make_decode_inputs(case, dtype, 32, "cpu", target.seed)
        arguments = {"kv_lens": inputs.kv_lens, "causal": case.causal}
        out, lse = attention_reference(inputs.q, inputs.k, inputs.v, **arguments)
        plain = plain_emulation(inputs.q, inputs.k, inputs.v, **arguments)
        turns = []

        def call():
            outputs = Outputs(
                guarded_output(tuple(out.shape), dtype, case.layout, "cpu"),
                guarded(tuple(lse.shape), torch.float32, "cpu"),
            )
            outputs.out.view.copy_(out)
            outputs.lse.view.copy_(lse)
            target.library.launches += faults["launches"]
            turns.append(1)
            faults["spoil"](case, outputs, len(turns))
            return outputs

        return Prepared(call, 2, dtype, out, lse, plain)

    monkeypatch.setattr(suite, "prepare_decode", prepare_decode)
    return faults


def run(registry, target, variants, *, junit=None, seen=None):
    selections = [Selection(variant, CASES) for variant in variants]
    on_case = lambda selection, case, outcome: seen is not None and seen.append((selection.variant.name, case.id))  # noqa: E731
    return run_pytest(registry.path, target, selections, on_case=on_case, junit=junit)


def test_every_case_of_every_variant_runs_once(registry, target, variants, kernel):
    seen = []
    results = run(registry, target, variants, seen=seen)
    assert [result.variant.name for result in results] == [v.name for v in variants]
    assert [result.cases_run for result in results] == [3, 3]
    assert [result.launches for result in results] == [6, 6]
    assert seen == [(v.name, case.id) for v in variants for case in CASES]
    assert not any(result.failures for result in results)
    assert all(0 < result.worst < 1 for result in results)


def test_a_wrong_element_fails_its_case_and_no_other(registry, target, variants, kernel):
    def spoil(case, outputs, turn):
        if case.id == CASES[2].id:
            outputs.out.view[1, 0, 2, 7] += 1

    kernel["spoil"] = spoil
    for result in run(registry, target, variants):
        assert [failure.case_id for failure in result.failures] == [CASES[2].id]
        assert "out at batch 1, qo 0, head 2, dim 7: got " in result.failures[0].message
        assert result.worst_case == CASES[2].id
        assert result.cases_run == 3


def test_an_output_that_was_never_written_fails(registry, target, variants, kernel):
    kernel["spoil"] = lambda case, outputs, turn: outputs.out.view.fill_(math.nan)
    assert all(len(result.failures) == 3 for result in run(registry, target, variants))


def test_a_write_outside_the_output_fails(registry, target, variants, kernel):
    kernel["spoil"] = lambda case, outputs, turn: outputs.out.storage[:2].fill_(1)
    results = run(registry, target, variants)
    assert results[0].failures[0].message == "2 elements were written outside of the outputs, or not at all"


@pytest.mark.parametrize("launches", [0, 1, 3])
def test_an_output_that_the_kernel_did_not_make_fails(registry, target, variants, kernel, launches):
    kernel["launches"] = launches
    results = run(registry, target, variants)
    assert all(len(result.failures) == 3 for result in results)
    assert f"launched {launches} kernels, 2 were expected" in results[0].failures[0].message


def test_bits_that_change_between_repeats_fail(registry, variants, kernel):
    def spoil(case, outputs, turn):
        if turn == 3:
            outputs.lse.view[0, 0, 0] += 1e-6 if outputs.lse.view[0, 0, 0].isfinite() else 0

    kernel["spoil"] = spoil
    results = run(registry, Target(StandInLibrary(), "cpu", repeat=4), variants)
    assert [failure.message for failure in results[0].failures] == ["run 3 gave other bits than the first"] * 2
    assert results[0].cases_run == 3


def test_an_error_of_the_operator_is_a_failure_of_its_case(registry, target, variants, kernel):
    def spoil(case, outputs, turn):
        if case.id == CASES[0].id:
            raise RuntimeError("attn_decode: deadlock in block (0, 0, 0)")

    kernel["spoil"] = spoil
    result = run(registry, target, variants)[0]
    assert [f.message for f in result.failures] == ["RuntimeError: attn_decode: deadlock in block (0, 0, 0)"]
    assert result.cases_run == 3


def test_a_case_that_needs_too_much_memory_is_skipped_with_its_reason(registry, target, variants, kernel):
    def spoil(case, outputs, turn):
        if case.id == CASES[0].id:
            raise MemoryError("cuda:0 has 1.0 GiB free, the case needs 10.5 GiB")

    kernel["spoil"] = spoil
    result = run(registry, target, variants)[0]
    assert result.cases_run == 2
    assert not result.failures
    assert [(s.case_id, s.reason) for s in result.skips] == [
        (CASES[0].id, "cuda:0 has 1.0 GiB free, the case needs 10.5 GiB")
    ]


def test_a_lost_device_stops_the_run_and_leaves_the_rest_unrun(registry, target, variants, kernel, monkeypatch):
    def spoil(case, outputs, turn):
        if case.id == CASES[1].id:
            raise RuntimeError("an illegal memory access was encountered")

    kernel["spoil"] = spoil
    monkeypatch.setattr(suite, "device_is_lost", lambda target: True)
    results = run(registry, target, variants)
    assert len(results) == 1
    assert results[0].cases_run == 2
    assert results[0].device_lost


def test_an_interrupt_leaves_the_run_although_pytest_only_stops_for_it(registry, target, variants, kernel):
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pytest(registry.path, target, [Selection(variants[0], CASES)], on_case=interrupt)


def test_no_folder_name_and_no_setting_of_pytest_changes_a_run(
    registry, target, variants, kernel, tmp_path, monkeypatch
):
    folder = tmp_path / "dol$HOME" / "[x]" / "~"
    folder.mkdir(parents=True)
    (folder / "flags.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nminversion = 99\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    selections = [Selection(variant, CASES) for variant in variants]
    report = folder / "$HOME.xml"
    results = run_pytest(folder / "flags.yaml", target, selections, on_case=lambda *a: None, junit=report)
    assert [result.cases_run for result in results] == [3, 3]
    assert sorted(path.name for path in folder.iterdir()) == ["$HOME.xml", "flags.yaml", "pytest.ini"]
    assert os.environ["PYTEST_ADDOPTS"] == "--no-such-option"


def test_the_junit_report_has_one_item_a_variant(registry, target, variants, kernel, tmp_path):
    def spoil(case, outputs, turn):
        if case.id == CASES[2].id and outputs.out.view.dtype is torch.float16:
            outputs.lse.view[0, 0, 0] += 1

    kernel["spoil"] = spoil
    run(registry, target, variants, junit=tmp_path / "report.xml")
    items = ElementTree.parse(tmp_path / "report.xml").getroot().findall(".//testcase")
    assert [item.get("name") for item in items] == [v.name for v in variants]
    assert [len(item.findall("failure")) for item in items] == [0, 1]
    assert CASES[2].id in items[1].find("failure").text


def test_failures_are_remembered_until_their_case_passes(registry, target, variants, kernel, tmp_path):
    path = tmp_path / "test" / "failures.json"
    kernel["launches"] = 0
    failures.remember(path, "emulator", run(registry, target, variants[:1]))
    assert failures.recall(path, "emulator") == {(variants[0].name, case.id) for case in CASES}
    assert failures.recall(path, "cuda") == frozenset()
    kernel["launches"] = 2
    failures.remember(
        path,
        "emulator",
        run_pytest(registry.path, target, [Selection(variants[0], CASES[:1])], on_case=lambda *a: None),
    )
    assert failures.recall(path, "emulator") == {(variants[0].name, case.id) for case in CASES[1:]}


def test_a_broken_memory_of_failures_counts_as_none(tmp_path):
    path = tmp_path / "failures.json"
    path.write_text("{not json")
    assert failures.recall(path, "emulator") == frozenset()

"""What each peer is called with, on the CPU: stand-ins for the libraries compute with torch and keep the arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_peers import FakeFa3, FakeFlashInfer, FakeWrapper, arm_of, check_every_slot

from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import allocate_slots
from sparkctl.bench.peers import PEERS, check_peers
from sparkctl.bench.peers import flashinfer as flashinfer_peer
from sparkctl.bench.peers.attempt import LONGEST, load_module, one_line, reason_of, try_arm
from sparkctl.errors import UsageError

CONTIGUOUS = DecodeCase(batch=2, kv_len=96, heads=Heads(8, 2), head_dim=64)
PAGED = DecodeCase(batch=2, kv_len=100, heads=Heads(8, 2), head_dim=64, page_size=16)
SEVERAL = DecodeCase(batch=2, kv_len=96, heads=Heads(8, 2), head_dim=64, qo_len=3)
CAUSAL = DecodeCase(batch=2, kv_len=96, heads=Heads(8, 2), head_dim=64, qo_len=3, causal=True)
PAGED_CAUSAL = DecodeCase(batch=2, kv_len=100, heads=Heads(8, 2), head_dim=64, qo_len=3, causal=True, page_size=16)
ODD = DecodeCase(batch=2, kv_len=99, heads=Heads(8, 2), head_dim=64)


@pytest.mark.parametrize("case", [CONTIGUOUS, SEVERAL, CAUSAL])
def test_fa3_takes_contiguous_keys_as_they_lie_without_lengths(fa3: FakeFa3, case: DecodeCase) -> None:
    arm, slots = arm_of("fa3", "FA3", case)
    check_every_slot(arm, case, slots)
    args, options = fa3.calls[-1]
    assert all(got is own[1] for got, own in zip(args, (slots.q, slots.k, slots.v), strict=True))
    assert options == {"softmax_scale": 0.125, "causal": case.causal, "num_splits": 0}


def test_fa3_over_pages_gets_the_table_and_the_lengths_of_the_slot(fa3: FakeFa3) -> None:
    arm, slots = arm_of("fa3", "FA3", PAGED_CAUSAL)
    check_every_slot(arm, PAGED_CAUSAL, slots)
    _, options = fa3.calls[-1]
    assert options.pop("page_table") is slots.table[1]
    assert options.pop("cache_seqlens") is slots.kv_lens[1]
    assert options == {"softmax_scale": 0.125, "causal": True, "num_splits": 0}


@pytest.mark.parametrize("case", [CONTIGUOUS, PAGED, ODD])
@pytest.mark.parametrize("name", ["FlashInfer fa2", "FlashInfer CUDA"])
def test_flashinfer_decodes_over_the_slots_own_memory(flashinfer: FakeFlashInfer, name: str, case: DecodeCase) -> None:
    arm, slots = arm_of("flashinfer", name, case)
    check_every_slot(arm, case, slots)
    tensor_cores = name.endswith("fa2")
    used = [w for w in flashinfer.wrappers if w.options["use_tensor_cores"] == tensor_cores]
    assert len(used) == (2 if case is PAGED else 1)  # a plan for each table
    page = {CONTIGUOUS: 32, PAGED: 16, ODD: 1}[case]
    for wrapper, table in zip(used, slots.table, strict=False):
        assert wrapper.indices.data_ptr() == table.data_ptr()
    for wrapper in used:
        assert wrapper.layout == "NHD"
        assert wrapper.options == {"use_tensor_cores": tensor_cores, **({"backend": "fa2"} if tensor_cores else {})}
        assert (wrapper.indptr.device.type, wrapper.indptr.dtype) == ("cpu", torch.int32)
        assert wrapper.indptr.tolist() == [0, -(-case.kv_len // page), 2 * -(-case.kv_len // page)]
        assert wrapper.last.tolist() == [case.kv_len % page or page] * 2
        assert wrapper.sizes == [8, 2, 64, page]
        kind = torch.bfloat16
        assert wrapper.planned == {"q_data_type": kind, "kv_data_type": kind, "sm_scale": 0.125}


def test_contiguous_keys_as_pages_are_views() -> None:
    slots = allocate_slots(CONTIGUOUS, 2, device="cpu")
    pages = flashinfer_peer.as_pages(CONTIGUOUS, slots, flashinfer_peer.PAGE_SIZES)
    assert [k.data_ptr() for k in pages.k] == [k.data_ptr() for k in slots.k]
    assert [v.data_ptr() for v in pages.v] == [v.data_ptr() for v in slots.v]
    assert pages.k[0].shape == (6, 32, 2, 64)
    assert pages.tables[0].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("case", [SEVERAL, CAUSAL, PAGED_CAUSAL])
def test_flashinfer_runs_several_positions_through_its_prefill(flashinfer: FakeFlashInfer, case: DecodeCase) -> None:
    arm, slots = arm_of("flashinfer", "FlashInfer fa2", case)
    check_every_slot(arm, case, slots)
    assert {wrapper.kind for wrapper in flashinfer.wrappers} == {"prefill"}
    wrapper = flashinfer.wrappers[0]
    assert (wrapper.layout, wrapper.options) == ("NHD", {"backend": "fa2"})
    assert wrapper.qo_indptr.tolist() == [0, 3, 6]
    assert wrapper.planned["causal"] is case.causal
    for name in ("FlashInfer CUDA", "FlashInfer XQA"):
        assert arm_of("flashinfer", name, case)[0].reason == "it decodes one query position a sequence"


@pytest.mark.parametrize("case", [CONTIGUOUS, PAGED])
def test_xqa_gets_tables_and_lengths(flashinfer: FakeFlashInfer, case: DecodeCase) -> None:
    arm, slots = arm_of("flashinfer", "FlashInfer XQA", case)
    check_every_slot(arm, case, slots)
    q, (k, _), table, lens, most, options = flashinfer.xqa_calls[-1]
    assert (q.data_ptr(), q.shape) == (slots.q[1].data_ptr(), (2, 8, 64))
    assert (k.data_ptr(), k.shape[1]) == (slots.k[1].data_ptr(), 16 if case is PAGED else 32)
    assert (lens.dtype, lens.view(torch.int32).tolist(), most) == (torch.uint32, [case.kv_len] * 2, case.kv_len)
    assert table.tolist() == (slots.table[1].tolist() if case is PAGED else [[0, 1, 2], [3, 4, 5]])
    out = options.pop("out")
    assert out.shape == q.shape
    assert options == {"kv_layout": "NHD", "bmm1_scale": 0.125, "bmm2_scale": 1.0}


def test_xqa_says_that_it_takes_pages_only_where_contiguous_keys_make_none(flashinfer: FakeFlashInfer) -> None:
    arm, _ = arm_of("flashinfer", "FlashInfer XQA", ODD)
    assert arm.reason == "takes pages only, of 16, 32, 64 or 128 keys, and none divides 99"


def test_more_plans_than_fit_are_a_reason(flashinfer: FakeFlashInfer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flashinfer_peer, "MAX_WRAPPERS", 1)
    arm, _ = arm_of("flashinfer", "FlashInfer fa2", PAGED)
    assert arm.reason == "2 slots need as many plans, at most 1 are made"
    assert not flashinfer.wrappers


@pytest.fixture
def flex(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Records what compiled flex_attention is called with, and lets it compute uncompiled."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def compile_(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        assert options == {"fullgraph": True, "dynamic": False, "mode": "max-autotune-no-cudagraphs"}
        calls.append((("compile",), {}))

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(calls) == 2:  # the first call is the one that compiles
                print("AUTOTUNE report", file=sys.stderr)
            calls.append((args, kwargs))
            return function(*(a.float() for a in args), **kwargs).to(args[0].dtype)

        return call

    monkeypatch.setattr("torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(torch, "compile", compile_)
    monkeypatch.setattr(torch.compiler, "reset", lambda: calls.append((("reset",), {})))
    yield calls


@pytest.mark.parametrize("case", [CONTIGUOUS, SEVERAL, CAUSAL])
def test_flex_is_compiled_afresh_for_each_case_and_takes_views(
    flex: list[Any], case: DecodeCase, capsys: pytest.CaptureFixture[str]
) -> None:
    arm, slots = arm_of("flex", "flex", case)
    assert [args for args, _ in flex[:2]] == [("reset",), ("compile",)]
    assert "AUTOTUNE" not in capsys.readouterr().err
    check_every_slot(arm, case, slots)
    (q, k, _), options = flex[-1]
    assert (q.data_ptr(), k.data_ptr()) == (slots.q[1].data_ptr(), slots.k[1].data_ptr())
    assert (options["scale"], options["enable_gqa"]) == (0.125, True)
    assert (options["block_mask"] is None) == (case is not CAUSAL)


def test_flex_takes_no_pages() -> None:
    assert arm_of("flex", "flex", PAGED)[0].reason == "not applicable, it takes no page table"


def test_the_efficient_backend_gets_a_groups_heads_as_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = torch.nn.functional.scaled_dot_product_attention

    def spy(q: Any, k: Any, v: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        assert torch.backends.cuda.mem_efficient_sdp_enabled()
        assert not torch.backends.cuda.flash_sdp_enabled()
        seen[:] = [q, k, v]
        with sdpa_kernel(SDPBackend.MATH):
            return real(q, k, v)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    for case in (CONTIGUOUS, DecodeCase(2, 96, Heads(4, 4), 64, qo_len=3)):
        arm, slots = arm_of("sdpa-efficient", "SDPA efficient", case)
        check_every_slot(arm, case, slots)
        assert [t.data_ptr() for t in seen] == [t[1].data_ptr() for t in (slots.q, slots.k, slots.v)]
        assert seen[0].shape == (2, case.heads.num_kv_heads, case.group * case.qo_len, 64)
    assert "copied" in str(arm_of("sdpa-efficient", "SDPA efficient", SEVERAL)[0].reason)


def test_the_efficient_backend_without_a_device_gives_a_reason() -> None:
    arm, _ = arm_of("sdpa-efficient", "SDPA efficient", CONTIGUOUS)
    assert arm.call is None
    assert arm.reason
    assert "\n" not in arm.reason


@pytest.mark.parametrize(
    ("peer", "module", "reasons"),
    [
        ("fa3", "fa3_fwd_interface", {"FA3": "the package fa3_fwd is not installed"}),
        ("flashinfer", "flashinfer", {"FlashInfer": "the package flashinfer-python is not installed"}),
    ],
)
def test_an_absent_library_is_one_reason(
    peer: str, module: str, reasons: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]
    arms = PEERS[peer](CONTIGUOUS, allocate_slots(CONTIGUOUS, 1, device="cpu"))
    assert {arm.name: arm.reason for arm in arms} == reasons
    assert all(arm.call is None for arm in arms)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise OSError('libcudart.so.13: cannot open\\nmore')", "OSError: libcudart.so.13: cannot open"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import no_such_module_at_all", "No module named 'no_such_module_at_all'"),
        ("class Odd(BaseException): pass\nraise Odd", "Odd without a message"),
        ("flash_attn = 1", None),
    ],
)
@pytest.mark.parametrize(("peer", "module"), [("fa3", "fa3_fwd_interface"), ("flashinfer", "flashinfer")])
def test_a_crash_at_import_is_one_reason(
    peer: str, module: str, source: str, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, module, raising=False)
    arms = PEERS[peer](CONTIGUOUS, allocate_slots(CONTIGUOUS, 1, device="cpu"))
    sys.modules.pop(module, None)
    assert all(arm.call is None for arm in arms)
    if reason is not None:
        assert [arm.reason for arm in arms] == [reason]
    else:  # a library of that name without what is used of it
        assert all("attribute" in str(arm.reason) or "package" in str(arm.reason) for arm in arms)


def test_a_crash_in_a_plan_or_a_call_leaves_the_other_arms(
    flashinfer: FakeFlashInfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(self: FakeWrapper, *args: Any, **options: Any) -> None:
        if self.options["use_tensor_cores"]:
            raise RuntimeError("Ninja build failed. Ninja output:\n[1/3] nvcc\nx.cu(3): error: no such thing\nmore")
        FakeWrapper.real_plan(self, *args, **options)  # type: ignore[attr-defined]

    def fail(*args: Any, **options: Any) -> None:
        raise KeyError("page")

    monkeypatch.setattr(FakeWrapper, "real_plan", FakeWrapper.plan, raising=False)
    monkeypatch.setattr(FakeWrapper, "plan", plan)
    monkeypatch.setattr(flashinfer.decode, "xqa_batch_decode_with_kv_cache", fail)
    arms = PEERS["flashinfer"](CONTIGUOUS, allocate_slots(CONTIGUOUS, 1, device="cpu"))
    assert [(arm.name, arm.reason) for arm in arms] == [
        ("FlashInfer fa2", "Ninja build failed. Ninja output: x.cu(3): error: no such thing"),
        ("FlashInfer CUDA", None),
        ("FlashInfer XQA", "KeyError: 'page'"),
    ]


def test_a_crash_while_compiling_is_flexs_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_(*args: Any, **options: Any) -> Any:
        raise RuntimeError("backend='inductor' raised:\n\nCompileError: no triton here")

    monkeypatch.setattr(torch, "compile", compile_)
    reason = arm_of("flex", "flex", CONTIGUOUS)[0].reason
    assert reason == "backend='inductor' raised: CompileError: no triton here"


def test_an_output_of_another_shape_or_type_is_a_reason(fa3: FakeFa3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fa3, "flash_attn_with_kvcache", lambda q, k, v, **options: q.float().squeeze(1))
    assert arm_of("fa3", "FA3", CONTIGUOUS)[0].reason == "its output is float32 [2, 8, 64], not bfloat16 [2, 1, 8, 64]"


def test_an_interrupt_and_a_lost_device_go_through() -> None:
    slots = allocate_slots(CONTIGUOUS, 1, device="cpu")

    def interrupted() -> Any:
        raise KeyboardInterrupt

    def lost() -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(KeyboardInterrupt):
        try_arm("x", interrupted, slots)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        try_arm("x", lost, slots)


def test_a_reason_is_one_line_of_bounded_length() -> None:
    assert one_line("\n  first \nsecond") == "first"
    assert one_line("failed:\n\nnext") == "failed: next"
    assert one_line("") == ""
    assert len(one_line("x" * 1000)) == LONGEST
    assert reason_of(ValueError("bad page")) == "bad page"
    assert reason_of(ValueError()) == "ValueError without a message"
    assert reason_of(AssertionError("k_cache")) == "AssertionError: k_cache"


def test_a_module_that_is_there_is_loaded() -> None:
    assert load_module("json.decoder", "json").__name__ == "json.decoder"


def test_all_is_every_peer_and_an_unknown_one_gets_a_near_name() -> None:
    assert check_peers(["all"]) == tuple(PEERS) == ("sdpa", "sdpa-efficient", "fa3", "flashinfer", "flex")
    assert check_peers(["fa3", "all"]) == tuple(PEERS)
    assert check_peers(["fa3", "sdpa", "fa3"]) == ("fa3", "sdpa")
    for wrong, near in {"flashinfr": "flashinfer", "fa2": "fa3", "al": "all"}.items():
        with pytest.raises(UsageError) as error:
            check_peers(["sdpa", wrong])
        assert error.value.message == f"unknown peer '{wrong}'"
        assert error.value.hint == f"did you mean '{near}'?"


def test_none_is_not_one_of_several() -> None:
    with pytest.raises(UsageError, match="none beside other peers"):
        check_peers(["none", "sdpa"])

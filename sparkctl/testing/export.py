"""A case as a case file: its inputs are those of the call that `sparkctl test` makes, taken where it enters C++.

Nothing is launched and no library is needed: a stand-in takes the call and keeps its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sparkctl.errors import SparkctlError
from sparkctl.registry import span_variants
from sparkctl.registry.model import Registry, Variant
from sparkctl.runtime import BuiltVariant, Library, Manifest
from sparkctl.testing.case_file import CaseFile, TensorEntry
from sparkctl.testing.compare import LSE_ERROR, REL_L2, allowed_error
from sparkctl.testing.model import Case, CombineCase, DecodeCase, MergeCase, OwnCase, PrefillCase, StreamCase
from sparkctl.testing.prepare import Prepared, Target, prepare_combine, prepare_decode, prepare_merge
from sparkctl.testing.prepare_prefill import prepare_prefill
from sparkctl.testing.stream import run_stream

if TYPE_CHECKING:
    from torch import Tensor

LOG2_E = 1.4426950408889634
RESULTS = ("out", "lse", "part_acc", "part_max", "part_sum")
OPTIONS = ("scale", "causal", "window", "softcap", "mask", "sinks")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the library: the family of its variants and its arguments in order."""

    family: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]  # that the runner makes by their description; others that it makes itself are left out


ENTRIES: Mapping[str, Entry] = {
    "decode": Entry(
        "decode", ("variant", "combine", "q", "k", "v", "kv_lens", *RESULTS, *OPTIONS), outputs=("out", "lse")
    ),
    "paged_decode": Entry(
        "paged_decode",
        ("variant", "combine", "q", "k_pages", "v_pages", "page_table", "kv_lens", *RESULTS, *OPTIONS),
        outputs=("out", "lse"),
    ),
    "prefill": Entry(
        "prefill",
        (
            "variant",
            "q",
            "k",
            "v",
            "page_table",
            "kv_lens",
            "qo_indptr",
            "kv_indptr",
            "max_qo_len",
            "out",
            "lse",
            *OPTIONS,
        ),
        outputs=("out", "lse"),
    ),
    "combine": Entry(
        "combine", ("variant", "part_acc", "part_max", "part_sum", "out", "lse", "sinks"), outputs=("out", "lse")
    ),
    "merge_states": Entry("merge_states", ("variant", "states", "states_lse", "out", "lse"), outputs=("out", "lse")),
    "stream_read": Entry("bench", ("variant", "data", "checksum"), outputs=("checksum",)),
}
# The runner makes the partials of a decode itself; they are inputs of combine only.
MADE_BY_RUNNER: Mapping[str, tuple[str, ...]] = {"decode": RESULTS[2:], "paged_decode": RESULTS[2:]}


@dataclass(slots=True)
class Recorder:
    """Stands in for a library: knows every variant of the registry and keeps the last call."""

    manifest: Manifest
    index: dict[str, int]
    call: tuple[str, dict[str, Any]] = ("", {})  # entry, arguments by name

    def variant(self, name: str) -> BuiltVariant:
        return next(variant for variant in self.manifest.variants if variant.name == name)

    def function(self, name: str) -> Callable[..., None]:
        def enter(*arguments: Any) -> None:
            self.call = (name, dict(zip(ENTRIES[name].arguments, arguments, strict=True)))

        return enter

    def emulator_launch_count(self) -> int:
        return 0


def refusal(case: Case) -> str | None:
    """Why a case cannot be exported; None if it can."""
    if isinstance(case, DecodeCase | PrefillCase) and case.layout.startswith("huge"):
        return "its tensors span more than 2^31 elements"
    if isinstance(case, MergeCase) and case.in_place:
        return "its result lies over its input"
    if isinstance(case, OwnCase):
        return "the standalone runner has no entry for it: its call is in a Python file"
    return None


def export_case(recorder: Recorder, variant: Variant, case: Case, seed: int = 0) -> CaseFile:
    """The case's inputs and references. SparkctlError for one that `refusal` names."""
    if reason := refusal(case):
        raise SparkctlError(f"{case.id} cannot be exported: {reason}")
    target = Target(cast(Library, recorder), "cpu", seed)
    match case:
        case DecodeCase():
            return from_prepared(recorder, variant, case, prepare_decode(target, variant, case))
        case PrefillCase():
            return from_prepared(recorder, variant, case, prepare_prefill(target, variant, case))
        case CombineCase():
            return from_prepared(recorder, variant, case, prepare_combine(target, variant, case))
        case MergeCase():
            return from_prepared(recorder, variant, case, prepare_merge(target, variant, case))
        case OwnCase():
            raise AssertionError("refused above")
        case StreamCase():
            run_stream(target, variant, case)  # finds no checksum, since nothing ran
            return from_stream(recorder, variant, case)


def recorder_for(registry: Registry) -> Recorder:
    """One for many cases."""
    built = tuple(as_built(v) for kernel in registry.kernels.values() for v in span_variants(kernel))
    manifest = Manifest("", "emulator", "", "", {}, "", "", built)
    return Recorder(manifest, {variant.name: index for index, variant in enumerate(built)})


def as_built(variant: Variant) -> BuiltVariant:
    """As the emulator's manifest has it: no registers, so that splits are planned as there."""
    return BuiltVariant(
        name=variant.name,
        kernel=variant.kernel.name,
        family=variant.kernel.family,
        values=dict(variant.values),
        accepts={name: (accepted.start, accepted.stop) for name, accepted in variant.kernel.accepts.items()},
        block_threads=variant.block_threads,
        dynamic_smem_bytes=variant.dynamic_smem_bytes,
        static_smem_bytes=None,
        registers=None,
        blocks_per_sm=None,
    )


def from_prepared(recorder: Recorder, variant: Variant, case: Case, prepared: Prepared) -> CaseFile:
    prepared.call()
    name, arguments = recorder.call
    store = BlockStore()
    shape = tuple(arguments["out"].shape)  # a packed one's references stand in a batch of one
    expected = {
        "out": prepared.expected_out.reshape(shape),
        "allowed": allowed_error(prepared.expected_out, prepared.plain_out, prepared.dtype).reshape(shape[:-1]),
    }
    if arguments["lse"] is not None:
        expected["lse"] = prepared.expected_lse.reshape(shape[:-1])
    limits = {"launches": str(prepared.launches), "rel_l2": repr(REL_L2[prepared.dtype]), "lse_error": repr(LSE_ERROR)}
    return CaseFile(
        case=case.id,
        variant=variant.name,
        family=ENTRIES[name].family,
        values={**values_of(recorder, name, arguments), **limits},
        inputs=inputs_of(name, arguments, store),
        outputs=outputs_of(name, arguments),
        expected={what: store.add(tensor.contiguous()) for what, tensor in expected.items()},
        blocks=store.blocks(),
    )


def from_stream(recorder: Recorder, variant: Variant, case: StreamCase) -> CaseFile:
    import numpy
    import torch

    name, arguments = recorder.call
    store = BlockStore()
    checksum = torch.from_numpy(numpy.bitwise_xor.reduce(arguments["data"].numpy(), keepdims=True))
    return CaseFile(
        case=case.id,
        variant=variant.name,
        family=ENTRIES[name].family,
        values={"launches": "1"},
        inputs=inputs_of(name, arguments, store),
        outputs=outputs_of(name, arguments),
        expected={"checksum": store.add(checksum)},
        blocks=store.blocks(),
    )


def values_of(recorder: Recorder, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The scalars by their fields in csrc/attention/params.h, formed as csrc/bindings/attention.h forms them."""
    names = list(recorder.index)
    values: dict[str, str] = {}
    if "combine" in arguments:
        values["combine"] = names[arguments["combine"]]
        values["num_splits"] = str(arguments["part_max"].shape[-1])
    if arguments.get("qo_indptr") is not None:
        values["max_qo_len"] = str(arguments["max_qo_len"])
    if "scale" in arguments:
        scale, softcap = arguments["scale"], arguments["softcap"]
        values["scale_log2"] = single(scale * LOG2_E)
        if softcap and scale:
            values["softcap"] = single(softcap / scale)
            values["softcap_scale"] = single(2.0 * LOG2_E * scale / softcap)
        values["causal"] = str(int(arguments["causal"]))
        values["window"] = str(min(arguments["window"], (2**31 - 1) // 2))
    return values


def single(value: float) -> str:
    """Rounded to fp32, in as many digits as give the same fp32 again."""
    import numpy

    return f"{float(numpy.float32(value)):.9g}"


def inputs_of(name: str, arguments: Mapping[str, Any], store: BlockStore) -> dict[str, TensorEntry]:
    entry = ENTRIES[name]
    left_out = (*entry.outputs, *MADE_BY_RUNNER.get(name, ()))
    tensors = {key: value for key, value in arguments.items() if key not in left_out and hasattr(value, "stride")}
    return {key: store.add(tensor) for key, tensor in tensors.items()}


def outputs_of(name: str, arguments: Mapping[str, Any]) -> dict[str, TensorEntry]:
    given = ((key, arguments[key]) for key in ENTRIES[name].outputs)
    return {
        key: TensorEntry(dtype_of(tensor), tuple(tensor.shape), used_strides(tensor))
        for key, tensor in given
        if tensor is not None
    }


class BlockStore:
    """Blocks in the order met: one for each storage, whole, with whatever lies between and behind the elements."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._tensors: list[Tensor] = []  # kept alive, so that no address is used twice

    def add(self, tensor: Tensor) -> TensorEntry:
        storage = tensor.untyped_storage()
        key = storage.data_ptr() if storage.nbytes() else -1 - len(self._tensors)
        if key not in self._index:
            self._index[key] = len(self._tensors)
            self._tensors.append(tensor)
        offset = int(tensor.storage_offset()) * tensor.element_size() if tensor.numel() else 0
        return TensorEntry(dtype_of(tensor), tuple(tensor.shape), used_strides(tensor), self._index[key], offset)

    def blocks(self) -> tuple[bytes, ...]:
        return tuple(storage_bytes(tensor) for tensor in self._tensors)


def storage_bytes(tensor: Tensor) -> bytes:
    import torch

    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return b""
    return bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes())


def dtype_of(tensor: Tensor) -> str:
    names = {"bfloat16": "bf16", "float16": "fp16", "float32": "f32", "float64": "f64", "int32": "i32", "bool": "u8"}
    return names[str(tensor.dtype).removeprefix("torch.")]


def used_strides(tensor: Tensor) -> tuple[int, ...]:
    """Of an axis of one entry or none the stride is never used, and may be anything."""
    return tuple(stride if size > 1 else 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))

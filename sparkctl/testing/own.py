"""One case of a kernel whose author brings inputs, call and reference: run on a library and judged."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparkctl.errors import UsageError
from sparkctl.registry.model import AxisValue, Variant
from sparkctl.testing.guard import Guarded, guarded
from sparkctl.testing.model import OwnCase
from sparkctl.testing.own_file import OwnFile
from sparkctl.testing.prepare import Target

if TYPE_CHECKING:
    from torch import Tensor

# rtol and atol, those of torch.testing.assert_close; a file's TOLERANCE goes before them.
TOLERANCE: Mapping[str, tuple[float, float]] = {
    "bfloat16": (1.6e-2, 1e-5),
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}  # as axes spell them


@dataclass
class OwnKernel:
    """What inputs() and run() of the file get: a variant, where its tensors go, and its call."""

    name: str  # of the variant
    values: Mapping[str, AxisValue]  # axis -> value
    target: Target
    poisoned: bool = True  # not while a call is timed
    outputs: list[Guarded] = field(default_factory=list)

    @property
    def device(self) -> str:
        """torch's name: `cpu` for the emulator, `cuda:0`."""
        return self.target.device

    @property
    def dtype(self) -> Any:
        """torch's dtype of the axis dtype."""
        return dtype_named(str(self.values.get("dtype", "fp32")))

    @property
    def library_path(self) -> str:
        """The built library, for a tree whose launchers are called by ctypes."""
        return str((self.target.library.folder / self.target.library.manifest.library).resolve())

    def empty(self, *shape: int, dtype: Any = None) -> Tensor:
        """A poisoned tensor for an output: what the kernel leaves out, or writes beside it, is a failure."""
        if not self.poisoned:
            import torch

            return torch.empty(shape, dtype=dtype or self.dtype, device=self.device)
        made = guarded(shape, dtype or self.dtype, self.device)
        if made.view.dtype.is_floating_point:
            self.outputs.append(made)
        return made.view

    def __call__(self, *arguments: Any) -> None:
        """Run the launcher that the source registered as SPARK_REGISTER_VARIANT("own", ...)."""
        library = self.target.library
        library.variant(self.name)
        library.function("call")(library.index[self.name], *arguments)


@dataclass(frozen=True, slots=True)
class OwnVerdict:
    """`worst`: the largest error relative to what is allowed."""

    worst: float
    failure: str | None = None


def dtype_named(name: str) -> Any:
    """torch's dtype for `bf16`, `fp16`, `fp32`, `fp64` or torch's own name."""
    import torch

    found = getattr(torch, DTYPES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"dtype {name!r} is none of torch's", hint=f"{', '.join(DTYPES)}, or torch's own names")
    return found


def run_own(file: OwnFile, target: Target, variant: Variant, case: OwnCase) -> OwnVerdict:
    """As often as the target repeats. WorkFailed with file and line where a function of the file raises, UsageError
    where it gives what it should not."""
    import torch

    kernel = OwnKernel(variant.name, dict(variant.values), target)
    torch.manual_seed(own_seed(case, target.seed))
    inputs = file.call("inputs", kernel, **dict(case.values))
    if not isinstance(inputs, Mapping):
        raise UsageError(f"{file.path.name}: inputs() gave {type(inputs).__name__}, accepted is a dict by name")
    kept = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    expected = as_tuple(file.call("reference", **{name: exact(value) for name, value in inputs.items()}))
    first: tuple[Tensor, ...] = ()
    verdict = OwnVerdict(0.0)
    for turn in range(target.repeat):
        given = {name: kept[name].clone() if name in kept else value for name, value in inputs.items()}
        kernel.outputs.clear()
        outputs = as_tuple(file.call("run", kernel, **given))
        verdict = judge_own(file, outputs, expected)
        verdict = verdict if verdict.failure else OwnVerdict(verdict.worst, _stray(kernel, given, kept, outputs))
        if not verdict.failure and turn and not all(_same(a, b) for a, b in zip(first, outputs, strict=True)):
            verdict = OwnVerdict(math.inf, f"run {turn + 1} gave other bits than the first")
        if verdict.failure:
            return verdict
        first = first or tuple(output.clone() for output in outputs)
    return verdict


def own_seed(case: OwnCase, seed: int) -> int:
    digest = hashlib.blake2b(f"{seed}:{case.id}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")


def exact(value: Any, device: str | None = "cpu") -> Any:
    """A floating tensor in fp64, on the device or where it is, for the reference: the same rounded values."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().to(device or value.device)
    return value.double() if value.dtype.is_floating_point else value


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def judge_own(file: OwnFile, outputs: tuple[Any, ...], expected: tuple[Any, ...]) -> OwnVerdict:
    """Every output against its reference; the worst error of all."""
    import torch

    if len(outputs) != len(expected):
        raise UsageError(f"{file.path.name}: run() gave {len(outputs)} outputs, reference() {len(expected)}")
    worst = 0.0
    for index, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        what = "out" if len(outputs) == 1 else f"out[{index}]"
        if not isinstance(got, torch.Tensor) or not isinstance(wanted, torch.Tensor):
            raise UsageError(f"{file.path.name}: run() and reference() give tensors, {what} is none")
        if got.shape != wanted.shape:
            shapes = f"{list(got.shape)}, the reference {list(wanted.shape)}"
            return OwnVerdict(math.inf, f"{what} has shape {shapes}")
        if not got.numel():
            continue
        name = str(got.dtype).removeprefix("torch.")
        rtol, atol = getattr(file.module, "TOLERANCE", {}).get(name, TOLERANCE.get(name, (0.0, 0.0)))
        left, right = got.detach().to(wanted.device).double(), wanted.detach().double()
        error = torch.where(left == right, 0.0, (left - right).abs())
        error = torch.where(left.isnan() & right.isnan(), 0.0, error)
        allowed = atol + rtol * right.abs()
        ratio = torch.where(error == 0, 0.0, error / allowed)
        ratio = torch.where(ratio.isnan(), math.inf, ratio)
        top = float(ratio.max())
        worst = max(worst, top)
        if top > 1:
            at = tuple(int(i) for i in torch.unravel_index(ratio.argmax(), ratio.shape))
            text = f"{what}{list(at)} is {float(left[at]):.9g}, the reference {float(right[at]):.9g}"
            return OwnVerdict(top, f"{text}; off by {float(error[at]):.3g}, allowed is {float(allowed[at]):.3g}")
    return OwnVerdict(worst)


def _stray(
    kernel: OwnKernel, given: Mapping[str, Any], kept: Mapping[str, Tensor], outputs: tuple[Tensor, ...]
) -> str | None:
    """Elements written beside the outputs, or inputs that are no output and changed."""
    for made in kernel.outputs:
        if strays := int(made.faults_outside()):
            return f"{strays} elements were written outside of an output"
    written = {output.data_ptr() for output in outputs}
    for name, before in kept.items():
        if given[name].data_ptr() not in written and not _same(given[name], before):
            return f"{name} was written, and is no output"
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    import torch

    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.reshape(-1).contiguous().view(torch.uint8), b.reshape(-1).contiguous().view(torch.uint8))

"""The texts of a new kernel: source, cases, entry, and a flags.yaml with the entry in its place. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from sparkctl.errors import UsageError
from sparkctl.workflows.init_text import scalar_text
from sparkctl.workflows.regs_caps import FLAG_TEXT

_SOURCE = """\
// NAME: out = alpha * x. Axis: SPARK_DTYPE.
// grid: [ceil(count / SPARK_BLOCK)]; one thread an element.
#include "common/launch.h"
#include "common/math.h"
#include "common/types.h"
#include "common/variant.h"
#include "own/arguments.h"

namespace spark {
namespace {

using fp32 = float;

template <typename T>
__global__ void __launch_bounds__(SPARK_BLOCK)
    NAME_kernel(const T* x,  // [count]
                T* out,      // [count]
                int64_t count, float alpha) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * SPARK_BLOCK + threadIdx.x;
  if (i < count) out[i] = from_float<T>(alpha * to_float(x[i]));
}

// From Python: kernel(x, out, alpha).
Status launch_NAME(const void* params, void* stream) {
  using T = SPARK_DTYPE;
  own::Arguments args(params);
  const own::Tensor x = args.tensor<T>("x", {own::ANY});
  const own::Tensor out = args.tensor<T>("out", {x.size(0)});
  const float alpha = static_cast<float>(args.number("alpha"));
  if (const Status read = args.finish(); read.code != STATUS_OK) return read;
  const int64_t blocks = ceil_div<int64_t>(x.size(0), SPARK_BLOCK);
  if (blocks == 0) return ok();
  if (blocks > INT32_MAX) return invalid_argument("x has %lld elements, too many", static_cast<long long>(x.size(0)));

  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(blocks));
  config.block = dim3(SPARK_BLOCK);
  config.stream = stream;
  return SPARK_LAUNCH(NAME_kernel<T>, config, x.data, out.data, x.size(0), alpha);
}

SPARK_REGISTER_VARIANT("own", launch_NAME);

}  // namespace
}  // namespace spark
"""
_CASES = '''\
"""Cases, inputs, call and reference of NAME: what `sparkctl test` and `sparkctl bench` read."""

import torch


def cases(grid):
    """A case is a dict of plain values; `grid` is "quick", "full" or "device"."""
    counts = [1, 255, 256, 1000]
    if grid != "quick":
        counts += [100_003]
    return [{"count": count} for count in counts]


def inputs(kernel, *, count):
    """The arguments of run() and reference() by name; the random numbers are seeded by the case."""
    return {"x": torch.randn(count).to(kernel.dtype).to(kernel.device), "alpha": 0.75}


def run(kernel, *, x, alpha):
    """The call: the launcher reads x, out and alpha in this order."""
    out = kernel.empty(*x.shape)
    kernel(x, out, alpha)
    return out


def reference(*, x, alpha):
    """The same in fp64: floating tensors come so, with the values that the kernel got."""
    return alpha * x


def bench_cases():
    """Shapes for `sparkctl bench`."""
    return [{"count": 1 << 24}, {"count": 1 << 28}]


def traffic(kernel, *, count):
    """Bytes that have to move: x once and out once."""
    return 2 * count * kernel.dtype.itemsize
'''
_ENTRY = """\
NAME:
  family: own
  doc: Scales by alpha; put your own here.
  source: SOURCE
  cases: CASES
  min_arch: sm_80
  axes:
    dtype: {values: [bf16, fp16, fp32]}
  block: 256
"""
_PROJECT = f"""\
# Written by sparkctl new; edit it as you like. docs/registry.md of sparkctl has the grammar.
version: 1
emulator: true  # written with common/launch.h, so that kernels run on a CPU too

profiles:
  release:
    doc: What ships and what is measured.
    nvcc: [-O3]
    ptxas: [-v]
    host: [-O2]
  lineinfo:
    doc: Release code with source lines for profilers and sass.
    extends: release
    nvcc: [-lineinfo]

flags:
{FLAG_TEXT}

kernels:
"""
EMULATOR_LINE = "emulator: true  # some kernels are written with common/launch.h and run on a CPU too"


def own_source(name: str) -> str:
    return _SOURCE.replace("NAME", name)


def own_cases(name: str) -> str:
    return _CASES.replace("NAME", name)


def own_entry(name: str, source: str, cases: str) -> str:
    """With no indent; paths as the project has them."""
    words = {"NAME": name, "SOURCE": scalar_text(source), "CASES": scalar_text(cases)}
    return re.sub("NAME|SOURCE|CASES", lambda match: words[match[0]], _ENTRY)


def project_text(entry: str) -> str:
    """A flags.yaml with this one kernel."""
    return _PROJECT + _indented(entry, 2)


def copied_entry(text: str, old: str, *, name: str, source: str, cases: str) -> str:
    """The entry of kernel `old` in a flags.yaml under another name, with no indent; comments stay."""
    lines = text.splitlines()
    key, value = _kernels(text)[old]
    column, last = key.start_mark.column, _last_line(value)
    kept = [line[column:] if not line[:column].strip() else line for line in lines[key.start_mark.line : last + 1]]
    if isinstance(value, yaml.MappingNode) and value.flow_style:
        raise UsageError(f"kernels.{old} is written in braces", hint="write it as lines, one key a line")
    wanted = {"source": source, "cases": cases, "doc": f"A copy of {old} to start from."}
    assert isinstance(value, yaml.MappingNode)
    inner = value.value[0][0].start_mark.column - column
    spans = {k.value: (k.start_mark.line, _last_line(v)) for k, v in value.value}
    first = key.start_mark.line
    for word, (start, end) in sorted(spans.items(), key=lambda item: -item[1][0]):
        if word in wanted:
            kept[start - first : end - first + 1] = [" " * inner + f"{word}: {scalar_text(wanted[word])}"]
    if "cases" not in spans:
        kept.append(" " * inner + f"cases: {scalar_text(cases)}")
    return "\n".join([f"{name}:", *kept[1:]]) + "\n"


def with_entry(text: str, entry: str) -> str:
    """A flags.yaml with one kernel more, behind its last. UsageError where its kernels are written in braces."""
    found = _kernels(text)
    lines = text.splitlines()
    if not found:
        return text.rstrip("\n") + "\n\nkernels:\n" + _indented(entry, 2)
    key, value = list(found.values())[-1]
    line = _last_line(value) + 1
    new = ["", *_indented(entry, key.start_mark.column).rstrip("\n").split("\n")]
    return "\n".join([*lines[:line], *new, *lines[line:]]) + "\n"


def with_emulator(text: str) -> str:
    """A flags.yaml with `emulator: true` behind its version."""
    lines = text.splitlines()
    for key, value in _top(text):
        if key.value == "emulator":
            lines[key.start_mark.line] = EMULATOR_LINE
            break
        if key.value == "version":
            lines.insert(_last_line(value) + 1, EMULATOR_LINE)
            break
    return "\n".join(lines) + "\n"


def _top(text: str) -> list[tuple[yaml.Node, yaml.Node]]:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    return node.value if isinstance(node, yaml.MappingNode) else []


def _kernels(text: str) -> Mapping[str, tuple[yaml.Node, yaml.Node]]:
    for key, value in _top(text):
        if key.value == "kernels":
            if not isinstance(value, yaml.MappingNode) or value.flow_style:
                raise UsageError("kernels is written in braces", hint="write it as lines, one kernel below the other")
            return {name.value: (name, entry) for name, entry in value.value}
    return {}


def _last_line(node: yaml.Node) -> int:
    """The line on which what is written ends; a block's own mark is where the next thing begins."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _last_line(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _last_line(node.value[-1])
    end = node.end_mark
    return int(end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line)


def _indented(text: str, columns: int) -> str:
    return "".join(" " * columns + line if line.strip() else line for line in text.splitlines(keepends=True))

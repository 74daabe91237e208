"""flags.yaml of a tree of `.cu` files, as text. Pure."""

from __future__ import annotations

import json
import re

from sparkctl.workflows.init_model import FAMILY, FoundKernel, FoundTree
from sparkctl.workflows.regs_caps import FLAG_TEXT

_PLAIN = re.compile(r"[A-Za-z_./-][\w./+=-]*")  # what YAML takes for text without quotes
_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
NAMED = 4  # functions in a doc
_HEAD = """\
# Written by sparkctl init; edit it as you like. docs/registry.md of sparkctl has the grammar.
version: 1
"""
_FLAGS = f"""\
flags:
{FLAG_TEXT}
  extra_nvcc:
    kind: nvcc
    type: str
    default: ''
    affects: ['*']
    options: {{'*': ['{{value}}']}}
    doc: Further nvcc options, split as a shell would split them.
    reason: Trying a compiler option must not need an edit of this file.
"""


def registry_text(tree: FoundTree) -> str:
    """The whole file."""
    archs = "" if tree.archs is None else f"archs: [{', '.join(arch.name for arch in tree.archs)}]\n"
    helpers = f"helpers: {_list(tree.helpers)}  # no kernel in them; linked with the others\n" if tree.helpers else ""
    kernels = "".join(_kernel_text(kernel) for kernel in tree.kernels)
    return f"{_HEAD}{archs}{helpers}\n{_profiles_text(tree)}\n{_FLAGS}\nkernels:\n{kernels}"


def _profiles_text(tree: FoundTree) -> str:
    return f"""\
profiles:
  release:
    doc: What ships and what is measured.
    nvcc: [-O3{"".join(f", {scalar_text(option)}" for option in tree.options)}]
    ptxas: [-v]
  lineinfo:
    doc: Release code with source lines for profilers and sass.
    extends: release
    nvcc: [-lineinfo]
"""


def _kernel_text(kernel: FoundKernel) -> str:
    lines = [
        f"  {kernel.name}:",
        f"    family: {FAMILY}",
        f"    doc: {scalar_text(_doc(kernel))}",
        f"    source: {scalar_text(kernel.source)}",
        f"    min_arch: {kernel.min_arch.name}",
    ]
    if kernel.block_threads is not None:
        lines.append(f"    block: {kernel.block_threads}")
    if not kernel.link:
        lines.append(f"    link: false  # {kernel.why_alone}")
    return "\n".join(lines) + "\n"


def _doc(kernel: FoundKernel) -> str:
    shown = kernel.functions[:NAMED]
    more = f" and {len(kernel.functions) - NAMED} more" if len(kernel.functions) > NAMED else ""
    return f"{'Kernel' if len(kernel.functions) == 1 else 'Kernels'} {', '.join(shown)}{more}."


def _list(words: tuple[str, ...]) -> str:
    return f"[{', '.join(scalar_text(word) for word in words)}]"


def scalar_text(text: str) -> str:
    """As YAML has it: plain where that is safe, else in quotes."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS and not text.startswith(("- ", "."))
    return text if plain else json.dumps(text, ensure_ascii=False)

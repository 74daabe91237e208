"""Function names for people; the mangled ones stay the keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Protocol, cast

_COPY = re.compile(r"^(?P<name>.+?)(?P<suffix>\$\d+)$")  # -rdc prints a device function as `name$1`, then as `name`
_TYPES = {"__nv_bfloat16": "bf16", "__half": "fp16", "__nv_fp8_e4m3": "fp8_e4m3", "__nv_fp8_e5m2": "fp8_e5m2"}
_CAST = re.compile(r"\((?:[\w:]+(?: [\w:]+)*)\)(?=-?\d)")  # `(int)128`
_INTEGER_SUFFIX = re.compile(r"(?<=\d)[uUlL]+\b")


class _CxxFilt(Protocol):
    InvalidName: type[Exception]

    def demangle(self, mangledb: str) -> str: ...


@cache
def _cxxfilt() -> _CxxFilt | None:
    """None where there is no C++ runtime library to ask; names then stay mangled."""
    try:
        import cxxfilt
    except (ImportError, OSError, RuntimeError):  # it looks for libstdc++ when imported
        return None
    return cast(_CxxFilt, cxxfilt)


def demangle(name: str) -> str:
    """`_Z5chainPKfi$1` is `chain(float const*, int)$1`; a name that is not mangled stays as it is."""
    copy = _COPY.match(name)
    bare, suffix = (copy["name"], copy["suffix"]) if copy else (name, "")
    filt = _cxxfilt()
    if filt is None or not bare.startswith("_Z"):
        return name
    try:
        return filt.demangle(bare) + suffix
    except filt.InvalidName:
        return name


def is_copy(name: str) -> bool:
    """Whether `name` is the `name$1` of relocatable (-rdc) code."""
    return _COPY.match(name) is not None


def shorten(demangled: str, values: Mapping[str, int | str] | None = None) -> str:
    """What a person calls the function: no return type, namespaces or parameters, the project's type names.

    `values` are a variant's axes in order; template arguments that equal them, in that order, carry the axis's name:
    `void spark::f_kernel<__nv_bfloat16, 128>(spark::P)` with {"dtype": "bf16", "head_dim": 128} is
    `f_kernel<bf16, head_dim=128>`.
    """
    copy = _COPY.match(demangled)
    text, suffix = (copy["name"], copy["suffix"]) if copy else (demangled, "")
    head = _last_word(_without_parameters(text.replace("(anonymous namespace)::", "")))
    name, bracket, rest = head.partition("<")
    short = name.rpartition("::")[2]
    if bracket:
        arguments = [_short_argument(argument) for argument in _split_arguments(rest.removesuffix(">"))]
        short += f"<{', '.join(_label(arguments, values or {}))}>"
    return short + suffix


def _without_parameters(text: str) -> str:
    """Up to the first parenthesis outside template brackets."""
    depth = 0
    for index, character in enumerate(text):
        if character == "(" and depth == 0:
            return text[:index]
        depth += {"<": 1, ">": -1}.get(character, 0)
    return text


def _last_word(text: str) -> str:
    """Drops a template function's return type: the last word, blanks inside brackets aside."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {">": 1, "<": -1}.get(text[index], 0)
        if text[index] == " " and depth == 0:
            return text[index + 1 :]
    return text


def _split_arguments(text: str) -> list[str]:
    arguments, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            arguments.append(text[start:index])
            start = index + 1
    return [argument.strip() for argument in [*arguments, text[start:]]]


def _short_argument(argument: str) -> str:
    bare = _INTEGER_SUFFIX.sub("", _CAST.sub("", argument))
    bare = re.sub(r"\b(?:\w+::)+(?=\w)", "", bare)
    return _TYPES.get(bare, bare)


def _label(arguments: list[str], values: Mapping[str, int | str]) -> list[str]:
    """Walks both lists in order; words (dtype bf16) need no label, numbers do."""
    axes = list(values.items())
    labelled = []
    for argument in arguments:
        index = next((i for i, (_, value) in enumerate(axes) if str(value) == argument), None)
        if index is None:
            labelled.append(argument)
            continue
        axis, value = axes[index]
        axes = axes[index + 1 :]
        labelled.append(f"{axis}={argument}" if isinstance(value, int) else argument)
    return labelled

"""Reads archs as people write them; refuses what it does not know instead of guessing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from sparkctl.arch.limits import KNOWN_ARCHS
from sparkctl.arch.model import Arch
from sparkctl.errors import MissingTool, UsageError

_SPELLING = re.compile(
    r"(?:sm_?|compute_?)?(?:(?P<dotted>\d{1,2}\.\d)|(?P<digits>\d{2,3}))(?P<suffix>[af]?)(?P<ptx>\+ptx)?", re.IGNORECASE
)
_KNOWN_NAMES = tuple(arch.name for arch in KNOWN_ARCHS)
_KNOWN_CAPABILITIES = frozenset((arch.major, arch.minor) for arch in KNOWN_ARCHS)
_LISTS = ("native", "all")
_ONE = "sm_90, sm_90a or 9.0"
_RENAMED = {"sm_101": "sm_110"}  # CUDA 13 renamed it


def parse_arch(text: str) -> Arch:
    """`90`, `9.0`, `sm_90a`, `compute_120f` or `8.0+PTX`, upper or lower case.

    Suffixes are taken as written; whether a compiler knows them is the toolchain's question.
    UsageError names what is not understood or not known.
    """
    if text.strip().lower() in _LISTS or "," in text:
        raise UsageError(f"arch {text!r}: one arch is expected here, by its name", hint=f"write it as {_ONE}")
    return _parse_item(text, lists=False)


def _parse_item(text: str, *, lists: bool) -> Arch:
    """One arch, alone or out of a list: a hint offers words of lists only where a list may stand."""
    match = _SPELLING.fullmatch(text.strip())
    if match is None:
        raise _not_understood(text, lists)
    number = match["dotted"].replace(".", "") if match["dotted"] else match["digits"]
    arch = Arch(int(number[:-1]), int(number[-1]), match["suffix"].lower(), match["ptx"] is not None)
    if (arch.major, arch.minor) not in _KNOWN_CAPABILITIES:
        raise _not_known(text, arch)
    return arch


def parse_archs(text: str, *, native: Callable[[], tuple[Arch, ...]]) -> tuple[Arch, ...]:
    """A comma list of archs, `native` (this machine's devices) and `all` (every known arch), duplicates removed.

    `native` is called only if the list names it. MissingTool when it finds no device.
    """
    archs: list[Arch] = []
    for item in text.split(","):
        word = item.strip().lower()
        if word == "native":
            archs += _native_archs(native)
        elif word == "all":
            archs += KNOWN_ARCHS
        elif not word:
            raise UsageError(f"empty arch in {text!r}", hint="write archs as sm_89,sm_90a")
        else:
            archs.append(_parse_item(item, lists=True))
    return tuple(dict.fromkeys(archs))


def _native_archs(native: Callable[[], tuple[Arch, ...]]) -> tuple[Arch, ...]:
    archs = native()
    if not archs:
        raise MissingTool("arch 'native': this machine has no CUDA device", hint="name an arch, such as --arch sm_90")
    return archs


def _not_understood(text: str, lists: bool) -> UsageError:
    if re.search(r"[;:\s]", text.strip()) or len(re.findall(r"sm_|compute_|\.", text, re.IGNORECASE)) > 1:
        hint = "separate archs by commas: sm_89,sm_90a" if lists else f"write it as {_ONE}"
        return UsageError(f"{text!r} is not one arch", hint=hint)
    close = difflib.get_close_matches(text.strip().lower(), [*_KNOWN_NAMES, *(_LISTS if lists else ())], n=1)
    spellings = "sm_90, sm_90a, 9.0, native or all" if lists else _ONE
    return UsageError(
        f"arch {text!r} is not understood", hint=f"did you mean {close[0]!r}?" if close else f"write it as {spellings}"
    )


def _not_known(text: str, arch: Arch) -> UsageError:
    if arch.name in _RENAMED:
        new = _RENAMED[arch.name]
        return UsageError(f"arch {text!r} is not known", hint=f"CUDA 13 renamed {arch.name}: did you mean {new!r}?")
    if arch < KNOWN_ARCHS[0]:
        oldest = KNOWN_ARCHS[0].name
        return UsageError(f"arch {text!r} is older than {oldest}, the oldest supported", hint=_known_list())
    close = difflib.get_close_matches(arch.name, _KNOWN_NAMES, n=1)
    did_you_mean = f"did you mean {close[0]!r}? " if close else ""
    return UsageError(f"arch {text!r} is not known", hint=f"{did_you_mean}{_known_list()}")


def _known_list() -> str:
    return f"known archs: {', '.join(_KNOWN_NAMES)}"

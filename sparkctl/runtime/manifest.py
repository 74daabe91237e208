"""What a built library holds, as the JSON file beside it says; build writes it, operators read it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sparkctl.errors import SparkctlError

MANIFEST_NAME = "manifest.json"
MANIFEST_VERSION = 1
Backend = Literal["cuda", "emulator"]


@dataclass(frozen=True, slots=True)
class BuiltVariant:
    """One variant in a library. `registers` and `blocks_per_sm` are None for the emulator."""

    name: str
    kernel: str
    family: str
    values: dict[str, int | str]
    accepts: dict[str, tuple[int, int | None]]
    block_threads: int | None  # None where flags.yaml does not say
    dynamic_smem_bytes: int
    static_smem_bytes: int | None
    registers: int | None
    blocks_per_sm: int | None


@dataclass(frozen=True, slots=True)
class RuntimeFlag:
    """A flag of flags.yaml that is read at each call, so that operators need no flags.yaml."""

    name: str
    type: str  # "bool" | "int" | "str"
    accepts: tuple[str, ...] | None  # canonical values; None: whatever the type and the range take
    span: tuple[int, int | None] | None  # of an int that is given as a range
    kernels: dict[str, str]  # every kernel that it reaches -> the value there: default < profile < kernel < arch


@dataclass(frozen=True, slots=True)
class Manifest:
    """A library, where it came from and what it holds."""

    library: str  # file name beside the manifest
    backend: Backend
    arch: str
    profile: str
    flags: dict[str, str]  # values given by --set or the environment
    digest: str  # over the contents of every object's inputs
    compiler: str
    variants: tuple[BuiltVariant, ...]
    runtime_flags: tuple[RuntimeFlag, ...] = ()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write atomically, and only if the text changed."""
    text = json.dumps({"schema_version": MANIFEST_VERSION, **asdict(manifest)}, indent=1) + "\n"
    target = folder / MANIFEST_NAME
    try:
        if target.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    draft = target.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)


def read_manifest(folder: Path) -> Manifest:
    """Raises SparkctlError naming the file when it is unreadable or of another version."""
    path = folder / MANIFEST_NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ValueError("not an object")
        if data.pop("schema_version") != MANIFEST_VERSION:
            raise ValueError("another schema_version")
        variants = tuple(
            BuiltVariant(**{**v, "accepts": {k: (r[0], r[1]) for k, r in v["accepts"].items()}})
            for v in data.pop("variants")
        )
        flags = tuple(_runtime_flag(flag) for flag in data.pop("runtime_flags", ()))
        return Manifest(**data, variants=variants, runtime_flags=flags)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SparkctlError(f"{path}: not a readable manifest ({error})", hint="run sparkctl build again") from error


def _runtime_flag(data: dict[str, Any]) -> RuntimeFlag:
    accepts, span = data.pop("accepts"), data.pop("span")
    return RuntimeFlag(
        **data,
        accepts=None if accepts is None else tuple(accepts),
        span=None if span is None else (span[0], span[1]),
    )

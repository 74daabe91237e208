"""The grammar of flags.yaml as pydantic models: which keys there are and which types they take.

What needs more than one key to judge (names, formulas, cycles) is in load.py. The JSON Schema for editors,
docs/registry.schema.json, is exported from here.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr
from pydantic_core import PydanticCustomError

EXPORT = Path(__file__).resolve().parents[2] / "docs" / "registry.schema.json"


def _one_line(option: str) -> str:
    if any(character in option for character in "\n\r\0"):
        raise PydanticCustomError("one_line", "an option must be one line")
    return option


def _whole_version(version: object) -> object:
    """Else `true`, which equals 1, would do."""
    if type(version) is not int:
        raise PydanticCustomError("version_type", "not a whole number")
    return version


def _day(value: object) -> object:
    """A day as text, also where YAML made a date of it."""
    text = value.isoformat() if isinstance(value, datetime.date) else value
    try:
        return datetime.date.fromisoformat(text).isoformat() if isinstance(text, str) else text
    except ValueError as error:
        raise PydanticCustomError("day", "not a day, as in 2027-01-31") from error


Tool = Literal["nvcc", "ptxas", "host"]
Scalar = StrictBool | StrictInt | StrictStr
Value = StrictInt | StrictStr
Tokens = list[StrictStr]
Options = list[Annotated[StrictStr, AfterValidator(_one_line)]]
Assignments = dict[StrictStr, Scalar]


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProfileSpec(Spec):
    doc: Annotated[StrictStr, Field(description="One sentence: when to use it.")] = ""
    extends: Annotated[StrictStr | None, Field(description="The profile this one starts from.")] = None
    nvcc: Annotated[Options, Field(description="nvcc options, one word each.")] = []
    ptxas: Annotated[Options, Field(description="ptxas options, passed as one -Xptxas=a,b.")] = []
    host: Annotated[Options, Field(description="g++ options of the binding and the emulator.")] = []
    define: Annotated[dict[StrictStr, Value], Field(description="Macros.")] = {}
    set: Annotated[Assignments, Field(description="Flag values of this profile.")] = {}
    remove: Annotated[dict[Tool, Tokens], Field(description="Options of the extended profile to drop.")] = {}


class FlagSpec(Spec):
    kind: Annotated[Literal["runtime", "define", "nvcc", "ptxas", "host"], Field(description="Whom it reaches.")]
    type: Annotated[Literal["bool", "int", "str"], Field(description="What its value is.")]
    default: Annotated[Scalar, Field(description="The value where nothing sets it.")]
    doc: Annotated[StrictStr, Field(min_length=1, description="What it does.")]
    reason: Annotated[StrictStr, Field(description="Why it exists and why this default.")] = ""
    affects: Annotated[Tokens, Field(min_length=1, description="Kernels it reaches, by name or glob.")]
    accepts: Annotated[
        StrictStr | list[Value] | None, Field(description="Values it takes: a list, or for int a range such as 1..32.")
    ] = None
    define: Annotated[StrictStr | None, Field(description="Kind define: the macro. Default SPARK_<NAME>.")] = None
    options: Annotated[
        dict[StrictStr, Options],
        Field(description="Kinds nvcc, ptxas, host: value to options; '*' is a {value} template."),
    ] = {}


class AxisSpec(Spec):
    values: Annotated[list[Value], Field(min_length=1, description="The values that are compiled.")]
    short: Annotated[StrictStr, Field(description="Prefix in variant names: d gives d128.")] = ""
    default: Annotated[Value | None, Field(description="The value that variant names leave out.")] = None


class WaiverSpec(Spec):
    variant: Annotated[StrictStr, Field(description="A variant name or glob.")]
    what: Annotated[
        Literal["registers", "spills", "stack", "smem", "barriers", "occupancy", "new", "gone"],
        Field(description="Which difference from the pinned report is accepted."),
    ]
    reason: Annotated[StrictStr, Field(min_length=1, description="Why.")]
    expires: Annotated[
        StrictStr,
        BeforeValidator(_day),
        Field(description="The last day on which it holds, as in 2027-01-31."),
    ]
    arch: Annotated[StrictStr | None, Field(description="Only on this arch.")] = None


class KernelSpec(Spec):
    family: Annotated[StrictStr, Field(min_length=1, description="The folder and the operator it belongs to.")]
    doc: Annotated[StrictStr, Field(min_length=1, description="One sentence.")]
    source: Annotated[StrictStr, Field(min_length=1, description="The .cu file, relative to flags.yaml.")]
    min_arch: Annotated[Value, Field(description="The oldest arch it compiles for, such as sm_80.")]
    axes: Annotated[dict[StrictStr, AxisSpec], Field(description="Compile-time parameters, in name order.")] = {}
    require: Annotated[Tokens, Field(description="Formulas over axes; a point where one is 0 is no variant.")] = []
    block: Annotated[
        Value | None, Field(description="Threads per block: a number or a formula over axes; left out: not known.")
    ] = None
    dynamic_smem: Annotated[Value, Field(description="Dynamic shared memory in bytes: a number or a formula.")] = 0
    accepts: Annotated[
        dict[StrictStr, Value], Field(description="Run-time values it takes, as ranges: 1..64, 0..")
    ] = {}
    cases: Annotated[
        StrictStr | None,
        Field(description="A Python file with its test cases (docs/own-kernels.md), or a kernel whose cases it takes."),
    ] = None
    link: Annotated[StrictBool, Field(description="Whether its objects are part of the library.")] = True
    set: Annotated[Assignments, Field(description="Flag values of this kernel.")] = {}
    arch: Annotated[dict[StrictStr, Assignments], Field(description="Flag values per arch.")] = {}
    nvcc: Annotated[dict[StrictStr, Options], Field(description="Further nvcc options per arch, '*' for all.")] = {}
    waivers: Annotated[list[WaiverSpec], Field(description="Findings that are known and accepted.")] = []


class SuiteSpec(Spec):
    doc: Annotated[StrictStr, Field(min_length=1, description="One sentence: what it is for.")]
    cases: Annotated[
        Tokens, Field(min_length=1, description="Cases as bench prints them: 8 x 16k, 32/8, d128, pages of 16.")
    ]


class RegistrySpec(Spec):
    version: Annotated[Literal[1], BeforeValidator(_whole_version), Field(description="The version of this grammar.")]
    naming: Annotated[StrictStr | None, Field(description="A regular expression that kernel names match.")] = None
    archs: Annotated[
        Tokens, Field(description="What to build for without --arch. Default: this machine's GPUs, else sm_90.")
    ] = []
    emulator: Annotated[
        StrictBool, Field(description="Whether kernels are written with the headers that come with sparkctl.")
    ] = False
    helpers: Annotated[
        Tokens, Field(description=".cu files without a kernel, compiled and linked into each library.")
    ] = []
    profiles: Annotated[dict[StrictStr, ProfileSpec], Field(min_length=1, description="Sets of compiler options.")]
    flags: Annotated[dict[StrictStr, FlagSpec], Field(description="What can be switched.")] = {}
    kernels: Annotated[dict[StrictStr, KernelSpec], Field(description="The kernels.")] = {}
    suites: Annotated[dict[StrictStr, SuiteSpec], Field(description="Benchmark cases by name: bench --suite.")] = {}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of flags.yaml, for editors."""
    schema = RegistrySpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "sparkctl flags.yaml"}


def export(path: Path = EXPORT) -> None:
    """Write the JSON Schema of flags.yaml to docs/."""
    path.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")


def known_keys(path: Sequence[str | int]) -> tuple[str, ...]:
    """The keys that the grammar has beside the last part of `path`."""
    model: Any = RegistrySpec
    for part in path[:-1]:
        inner = model.model_fields[part].annotation if _is_spec(model) else _inner(model)
        model = inner
    return tuple(model.model_fields) if _is_spec(model) else ()


def _is_spec(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _inner(kind: Any) -> Any:
    """The element type of a dict or a list."""
    return get_args(kind)[-1]

"""docs/reference/keys.md: every key of flags.yaml, from the schema that also checks the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markdown_text import cell, code, table

from sparkctl.registry.schema import json_schema

OPENING = """# Keys of flags.yaml

Every key that flags.yaml may have: a key that is not here is an error. [registry.md](../registry.md) says what they do
together, with examples; [registry.schema.json](../registry.schema.json) is the same for editors."""

TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "boolean"}
NONE: Any = object()


def keys_page() -> str:
    schema = json_schema()
    blocks = [OPENING, "## Top level", _keys(schema)]
    for name in _in_reading_order(schema):
        blocks += [f"## {_title(name)}", _keys(schema["$defs"][name])]
    return "\n\n".join(blocks)


def _title(definition: str) -> str:
    """`KernelSpec` as "A kernel"."""
    noun = definition.removesuffix("Spec").lower()
    return f"{'An' if noun[0] in 'aeiou' else 'A'} {noun}"


def _in_reading_order(schema: Mapping[str, Any]) -> list[str]:
    """Definitions as the top level names them, each followed by those inside of it."""
    found: list[str] = []

    def visit(part: Any) -> None:
        if isinstance(part, list):
            for item in part:
                visit(item)
        elif isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.append(name)
                visit(schema["$defs"][name]["properties"])
            for value in part.values():
                visit(value)

    visit(schema["properties"])
    return found


def _keys(spec: Mapping[str, Any]) -> str:
    required = spec.get("required", ())
    rows = [
        [code(key), _type(part), "needed" if key in required else _default(part), cell(part.get("description", ""))]
        for key, part in spec["properties"].items()
    ]
    return table(["key", "type", "default", "meaning"], rows)


def _default(part: Mapping[str, Any]) -> str:
    value = part.get("default", NONE)
    return "" if value in (None, "", [], {}) or value is NONE else code(str(value))


def _type(part: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_alternatives(part)))


def _alternatives(part: Mapping[str, Any]) -> Iterator[str]:
    """What a value may be; null is left out, as the key is then. Raises KeyError for a type it does not know."""
    if "anyOf" in part:
        for choice in part["anyOf"]:
            yield from _alternatives(choice)
    elif "$ref" in part:
        title = _title(part["$ref"].rpartition("/")[2])
        yield f"[{title.lower()}](#{title.lower().replace(' ', '-')})"
    elif "enum" in part or "const" in part:
        yield ", ".join(code(str(value)) for value in part.get("enum", [part.get("const")]))
    elif part["type"] == "array":
        yield f"list of {_type(part['items'])}"
    elif part["type"] == "object":
        names = part.get("propertyNames", {}).get("enum")
        keys = ", ".join(code(name) for name in names) if names else "name"
        yield f"map of {keys} to {_type(part['additionalProperties'])}"
    elif part["type"] != "null":
        yield TYPES[part["type"]]

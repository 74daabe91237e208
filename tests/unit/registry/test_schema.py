"""The JSON Schema that editors use says what the loader says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from sparkctl.registry.schema import json_schema

ROOT = Path(__file__).parents[3]
EXPORT = ROOT / "docs" / "registry.schema.json"
SAMPLE = ROOT / "tests" / "data" / "registry" / "sample.yaml"


def test_the_exported_schema_is_current() -> None:
    expected = json.dumps(json_schema(), indent=2) + "\n"
    hint = 'python -c "from sparkctl.registry.schema import export; export()" writes it'
    assert EXPORT.read_text(encoding="utf-8") == expected, hint


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", [ROOT / "flags.yaml", SAMPLE], ids=["flags.yaml", "sample.yaml"])
def test_good_files_meet_the_schema(path: Path) -> None:
    # Through JSON, as an editor sees it: keys are text there.
    data = json.loads(json.dumps(yaml.safe_load(path.read_text(encoding="utf-8"))))
    jsonschema.validate(data, json_schema())


def test_the_schema_refuses_an_unknown_key() -> None:
    data = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))
    data["kernels"]["k_one"]["axess"] = {}
    with pytest.raises(jsonschema.ValidationError, match="axess"):
        jsonschema.validate(json.loads(json.dumps(data)), json_schema())


def test_every_key_of_the_grammar_is_described_in_the_docs() -> None:
    text = (ROOT / "docs" / "registry.md").read_text(encoding="utf-8")
    schema = json_schema()
    models = [schema, *schema["$defs"].values()]
    missing = [key for model in models for key in model["properties"] if f"`{key}`" not in text]
    assert not missing

"""The JSON Schema that editors use says what the loader says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from sparkctl.registry import span_variants
from sparkctl.registry.load import parse_registry
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


def test_the_examples_of_the_docs_are_a_registry(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "registry.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if not block.startswith("#")]
    min_blocks = "  min_blocks: {kind: define, type: int, default: 1, affects: ['*'], doc: Minimum blocks.}\n"
    assert len(blocks) == 4
    source = tmp_path / "csrc" / "decode" / "split_kv_mma.cu"
    source.parent.mkdir(parents=True)
    source.touch()
    blocks.insert(2, min_blocks)
    registry = parse_registry("version: 1\n" + "".join(blocks), tmp_path / "flags.yaml")
    assert [variant.name for variant in span_variants(registry.kernels["attn_decode_split_kv_mma"])][:2] == [
        "attn_decode_split_kv_mma.bf16.d64.s1",
        "attn_decode_split_kv_mma.bf16.d64",
    ]

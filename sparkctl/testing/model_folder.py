"""What a folder with a Hugging Face model says of itself; its weights are not loaded. transformers is optional."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sparkctl.errors import MissingTool, UsageError

DTYPES: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16"}
HINT = "a folder with config.json and *.safetensors, as save_pretrained writes it"
CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A causal language model in a folder."""

    folder: str
    architecture: str
    layers: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    dtype: str  # "bf16", "fp16", or as the file says it: "float32"
    max_positions: int | None


def read_facts(folder: Path) -> ModelFacts:
    """UsageError for what is no folder of a model that has attention, MissingTool without transformers."""
    if not folder.is_dir():
        raise UsageError(f"--model {folder}: no such folder", hint=HINT)
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"--model {folder}: no model: no {CONFIG} in it", hint=HINT) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"--model {path}: cannot be read: {error}", hint=HINT) from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise UsageError(f"--model {path}: it names no model_type", hint=HINT)
    if not list(folder.glob("*.safetensors")):
        raise UsageError(f"--model {folder}: no model: no *.safetensors in it", hint=HINT)
    return _facts(folder, str(config["model_type"]))


def _facts(folder: Path, model_type: str) -> ModelFacts:
    config = _load_config(folder, model_type)
    sizes = config.get_text_config()
    name = next(iter(config.architectures or ()), model_type)
    try:
        heads, layers = int(sizes.num_attention_heads), int(sizes.num_hidden_layers)
        head_dim = int(getattr(sizes, "head_dim", None) or sizes.hidden_size // heads)
        kv_heads = int(getattr(sizes, "num_key_value_heads", None) or heads)
    except (AttributeError, TypeError, ValueError, ZeroDivisionError) as error:
        what = f"{name} has no attention that its {CONFIG} describes"
        raise UsageError(f"--model {folder}: {what}", hint="a model with num_attention_heads") from error
    written = str(sizes.dtype or config.dtype or "float32").removeprefix("torch.")
    most = getattr(sizes, "max_position_embeddings", None)
    return ModelFacts(
        folder=str(folder),
        architecture=str(name),
        layers=layers,
        num_qo_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=DTYPES.get(written, written),
        max_positions=most if isinstance(most, int) else None,
    )


def _load_config(folder: Path, model_type: str) -> Any:
    """transformers' own, which knows what each architecture calls its sizes."""
    transformers = import_transformers()
    try:
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # of many kinds
        what = f"transformers {transformers.__version__} knows no model_type '{model_type}'"
        if model_type in transformers.CONFIG_MAPPING:
            what = f"its {CONFIG} cannot be read: {' '.join(str(error).split())[:200]}"
        raise UsageError(f"--model {folder}: {what}", hint="a model that this transformers knows") from error


def import_transformers() -> Any:
    """The module, quiet on stderr; MissingTool without it."""
    try:
        transformers: Any = import_module("transformers")
    except ImportError as error:
        raise MissingTool(f"transformers cannot be imported: {error}", hint="pip install 'transformers>=5'") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers

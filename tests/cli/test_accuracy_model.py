"""`sparkctl accuracy --model FOLDER`: tiny random models saved and read back, and folders that are none."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from sparkctl.cli.app import main
from sparkctl.testing import local_model
from sparkctl.testing.model_folder import read_facts
from sparkctl.workflows import accuracy as workflow

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,  # sharp enough that what is attended to decides the answers
}
SHORT = ["--backend", "emulator", "--prompt", "40", "--steps", "8"]
VARIANT = "fa_split_gqa.bf16.d32"


def saved(folder: Path, make: Callable[[], Any], dtype: torch.dtype = torch.bfloat16) -> Path:
    torch.manual_seed(17)
    make().to(dtype).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "qwen", lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES)))


@pytest.fixture
def own_build(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the other real runs of accuracy."""
    monkeypatch.setenv("SPARKCTL_BUILD_DIR", str(tmp_path_factory.getbasetemp() / "accuracy"))


@pytest.mark.usefixtures("own_build")
def test_both_arms_of_a_flag_answer_as_the_model_with_exact_attention(
    qwen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fa_split_gqa", "--ab", "FAPIPE=0,1", "--where", "paged=0", "--model", str(qwen), *SHORT, "--json"]
    assert main(["accuracy", *words]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["stack"] is None
    assert data["model"] == {
        "folder": str(qwen),
        "architecture": "Qwen3ForCausalLM",
        "layers": 2,
        "num_qo_heads": 8,
        "num_kv_heads": 2,
        "head_dim": 32,
        "dtype": "bf16",
        "max_positions": 128,
        "tokens": "random, seed 0",
        "prompt": 40,
        "steps": 8,
    }
    first, second = data["arms"]
    assert (first["flags"], second["flags"]) == ({"FAPIPE": "0"}, {"FAPIPE": "1"})
    assert second["bits"]["equal"]
    for score in (first["logits"], second["logits"], data["plain"]["decode"]["logits"]):
        assert score["positions"] == 16
        assert score["kl_mean"] < 0.01


@pytest.mark.usefixtures("own_build")
@pytest.mark.parametrize("fault", ["scale", "key", "nan"])
def test_an_attention_that_answers_wrongly_fails(
    qwen: Path, fault: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = workflow.attend

    def wrong(arm: Any, bench: Any, q: Any, k: Any, v: Any, lens: Any = None, **options: Any) -> Any:
        if lens is not None:  # the shapes beside the model stay right: the model alone must find it
            return right(arm, bench, q, k, v, lens)
        if fault == "scale":
            return right(arm, bench, q * 2, k, v, **options)
        if fault == "key":
            return right(arm, bench, q, k[:, 8:], v[:, 8:], **options)
        return right(arm, bench, q, k, v, **options) * float("nan")

    monkeypatch.setattr(workflow, "attend", wrong)
    assert main(["accuracy", VARIANT, "--model", str(qwen), *SHORT, "-q"]) == 1
    out = capsys.readouterr().out
    assert f"{VARIANT} fails: top-1 agreement " in out
    assert "an output is off" not in out
    assert "1 arm: 1 of 1 failed" in out


@pytest.mark.usefixtures("own_build")
def test_no_step_is_no_score(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accuracy", VARIANT, "--model", str(qwen), *SHORT, "--steps", "0", "-q"]) == 1
    assert f"{VARIANT} fails: no position was scored" in capsys.readouterr().out


@pytest.mark.usefixtures("own_build")
def test_a_screen_names_the_model_and_its_tokens(
    qwen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sparkctl.workflows.accuracy.read_stamp", lambda root: workflow.Stamp("0123456789ab", False))
    monkeypatch.chdir(qwen.parent)
    project = Path(__file__).resolve().parents[2]
    assert main(["--project", str(project), "accuracy", VARIANT, "--model", "qwen", *SHORT, "-q"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "bf16, head_dim 32, 8/2 heads, on the emulator"
    assert lines[3] == VARIANT
    assert lines[5] == "plain, SDPA in the model"
    assert lines[9].startswith("qwen (Qwen3ForCausalLM, 2 layers, 8/2 heads), 2 × (40 + 8) positions, tokens:")
    assert lines[10].startswith("random, seed 0; g++ ")
    assert lines[-1] == "1 arm: all passed"
    assert max(map(len, lines)) <= 80


def test_a_tokenizer_gives_a_text_and_other_sequences_other_parts_of_it(
    qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = read_facts(qwen)
    monkeypatch.setattr(local_model, "_text_ids", lambda folder: list(range(60)))
    model = local_model.LocalModel(facts, "bf16", "cpu", prompt=20, steps=4, seed=0)
    assert model.token_source == "a built-in text"
    assert model.tokens[:, :3].tolist() == [[0, 1, 2], [30, 31, 32]]
    monkeypatch.setattr(local_model, "_text_ids", lambda folder: [96])  # one past the vocabulary
    assert local_model.LocalModel(facts, "bf16", "cpu", prompt=20, steps=4, seed=3).token_source == "random, seed 3"


def test_the_prompt_of_the_steps_is_the_references(qwen: Path) -> None:
    """Steps behind it agree with one call over all positions, whatever attention the steps have."""
    model = local_model.LocalModel(read_facts(qwen), "bf16", "cpu", prompt=20, steps=4, seed=0)
    whole = model.prefill_logits(local_model.exact_attention).view(2, 24, 96)[:, 20:]
    steps = model.step_logits(local_model.exact_attention).view(2, 4, 96)
    torch.testing.assert_close(steps, whole, atol=0.15, rtol=0.05)
    again = model.step_logits(local_model.exact_attention).view(2, 4, 96)
    assert torch.equal(steps, again)  # the prompt's cache was not grown by the first


def folders(base: Path, qwen: Path) -> dict[str, Path]:
    """Folders that hold no model, or half of one."""
    for name in ("empty", "broken", "nameless", "unknown"):
        (base / name).mkdir()
    (base / "broken" / "config.json").write_text("{")
    (base / "nameless" / "config.json").write_text("[]")
    (base / "unknown" / "config.json").write_text('{"model_type": "zzz"}')
    (base / "unknown" / "x.safetensors").touch()
    for name in ("no_weights", "corrupt"):
        shutil.copytree(qwen, base / name)
    (base / "no_weights" / "model.safetensors").unlink()
    (base / "corrupt" / "model.safetensors").write_text("xx")
    return {name: base / name for name in ("absent", "empty", "broken", "nameless", "unknown", "no_weights", "corrupt")}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "no such folder"),
        ("empty", "no model: no config.json in it"),
        ("broken", "cannot be read: Expecting property name"),
        ("nameless", "it names no model_type"),
        ("unknown", f"transformers {transformers.__version__} knows no model_type 'zzz'"),
        ("no_weights", "no model: no *.safetensors in it"),
        ("corrupt", f"transformers {transformers.__version__} cannot load Qwen3ForCausalLM: "),
    ],
)
def test_a_folder_that_is_no_model_is_one_clear_error(
    name: str,
    message: str,
    qwen: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "ensure_built", lambda *a, **k: pytest.fail("it was built"))
    folder = folders(tmp_path, qwen)[name]
    assert main(["accuracy", VARIANT, "--model", str(folder), *SHORT, "-q"]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: --model {folder}")
    assert f": {message}" in error
    assert hint.startswith("hint: ")


def bloom() -> Any:
    return BloomForCausalLM(BloomConfig(vocab_size=64, hidden_size=64, n_layer=1, n_head=2))


def mamba() -> Any:
    return MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1))


def t5() -> Any:
    return T5ForConditionalGeneration(T5Config(vocab_size=64, d_model=64, d_kv=32, d_ff=64, num_layers=1, num_heads=2))


def llama(**changes: Any) -> Callable[[], Any]:
    return lambda: LlamaForCausalLM(LlamaConfig(**{**SIZES, **changes}))


@pytest.mark.parametrize(
    ("make", "dtype", "words", "message", "hint"),
    [
        (
            bloom,
            torch.bfloat16,
            [],
            "BloomForCausalLM does not call transformers' attention interface",
            "a model whose attention can be exchanged",
        ),
        (
            mamba,
            torch.bfloat16,
            [],
            "MambaForCausalLM has no attention that its config.json describes",
            "a model with num_attention_heads",
        ),
        (
            t5,
            torch.bfloat16,
            [],
            f"transformers {transformers.__version__} cannot load T5ForConditionalGeneration: ",
            "a causal language model that this transformers knows",
        ),
        (
            llama(),
            torch.float32,
            [],
            "its weights are float32, the kernels take bf16 and fp16",
            "--dtype bf16 rounds them",
        ),
        (
            llama(head_dim=40),
            torch.bfloat16,
            [],
            "axis head_dim: unknown value '40'",
            "known: 32, 64, 96, 128, 192, 256",
        ),
        (
            llama(),
            torch.bfloat16,
            ["--steps", "100"],
            "40 + 100 positions, it has 128",
            "fewer by --prompt and --steps",
        ),
        (llama(), torch.bfloat16, ["--layers", "2"], "--layers is the model's own", "leave out --layers"),
        (llama(), torch.bfloat16, ["--head-dim", "32"], "--head-dim is the model's own", "leave out --head-dim"),
    ],
)
def test_a_model_that_cannot_be_judged_is_one_clear_error(
    make: Callable[[], Any],
    dtype: torch.dtype,
    words: list[str],
    message: str,
    hint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "ensure_built", lambda *a, **k: pytest.fail("it was built"))
    folder = saved(tmp_path / "model", make, dtype)
    capsys.readouterr()
    assert main(["accuracy", "fa_split_gqa", "--model", str(folder), *SHORT, *words, "-q"]) == 2
    error, shown_hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: --model {folder}: {message}")
    assert shown_hint == f"hint: {hint}"


def test_weights_that_are_missing_are_not_made_up(qwen: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deeper"
    shutil.copytree(qwen, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "num_hidden_layers": 3, "layer_types": ["full_attention"] * 3})
    )
    with pytest.raises(workflow.UsageError, match=r"11 weights are missing, model\.layers\.2\.input_layernorm"):
        local_model.load_model(read_facts(folder), "bf16", "cpu")


def test_weights_of_another_dtype_are_rounded_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", llama(), torch.float32)
    model = local_model.LocalModel(read_facts(folder), "fp16", "cpu", prompt=20, steps=0, seed=0)
    assert model.prefill_logits(None).shape == (40, 96)
    assert model.step_logits(None).shape[0] == 0


def test_without_transformers_the_error_says_what_to_install(
    qwen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["accuracy", VARIANT, "--model", str(qwen), *SHORT]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: transformers cannot be imported: ")
    assert hint == "hint: pip install 'transformers>=5'"

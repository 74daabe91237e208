"""A Hugging Face model from a folder whose attention is exchanged call by call: logits of one prompt and its steps.

The model computes in its own dtype; two runs differ by their attention alone. The reference's is fp64, rounded once.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkctl.errors import UsageError
from sparkctl.ops import huggingface
from sparkctl.testing.model_folder import ModelFacts, import_transformers
from sparkctl.testing.reference import attention_reference

if TYPE_CHECKING:
    from torch import Tensor

HOOK = "sparkctl_accuracy"  # its name among transformers' attention implementations
BATCH = 2
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
TEXT = """\
A kernel is written once and measured many times. Before it is fast it must be right, and before it is right somebody
has to say what right means: which inputs it takes, how large an error may be, and what it leaves in memory that
nobody asked it to touch. The first version is slow and easy to read. It loads a tile of keys, waits for all of them,
multiplies, and loads the next. The second version asks for the next tile while it works on this one, and so the
memory is never idle. Both give the same bits, because the order of the sums did not change; only the waiting moved.
When the two are timed, they take turns, since a processor that is warm runs at another clock than one that is cold.
If the difference is smaller than the noise, there is no difference. In 1969 three people flew around the moon with
less memory than the icon of this program. Water boils at 100 degrees at sea level, the capital of France is Paris,
and the square root of 144 is 12.
"""

# (q, k, v, **options of the operators) -> out
AttendWith = Callable[..., "Tensor"]


class LocalModel:
    """The model, its tokens, and whose attention is at work."""

    def __init__(self, facts: ModelFacts, dtype: str, device: str, *, prompt: int, steps: int, seed: int) -> None:
        """UsageError for a folder that transformers cannot load as a causal language model of this dtype."""
        self.facts, self.prompt, self.steps = facts, prompt, steps
        self._calls = 0
        self._attend: AttendWith | None = None
        self._model = load_model(facts, dtype, device)
        self._register()
        self.tokens, self.token_source = make_tokens(facts, self._model, prompt + steps, seed, device)
        names = inspect.signature(type(self._model).forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self._prompt_cache: Any = None
        self._probe()

    def _probe(self) -> None:
        """UsageError where the model's attention is its own: exchanging it would change nothing, and pass."""
        with self._with(None):
            self._forward(self.tokens[:, :1], use_cache=False)
        if not self._calls:
            what = f"{self.facts.architecture} does not call transformers' attention interface"
            raise UsageError(f"--model {self.facts.folder}: {what}", hint="a model whose attention can be exchanged")

    def prefill_logits(self, attend: AttendWith | None) -> Tensor:
        """Of every position `[batch * positions, vocabulary]`, in one call; None is torch SDPA."""
        with self._with(attend):
            return self._forward(self.tokens, use_cache=False).flatten(0, 1)

    def step_logits(self, attend: AttendWith | None) -> Tensor:
        """Of the steps `[batch * steps, vocabulary]`, position by position behind the reference's prompt."""
        import torch

        cache = copy.deepcopy(self._reference_prompt())
        parts = []
        with self._with(attend):
            for position in range(self.prompt, self.prompt + self.steps):
                parts.append(self._forward(self.tokens[:, position : position + 1], **{self._cache_name: cache}))
        if not parts:
            return torch.zeros(0, 1, device=self.tokens.device)
        return torch.cat(parts, 1).flatten(0, 1)

    def _reference_prompt(self) -> Any:
        if self._prompt_cache is None:
            from transformers import DynamicCache

            self._prompt_cache = DynamicCache(config=self._model.config)
            with self._with(exact_attention):
                self._forward(self.tokens[:, : self.prompt], **{self._cache_name: self._prompt_cache})
        return self._prompt_cache

    def _forward(self, tokens: Tensor, **options: Any) -> Tensor:
        import torch

        try:
            with torch.no_grad():
                logits: Tensor = self._model(tokens, **options).logits
        except (ValueError, TypeError, NotImplementedError) as error:
            raise UsageError(
                f"--model {self.facts.folder}: {self.facts.architecture} cannot run: {error}",
                hint="docs/operators.md says which attention the operators have",
            ) from error
        return logits.float()

    @contextmanager
    def _with(self, attend: AttendWith | None) -> Iterator[None]:
        self._attend, self._calls = attend, 0
        try:
            yield
        finally:
            self._attend = None

    def _register(self) -> None:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

        AttentionInterface.register(HOOK, self._hook)
        AttentionMaskInterface.register(HOOK, sdpa_mask)
        self._model.set_attn_implementation(HOOK)

    def _hook(self, module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        self._calls += 1
        if self._attend is None:
            from transformers.integrations.sdpa_attention import sdpa_attention_forward

            return sdpa_attention_forward(module, query, key, value, mask, **options)
        return huggingface.attention(module, query, key, value, mask, operator=self._attend, **options)


def exact_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """fp64, rounded to q's dtype."""
    out: Tensor = attention_reference(q, k, v, **options)[0].to(q.dtype)
    return out


def load_model(facts: ModelFacts, dtype: str, device: str) -> Any:
    """In eval mode, every weight from the folder."""
    import torch

    transformers = import_transformers()
    where = f"--model {facts.folder}"
    try:
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            facts.folder,
            dtype={"bf16": torch.bfloat16, "fp16": torch.float16}[dtype],
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:  # of many kinds, down to those of the file format
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"transformers {transformers.__version__} cannot load {facts.architecture}: {text[:200]}"
        raise UsageError(f"{where}: {what}", hint="a causal language model that this transformers knows") from error
    missing = sorted(loading["missing_keys"])
    if missing:
        raise UsageError(f"{where}: {len(missing)} weights are missing, {missing[0]} the first", hint="copy it again")
    return model.eval().requires_grad_(False).to(device)


def make_tokens(facts: ModelFacts, model: Any, positions: int, seed: int, device: str) -> tuple[Tensor, str]:
    """([BATCH, positions], where they come from): a text by the folder's tokenizer, else random ones."""
    import torch

    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    ids = _text_ids(Path(facts.folder))
    if ids and max(ids) < vocabulary:
        repeated = ids * (BATCH * positions // len(ids) + 2)
        rows = [repeated[b * len(ids) // BATCH :][:positions] for b in range(BATCH)]
        return torch.tensor(rows, device=device), "a built-in text"
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (BATCH, positions), generator=generator).to(device), f"random, seed {seed}"


@functools.cache
def _text_ids(folder: Path) -> list[int]:
    """Empty where there is no tokenizer, or none that can be loaded here."""
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        return []
    from transformers import AutoTokenizer

    try:
        return [int(token) for token in AutoTokenizer.from_pretrained(folder, local_files_only=True)(TEXT)["input_ids"]]
    except Exception:  # of many kinds; random tokens do too, and the report says which
        return []

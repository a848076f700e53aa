"""Which model is measured? Any causal LM of transformers, from the hub, a directory, a GGUF file or built in.

Weights are read from safetensors or GGUF only, never from a pickle. Code from the hub runs only if asked.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hf_analysis import hub
from hf_analysis.models.builtin import builtin_directory
from hf_analysis.models.directories import lacks_tokenizer, require_saved_model, require_tokenizer, without_tokenizer
from hf_analysis.models.headers import require_sound_directory, require_sound_gguf
from hf_analysis.models.machine import keep_freed_memory, require_arithmetic
from hf_analysis.models.reports import kept_reports, misfit
from probes.base.lazy import collector_paused

if TYPE_CHECKING:  # importing transformers takes seconds, so each function does it for itself
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class LoadedTokenizer:
    """The tokenizer of a model, without the model."""

    name: str
    tokenizer: "PreTrainedTokenizerBase"

    def encode(self, text: str) -> list[int]:
        """The tokens of `text` with what the tokenizer puts in front of it, and nothing behind it."""
        ids = list(self.tokenizer(text, add_special_tokens=True)["input_ids"])
        bare = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        if text and not bare:
            require_tokenizer(self.name)
        while len(ids) > len(bare) and ids[-1] == self.tokenizer.eos_token_id and ids[-len(bare) :] != bare:
            ids.pop()
        return ids


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode with its tokenizer, under the name the user gave."""

    name: str
    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"

    @property
    def n_layers(self) -> int:
        return self.model.config.get_text_config().num_hidden_layers

    @property
    def n_heads(self) -> int:
        return self.model.config.get_text_config().num_attention_heads

    @property
    def max_tokens(self) -> int | None:
        """The longest text the model was built for, where its configuration says so."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    @property
    def device(self) -> torch.device:
        """Where the model takes its tokens."""
        return next(self.model.get_input_embeddings().parameters()).device

    @property
    def pad(self) -> int:
        """A token to fill rows with; its rows are never read."""
        known = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        return next((token for token in known if isinstance(token, int)), 0)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the weights and dtype: 16 hex digits of a hash of every byte of every parameter."""
        state = hashlib.sha256()
        for name, parameter in self.model.named_parameters():
            flat = parameter.detach().cpu().reshape(-1).contiguous()
            state.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
            state.update(flat.view(torch.uint8).numpy().data)  # as bytes: numpy has no bfloat16
        return state.hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """As `LoadedTokenizer.encode`."""
        return LoadedTokenizer(self.name, self.tokenizer).encode(text)

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False))


def load_model(
    name: str,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: bool = False,
    offline: bool = False,
) -> LoadedModel:
    """The model `name`: `builtin`, a .gguf file, a directory, or an id of the hub (at `revision`).

    `auto`: CUDA (spread over all GPUs) with bfloat16 weights, or float32 on a GPU that only imitates bfloat16, such
    as a T4; else MPS, else the CPU, both in float32. Statistics are in float32 everywhere. `trust_remote_code` runs
    Python code that the model's author put on the hub.
    """
    place = _device(device)
    with collector_paused():
        from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel  # noqa: F401  (the slow one)
    with _quiet():
        source, options = _source(name, revision)
    _require_sound(name)
    gguf = "gguf_file" in options
    options |= {"trust_remote_code": trust_remote_code, "local_files_only": offline}
    weights: dict[str, Any] = {"dtype": _dtype(dtype, place)}
    if place == "cpu" and weights["dtype"] != torch.float32:
        require_arithmetic(dtype)
    if not gguf:
        weights["use_safetensors"] = True
    if device == "auto" and place == "cuda":
        weights["device_map"] = "auto"
    with _reading(name, offline):
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        loader: Any = AutoModelForCausalLM
        model, found = loader.from_pretrained(source, output_loading_info=True, **weights, **options)
    absent = sorted(map(str, {*found["missing_keys"], *found["mismatched_keys"]}))
    if absent:  # transformers would go on with random numbers in their place
        raise ValueError(f"--model {name}: its file lacks {len(absent)} weights, such as {absent[0]}")
    if "device_map" in weights:
        _require_fits(name, getattr(model, "hf_device_map", {}))
    else:
        model = model.to(place)
    if place == "cpu":
        keep_freed_memory()
    return LoadedModel(name, model.eval(), tokenizer)


def load_tokenizer(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False, offline: bool = False
) -> LoadedTokenizer:
    """The tokenizer of the model `name`; the options are those of `load_model`."""
    from transformers import AutoTokenizer

    with _quiet():
        source, options = _source(name, revision)
    options |= {"trust_remote_code": trust_remote_code, "local_files_only": offline}
    with _reading(name, offline):
        return LoadedTokenizer(name, AutoTokenizer.from_pretrained(source, **options))


def require_same_tokenizer(first: LoadedModel | LoadedTokenizer, second: LoadedModel | LoadedTokenizer) -> None:
    """A ValueError unless both models read every text as the same tokens, which comparing them head on needs."""
    probe = "Ann's 12 apples cost $3,400.50.\n#### -7 <<3*4=12>> naïve 猫"
    if first.tokenizer.get_vocab() != second.tokenizer.get_vocab() or first.encode(probe) != second.encode(probe):
        raise ValueError(
            f"{first.name} and {second.name} have different tokenizers, so their entropies are over different "
            "tokens; compare two models with the same tokenizer"
        )


def tiny_twin(loaded: LoadedModel, seed: int) -> LoadedModel:
    """Two small layers with fresh weights behind the same tokenizer: something to train within seconds."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=loaded.model.config.get_text_config().vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=2048,
        pad_token_id=loaded.pad,
        bos_token_id=None,
        eos_token_id=loaded.pad,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = AutoModelForCausalLM.from_config(config, dtype=loaded.model.dtype)
    return LoadedModel(f"tiny {loaded.name}", fresh.to(loaded.device).eval(), loaded.tokenizer)


def _source(name: str, revision: str | None) -> tuple[str, dict[str, Any]]:
    """Where transformers finds `name`, and the options that say so."""
    path = Path(name)
    if revision is not None and (name == "builtin" or path.exists()):
        raise ValueError(f"--revision {revision}: only a model of the hub has revisions, not {name}")
    if name == "builtin":
        return str(builtin_directory()), {}
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ValueError(f"--model {name}: no such file")
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir():
        require_saved_model(name)
        return name, {}
    if path.exists() or name.startswith((".", "/", "~")):
        raise ValueError(f"--model {name}: expected a directory, a .gguf file, a hub id or 'builtin'")
    return name, {} if revision is None else {"revision": revision}


def _require_sound(name: str) -> None:
    path = Path(name)
    try:
        if path.suffix == ".gguf":
            require_sound_gguf(path)
        elif path.is_dir():
            require_sound_directory(path)
    except ValueError as error:
        raise ValueError(f"--model {name}: cannot be loaded ({error})") from None


def _device(device: str) -> str:
    if device != "auto":
        try:
            torch.zeros(1, device=device).item()  # "meta" has tensors, and no numbers in them
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"--device {device}: not available here ({_first_line(error)})") from error
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _dtype(dtype: str, device: str) -> torch.dtype:
    if dtype == "auto":
        fast = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if fast else torch.float32
    if dtype not in DTYPES:
        raise ValueError(f"--dtype {dtype}: expected auto or one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _require_fits(name: str, device_map: Mapping[str, Any]) -> None:
    """A ValueError if a model that was to be spread over the GPUs lies partly outside them, where it would crawl."""
    outside = [part for part, place in device_map.items() if str(place) in ("cpu", "disk", "meta")]
    if outside:
        raise ValueError(
            f"--model {name}: {len(outside)} of its parts, such as {outside[0]}, do not fit into the memory of the "
            f"{torch.cuda.device_count()} GPUs here; take more of them (--actor-gpus), or --device cpu"
        )


@contextmanager
def _reading(name: str, offline: bool) -> Iterator[None]:
    """Whatever goes wrong within is one line about the model."""
    reports: list[str] = []
    try:
        with _quiet(), kept_reports() as reports, hub.asked_politely(offline):
            yield
    except Exception as error:  # a damaged directory makes transformers and tokenizers raise anything
        if "tokenizer" in str(error) and lacks_tokenizer(name):
            raise ValueError(without_tokenizer(name)) from error
        refusal = misfit(reports)
        if refusal is None and name != "builtin" and not Path(name).exists():
            refusal = _refusal(error, offline)
        raise ValueError(f"--model {name}: cannot be loaded ({refusal or _first_line(error)})") from error


def _refusal(error: BaseException, offline: bool) -> str | None:
    if "`use_safetensors" in str(error):  # transformers advises to read pickled weights, which can run code
        return "it has no *.safetensors; other weights are not read: ask its owner for them, or convert it yourself"
    return hub.refusal(error, offline)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


class _quiet:
    """Transformers' own progress bars off within; a command line shows its own."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self.shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()

    def __exit__(self, *error: object) -> None:
        from transformers.utils import logging

        if self.shown:
            logging.enable_progress_bar()

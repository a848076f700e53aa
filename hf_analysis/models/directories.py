"""Does a directory hold a saved model and its tokenizer? Asked before transformers reads it."""

import json
from pathlib import Path

TOKENIZERS = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken", "tekken.json")
"""How the files of tokenizers are called."""
TRAINED = {"task", "parameters"}
"""What the config of a run of `cotlens train` has, and that of no saved model."""


def lacks_tokenizer(name: str) -> bool:
    """Whether `name` is a directory without any file of a tokenizer; transformers may make up an empty one there."""
    path = Path(name)
    return path.is_dir() and not any(found for pattern in TOKENIZERS for found in path.glob(pattern))


def without_tokenizer(name: str) -> str:
    """What is wrong with a model that has no tokenizer, and the remedy."""
    return (
        f"--model {name} has no tokenizer (no tokenizer.json): save one beside the model, "
        f"tokenizer.save_pretrained({name!r}), or pass token ids to hf_analysis.record"
    )


def require_tokenizer(name: str) -> None:
    """A ValueError if `name` is a directory without a tokenizer: for measurements that read texts."""
    if lacks_tokenizer(name):
        raise ValueError(without_tokenizer(name))


def require_saved_model(name: str) -> None:
    """A ValueError unless the directory `name` holds a model as transformers saves it."""
    path = Path(name)
    if not (path / "config.json").is_file():
        raise ValueError(f"--model {name}: the directory holds no config.json; expected a saved model")
    if _is_run(path / "config.json"):
        raise ValueError(f"--model {name}: this is a run of cotlens train: interp.load_run({name!r}) reads it")
    if not any(path.glob("*.safetensors")):
        raise ValueError(f"--model {name}: the directory holds no *.safetensors; other weights are not read")


def _is_run(config: Path) -> bool:
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # whoever reads it says what is wrong with it
        return False
    described = found.get("config") if isinstance(found, dict) else None
    return isinstance(described, dict) and set(described) >= TRAINED and "model_type" not in found

"""From plain config to objects; nothing here computes."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from lengthlab.commands.classes import called, file_beside, made
from lengthlab.commands.compose import Refusal
from lengthlab.commands.main import nearest
from lengthlab.data import Corpus, Recipe
from lengthlab.measurement.masking import Masking
from lengthlab.measurement.protocols import Sweep, with_train_length
from lengthlab.study import training_part


def corpus_of(config: Mapping) -> Corpus:
    """The corpus of `data`."""
    data = config["data"]
    fields = {key: data[key] for key in ("text_field", "id_field", "split_field") if key in data}
    return Corpus(name=data["name"], files=data["files"], **fields)


def recipe_of(config: Mapping) -> Recipe:
    """The tokenizer's recipe of `data.tokenizer`."""
    return called(Recipe, config["data"]["tokenizer"], "data.tokenizer")


def sweep_of(config: Mapping) -> Sweep:
    """Protocols and lengths of `eval`, the training length among them. Raises Refusal."""
    options = config["eval"]
    lengths = with_train_length(options["lengths"], config["train"]["length"])
    try:
        return Sweep(
            lengths,
            tuple(options["protocols"]),
            options["stride"],
            options["reach"],
            options["block"],
            masking_of(config),
        )
    except ValueError as error:
        raise Refusal(f"eval.{error}") from error


def masking_of(config: Mapping) -> Masking | None:
    """Which tokens a bidirectional model is asked for in evaluation; None for a causal one."""
    return Masking(config["eval"]["mask_seed"]) if is_bidirectional(config) else None


def is_bidirectional(config: Mapping) -> bool:
    """Whether the model is an encoder; a run that is older than the key is not."""
    return config["model"].get("causal") is False


def training_of(config: Mapping, beside: Path | None = None) -> dict:
    """The training part of a config: what the run's name hashes."""
    corpus = corpus_of(config).fingerprint
    tokenizer = recipe_of(config).fingerprint(corpus)
    return training_part(config, corpus, tokenizer, dtype_name(config), code_of(config, beside))


def code_of(config: Mapping, beside: Path | None) -> str | None:
    """sha256 of the scheme's file where it lies beside a --config-dir; None for a scheme of the package."""
    file = file_beside(config["scheme"].get("_target_"), beside)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file else None


def dtype_name(config: Mapping) -> str:
    """float32 or bfloat16 (or float16 on a GPU); `auto` is bfloat16 where the device computes in it."""
    import torch

    device, dtype = device_of(config), config["dtype"]
    if dtype == "auto":
        return "bfloat16" if _has_bfloat16(device) else "float32"
    valid = ("auto", "float32", "bfloat16", "float16")
    if dtype not in valid:
        raise Refusal(f"dtype={dtype}: no such dtype{nearest(str(dtype), valid)}")
    if dtype == "float16":
        raise Refusal(
            f"dtype=float16 on {device.type}: "
            + ("computed some 500 times slower than float32; use bfloat16 or auto" if device.type == "cpu"
               else "training would need loss scaling, which is not there; use bfloat16 or auto")
        )  # fmt: skip
    return str(getattr(torch, dtype)).removeprefix("torch.")


def device_of(config: Mapping):
    """A torch device; `auto` is the first GPU, else the CPU. Raises Refusal where it is not there."""
    import torch

    name = config["device"]
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise Refusal(f"device={name}: not a device (auto, cpu, cuda, cuda:1, mps)") from error
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device.type, False):
        raise Refusal(f"device={name}: this machine has none; use device=auto or device=cpu")
    return device


def settle(config: Mapping) -> None:
    """What a process does once before it computes: its number of threads, and an allocator that keeps its memory."""
    import torch

    from lengthlab.training.malloc import keep_memory

    keep_memory()
    if config["threads"]:
        torch.set_num_threads(config["threads"])


def model_of(config: Mapping, vocab: int, beside: Path | None = None):
    """The initialised GPT of a config: the model's weights from the seed alone, the scheme's from a draw of its own."""
    import torch

    from lengthlab.model import GPT

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config["seed"])
        scheme = scheme_of(config, beside)
        model = GPT(gpt_config_of(config), vocab + (mask_of(config, vocab) is not None), scheme)
    model.initialise(config["seed"])
    return model


def mask_of(config: Mapping, vocab: int) -> int | None:
    """The id of the mask token of a bidirectional model, after the tokenizer's own; None for a causal one."""
    return vocab if is_bidirectional(config) else None


def objective_of(config: Mapping, vocabulary):
    """What training asks of a block."""
    from lengthlab.training import MaskedToken, NextToken

    mask = mask_of(config, vocabulary.size)
    return NextToken() if mask is None else MaskedToken(mask, vocabulary.bos)


def gpt_config_of(config: Mapping):
    """Sizes and options of `model`. Raises Refusal."""
    from lengthlab.model import GPTConfig

    return called(GPTConfig, {key: value for key, value in config["model"].items() if key != "name"}, "model")


def scheme_of(config: Mapping, beside: Path | None = None):
    """The scheme of a config. Raises Refusal where its options, or its class, are not what they must be."""
    from lengthlab.schemes import Dims, Scheme

    model, length = gpt_config_of(config), config["train"]["length"]
    dims = Dims(
        width=model.width,
        heads=model.heads,
        head_size=model.width // model.heads,
        layers=model.layers,
        train_length=length,
        horizon=positions_of(config).horizon(length),
    )
    return made("scheme", config["scheme"], "lengthlab.schemes", Scheme, beside, dims)


def positions_of(config: Mapping):
    """Which number each token carries."""
    from lengthlab.model import Positions

    return made("positions", config["positions"], "lengthlab.model.positions", Positions, None)


def draws_of(config: Mapping) -> dict | None:
    """{count, seed} of the draws with which a cell is read; None where evaluation draws no positions."""
    return {"count": config["eval"]["position_draws"], "seed": 0} if positions_of(config).random else None


def extension_of(config: Mapping, scheme):
    """The extension of a config, for that scheme. Raises Refusal where it does not fit."""
    from lengthlab.schemes.extensions import Extension

    extension = made("extension", config["extension"], "lengthlab.schemes.extensions", Extension, None)
    if not isinstance(scheme, extension.fits):
        name, fitting = config["extension"]["name"], " and ".join(fit.__name__ for fit in extension.fits)
        raise Refusal(f"extension={name} does not fit scheme={config['scheme']['name']}: it is for {fitting}")
    return extension


def _has_bfloat16(device) -> bool:
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    has = torch.cpu.get_capabilities()
    return any(has.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))

"""What is wrong with a job, said in one line before any folder is made."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lengthlab.commands import build
from lengthlab.commands.classes import called
from lengthlab.commands.compose import Refusal
from lengthlab.commands.main import nearest
from lengthlab.commands.text import TextSource
from lengthlab.study import Run, runs_of
from lengthlab.study.identity import NAME

NAMED = ("scheme", "positions", "extension", "model", "data")
"""Groups whose name is a part of a folder's or a cell's name."""


def check_train(config: Mapping, beside: Path | None) -> TextSource:
    """Raises Refusal (or the rooms' own one-line errors) for what would fail; returns the tokenized text otherwise."""
    check_audit(config, beside)
    _check_results(config)
    _check_eval(config)
    text = TextSource.of_training(config)
    _check_training_text(config, text)
    _check_evaluation_text(config, text)
    return text


def check_audit(config: Mapping, beside: Path | None) -> None:
    """The part of it that needs neither text nor evaluation: the model that would be trained, and how."""
    from lengthlab.training import TrainSettings

    _check_names(config)
    _check_numbers(config)
    called(TrainSettings, config["train"], "train")
    build.dtype_name(config)
    _check_lengths(config["eval"]["lengths"])
    scheme = build.scheme_of(config, beside)
    if build.is_bidirectional(config) and scheme.causal_only:
        raise Refusal(
            f"model.causal=false: scheme={config['scheme']['name']} says nothing sensible of tokens to come; "
            "use one for both directions (alibi_symmetric, rope, kerple_log, …)"
        )
    _check_positions(config, config["eval"]["lengths"][-1])
    _check_extension(config, scheme)
    _check_acts(config, scheme)


def check_evaluate(run: Run, config: Mapping, beside: Path | None) -> None:
    """The same for a run that is to be read again: its checkpoint, the changed config and the text."""
    from lengthlab.training import load

    if run.record["status"] not in ("done", "diverged"):
        raise Refusal(f"run={run.folder}: its training is not finished ({run.record['status']}); train it first")
    if run.record["training"].get("code") != build.code_of(config, beside):
        raise Refusal(
            f"run={run.folder}: scheme={config['scheme']['name']} comes from a --config-dir, and its code is not given "
            "or has changed since; give --config-dir with the file as it was, or train again"
        )
    _check_writable(run.folder / "eval")
    _check_names(config)
    _check_numbers(config)
    build.device_of(config)
    _check_eval(config)
    text = TextSource.of_run(run, config)
    model = build.model_of(config, text.vocabulary.size, beside)
    _check_extension(config, model.scheme)
    if run.record["status"] == "done":
        load(run.checkpoint, model)
    _check_evaluation_text(config, text)


def check_study(config: Mapping) -> Path:
    """The folder of a study that is to be read."""
    check_name("study", config["study"])
    folder = Path(config["results"]) / config["study"]
    if not folder.is_dir():
        parent = Path(config["results"])
        there = [path.name for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []
        raise Refusal(f"study={config['study']}: no folder {folder}{nearest(config['study'], there) if there else ''}")
    if not any(runs_of(folder)):
        raise Refusal(f"study={config['study']}: no run in {folder}")
    return folder


def check_name(key: str, value) -> None:
    """Names become folders' names and must not leave them."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise Refusal(
            f"{key}={value}: a name is made of letters, digits, dots, dashes and underscores, a letter or digit first"
        )


def _check_names(config: Mapping) -> None:
    check_name("study", config["study"])
    for group in ("train", "eval", "tracker", *NAMED):
        if not isinstance(config[group], Mapping):
            raise Refusal(f"{group}={config[group]}: a group has to be chosen, not set")
    for group in NAMED:
        check_name(f"{group}.name", config[group].get("name"))
    for key, kinds in {"files": str | list, "tokenizer": Mapping}.items():
        if not isinstance(config["data"][key], kinds):
            raise Refusal(f"data.{key}={config['data'][key]}: must be given")


def _check_results(config: Mapping) -> None:
    if not isinstance(config["results"], str):
        raise Refusal(f"results={config['results']}: must be a folder")
    _check_writable(Path(config["results"]) / config["study"] / "run")


def _check_writable(folder: Path) -> None:
    """Raises Refusal where the folder is not there and cannot be made, or cannot be written to."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise Refusal(f"results: {there} is a file, not a folder; give another results= or study=")
    if not os.access(there, os.W_OK | os.X_OK):
        raise Refusal(f"results: {there} cannot be written to; give another results=")


def _check_extension(config: Mapping, scheme) -> None:
    """Raises Refusal for an extension that does not fit, or cannot be made for one of the lengths."""
    extension = build.extension_of(config, scheme)
    if build.is_bidirectional(config) and extension.causal_only:
        raise Refusal(f"extension={config['extension']['name']}: only for causal models, and model.causal=false")
    for length in config["eval"]["lengths"]:
        try:
            extension.wrap(scheme, length)
        except ValueError as error:
            raise Refusal(f"extension.{error}") from error


def _check_acts(config: Mapping, scheme) -> None:
    """Raises Refusal for a scheme that does not do what it is configured for."""
    from lengthlab.commands.schemes import hooks_of
    from lengthlab.training.sentinel import complaint

    try:
        found = complaint(scheme, build.gpt_config_of(config), positional=hooks_of(scheme) != "none")
    except Exception:  # a hook that fails is the job's own failure: training meets it again, and the others go on
        return
    if found:
        raise Refusal(f"scheme={config['scheme']['name']}: {found}")


def _check_numbers(config: Mapping) -> None:
    if isinstance(config["seed"], bool) or not isinstance(config["seed"], int) or not 0 <= config["seed"] < 2**63:
        raise Refusal(f"seed={config['seed']}: must be an integer of at least 0 and below 2^63")
    threads, most = config.get("threads"), max(64, 4 * (os.cpu_count() or 1))
    _integer("threads", threads, optional=True)
    if threads and threads > most:
        raise Refusal(f"threads={threads}: this machine has {os.cpu_count()} cores; use at most {most}")
    modes = ("auto", "online", "offline", "disabled")
    if config["tracker"]["mode"] not in modes:
        raise Refusal(
            f"tracker.mode={config['tracker']['mode']}: no such mode{nearest(str(config['tracker']['mode']), modes)}"
        )


def _check_eval(config: Mapping) -> None:
    options = config["eval"]
    _check_lengths(options["lengths"])
    if not isinstance(options["protocols"], list) or not options["protocols"]:
        raise Refusal(f"eval.protocols={options['protocols']}: must be a list of at least one protocol")
    for key in ("stride", "reach", "block", "tokens_per_document"):
        _integer(f"eval.{key}", options[key], optional=True)
    _integer("eval.tokens_per_batch", options["tokens_per_batch"])
    _integer("eval.mask_seed", options.get("mask_seed", 0), least=0)
    dtypes = ("float32", "bfloat16")
    if options["dtype"] not in dtypes:
        raise Refusal(f"eval.dtype={options['dtype']}: no such dtype{nearest(str(options['dtype']), dtypes)}")
    sweep = build.sweep_of(config)
    if options["stride"] and options["stride"] > sweep.lengths[0]:
        raise Refusal(
            f"eval.stride={options['stride']} is larger than the length {sweep.lengths[0]}: text would be skipped; "
            "use at most the shortest length (train.length among them), or null for half of each"
        )
    longest, cut = sweep.longest, options["tokens_per_document"]
    if cut is not None and cut < longest:
        what = "eval.reach" if longest > sweep.lengths[-1] else "longest length"
        raise Refusal(
            f"eval.tokens_per_document={cut} is below the {what} {longest}; "
            f"use at least {longest}, or shorter eval.lengths"
        )
    _check_positions(config, sweep.lengths[-1])


def _check_positions(config: Mapping, longest: int) -> None:
    positions = build.positions_of(config)
    # A run that is older than the key has no random positions.
    _integer("eval.position_draws", config["eval"].get("position_draws"), optional=not positions.random)
    try:
        positions.training(config["train"]["length"])
        positions.numbers(longest)
    except ValueError as error:
        raise Refusal(f"positions.{error}") from error


def _check_lengths(lengths) -> None:
    shown = f"eval.lengths={lengths}"
    if not isinstance(lengths, list) or not lengths:
        raise Refusal(f"{shown}: must be a list of at least one length, as in 'eval.lengths=[64,128]'")
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, int):
            raise Refusal(f"{shown}: {length!r} is not an integer; lengths are numbers of tokens")
        if length < 1:
            raise Refusal(f"{shown}: {length} is not positive; lengths are numbers of tokens")
    if any(a >= b for a, b in zip(lengths, lengths[1:], strict=False)):
        raise Refusal(f"{shown}: must increase; use 'eval.lengths={sorted(set(lengths))}'")


def _integer(key: str, value, optional: bool = False, least: int = 1) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Refusal(f"{key}={value}: must be an integer of at least {least}" + (", or null" if optional else ""))


def _check_training_text(config: Mapping, text: TextSource) -> None:
    documents = text.tokens.documents("train")
    total, length = sum(len(document.tokens) + 1 for document in documents), config["train"]["length"]
    if total <= length:
        raise Refusal(
            f"data={config['data']['name']}: the train split has {total} tokens in {len(documents)} documents, "
            f"too few for one block of train.length={length}; give more text{_splits(text)}"
        )


def _check_evaluation_text(config: Mapping, text: TextSource) -> None:
    split, sweep, name = config["eval"]["split"], build.sweep_of(config), config["data"]["name"]
    if split not in text.tokens.splits:
        raise Refusal(
            f"eval.split={split}: data={name} has no document there{_splits(text)}; "
            "give records a `split` of their own, more documents, or another eval.split"
        )
    sizes = [len(document.tokens) for document in text.tokens.documents(split)]
    if not any(size >= sweep.longest for size in sizes):
        enough: Sequence[int] = [length for length in sweep.lengths if length <= max(sizes)]
        hint = f"use 'eval.lengths={list(enough)}'" if enough else "give longer documents"
        raise Refusal(
            f"eval.lengths: 0 of {len(sizes)} {split} documents of data={name} have {sweep.longest} tokens, "
            f"the longest has {max(sizes)}; {hint}"
        )


def _splits(text: TextSource) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in text.tokens.splits.items())
    return f" (documents per split: {counts or 'none'})"

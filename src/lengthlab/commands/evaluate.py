"""`lengthlab evaluate run=results/S/R …`: read trained weights again; and the sweep that `train` ends with."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from lengthlab.commands import build, compose, naming, progress, provenance, refuse, report, tracking
from lengthlab.commands.compose import Refusal
from lengthlab.commands.text import TextSource
from lengthlab.study import Run, cell_name

naming.register()


@hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="evaluate")
def _run(cfg: DictConfig) -> None:
    run = Run(cfg.run)
    evaluate(run, changed(run, cfg, HydraConfig.get().overrides.task), compose.config_dir_of_job())


def main(words: list[str]) -> None:
    """Run the command: refuse, evaluate, then report on the studies that it touched."""
    line = compose.parse("evaluate", words)
    jobs = compose.jobs_of(line)
    if not line.only_shows:
        for job in jobs:
            if OmegaConf.is_missing(job.config, "run"):
                raise Refusal("run: must be given, as in run=results/STUDY/RUN")
            run = Run(job.config.run)
            refuse.check_evaluate(run, changed(run, job.config, job.overrides), line.config_dir)
    provenance.remember("evaluate", words)
    line.to_hydra()
    try:
        _run()
    finally:
        if not line.only_shows:
            for folder in sorted({Path(job.config.run).absolute().parent for job in jobs}):
                print(report.write(folder.name, folder.parent))


def changed(run: Run, cfg: DictConfig, overrides: Sequence[str]) -> dict:
    """The run's own config with what the command line says, and nothing else, changed.

    Raises Refusal for a key that the run's training has decided.
    """
    config = deepcopy(run.record["config"])
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        key = override.key_or_group
        if key == "run" or key.startswith("hydra"):
            continue
        if key.startswith("data.tokenizer"):
            raise Refusal(f"{key}: a run is read with its own tokenizer; train another run for another")
        *groups, last = key.split(".")
        node = config
        for group in groups:
            node = node.setdefault(group, {})
        value = OmegaConf.select(cfg, key)
        node[last] = compose.plain(value) if OmegaConf.is_config(value) else value
    return config


def evaluate(run: Run, config: Mapping, beside: Path | None) -> None:
    """Compute the cells of a finished run that are not there yet."""
    from lengthlab.training import load

    build.settle(config)
    text = TextSource.of_run(run, config)
    model = build.model_of(config, text.vocabulary.size, beside)
    if run.record["status"] == "done":
        load(run.checkpoint, model)
    if sweep(run, config, text, model.to(build.device_of(config))):
        tracker = tracking.start(config, run.folder)
        tracker.cells(report.summary_of(run))
        tracker.close()


def sweep(run: Run, config: Mapping, text: TextSource, model) -> int:
    """Measure every cell of the config that the run does not have; returns how many that were."""
    from lengthlab.measurement.ledger import Plan

    texts, options = text.texts(config["eval"]["split"]), config["eval"]
    missing = []
    for protocol in build.sweep_of(config).cells():
        identity = identity_of(config, text, protocol)
        if not run.has_cell(cell_name(identity)):
            missing.append((identity, Plan(protocol, texts, options["tokens_per_document"])))
    if not missing:
        return 0
    reader, extension = _reader(config, text, model), build.extension_of(config, model.scheme)
    with progress.bar(f"{run.name} sweep", sum(plan.tokens_to_feed for _, plan in missing)) as bar:
        for identity, plan in missing:
            _measure(run, identity, plan, reader, extension, bar)
    return len(missing)


def identity_of(config: Mapping, text: TextSource, protocol) -> dict:
    """Everything that can change the sums of a cell; what its name hashes and its ledger begins with."""
    options, masking = config["eval"], build.masking_of(config)
    return {
        "data": {
            "name": config["data"]["name"],
            "split": options["split"],
            "corpus": text.corpus,
            "tokenizer": text.tokenizer_fingerprint,
            "tokens_per_document": options["tokens_per_document"],
        },
        "extension": dict(config["extension"]),
        "protocol": {"name": protocol.name, **protocol.options},
        "length": protocol.length,
        "documents": "separate",
        "bos": "before each document",
        "positions": dict(config["positions"]),
        "position_draws": build.draws_of(config),
        "mask_seed": masking.seed if masking else None,
        "dtype": options["dtype"],
        "train_length": config["train"]["length"],
    }


def _reader(config: Mapping, text: TextSource, model):
    import torch

    from lengthlab.measurement.sweep import Reader

    draws = build.draws_of(config) or {"count": 1, "seed": 0}
    return Reader(
        model,
        build.positions_of(config),
        text.vocabulary.bos,
        text.vocabulary.token_bytes,
        config["train"]["length"],
        getattr(torch, config["eval"]["dtype"]),
        config["eval"]["tokens_per_batch"],
        draws["count"],
        draws["seed"],
        build.mask_of(config, text.vocabulary.size),
    )


def _measure(run: Run, identity: dict, plan, reader, extension, bar) -> None:
    import torch

    before = bar.n
    with progress.measured() as cost:
        if run.record["status"] == "diverged":
            reading = reader.nothing("diverged", run.record["error"])
        else:
            reading = reader.measure(plan, extension, bar.update)
    bar.update(before + plan.tokens_to_feed - bar.n)
    rows, status, reason, sd = reading
    outcome = {
        "command": provenance.command(),
        "status": status,
        "reason": reason,
        "sd_over_draws": sd,
        "threads": torch.get_num_threads(),
        **cost,
    }
    run.write_cell(cell_name(identity), rows, {**identity, **plan.account(status), **outcome})

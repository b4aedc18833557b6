"""`lengthlab train …`: train at one length, then sweep the others. The logic of one job; Hydra's main is its shell."""

import sys
from itertools import islice
from pathlib import Path

import hydra
from omegaconf import DictConfig

from lengthlab.commands import build, compose, naming, progress, provenance, refuse, report, tracking
from lengthlab.commands.classes import called
from lengthlab.commands.evaluate import evaluate, sweep
from lengthlab.commands.text import TextSource
from lengthlab.study import Run, run_name

naming.register()


@hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="config")
def _run(cfg: DictConfig) -> None:
    job(compose.plain(cfg), compose.config_dir_of_job())


def main(words: list[str]) -> None:
    """Run the command: refuse, train and sweep every job, then table and report, whether or not a job failed."""
    line = compose.parse("config", words)
    jobs = compose.jobs_of(line)
    if not line.only_shows:
        for one in jobs:
            refuse.check_train(compose.plain(one.config), line.config_dir)
    provenance.remember("train", words)
    line.to_hydra()
    try:
        _run()
    finally:
        if not line.only_shows:
            for study, results in sorted({(one.config.study, one.config.results) for one in jobs}):
                if any((Path(results) / study).glob("*/run.json")):
                    print(report.write(study, Path(results)))


def job(config: dict, beside: Path | None = None) -> Run:
    """Train and sweep one config into its folder; what is finished is not computed again."""
    config = with_absolute_files(config)
    training = build.training_of(config, beside)
    run = Run(Path(config["results"]) / config["study"] / run_name(training))
    if run.is_finished():
        evaluate(run, config, beside)
    else:
        _train_and_sweep(run, config, training, beside)
    print(f"{run.folder}: {run.record['status']}")
    return run


def with_absolute_files(config: dict) -> dict:
    """The config as a run keeps it: its text is found again from any folder."""
    files = config["data"]["files"]
    files = [files] if isinstance(files, str) else files
    kept = [file if file.startswith("embedded:") else str(Path(file).absolute()) for file in files]
    return {**config, "data": {**config["data"], "files": kept}}


def _train_and_sweep(run: Run, config: dict, training: dict, beside: Path | None) -> None:
    build.settle(config)
    run.start_afresh()
    run.write_record(status="running", error=None, config=config, training=training, **provenance.record(config))
    tracker = tracking.start(config, run.folder)
    try:
        text = TextSource.of_training(config)
        model = build.model_of(config, text.vocabulary.size, beside).to(build.device_of(config))
        run.write_record(audit=model.scheme.untrained())
        for line in run.record["audit"]:
            print(f"audit: {line}", file=sys.stderr)
        _train(run, config, text, model, tracker)
        sweep(run, config, text, model)
        tracker.cells(report.summary_of(run))
    except BaseException as error:
        if not run.is_finished():
            run.write_record(status="failed", error=f"{type(error).__name__}: {error}")
        tracker.close(failed=True)
        raise
    tracker.close()


def _train(run: Run, config: dict, text: TextSource, model, tracker) -> None:
    """Train `model` in place, and write the run's record, rows, tokenizer and checkpoint."""
    import torch

    from lengthlab.training import Batches, Diverged, TrainSettings, fit, save

    settings = called(TrainSettings, config["train"], "train")
    batches = Batches(text.arrays("train"), text.vocabulary.bos, settings.length, config["seed"])
    run.write_record(params=model.parameter_counts(), train_blocks_crossing=batches.crossing())
    text.tokenizer.save(str(run.tokenizer))
    rows, status, error = [], "done", None
    steps = fit(
        model, build.positions_of(config), batches.batches(settings.batch), _validation(text, settings),
        settings, config["seed"], getattr(torch, run.record["dtype"]), build.objective_of(config, text.vocabulary),
    )  # fmt: skip
    try:
        with (
            progress.measured() as cost,
            progress.bar(f"{run.name} train", settings.steps * settings.tokens_per_step) as bar,
        ):
            for row in steps:
                rows.append(row)
                tracker.training(row)
                bar.set_postfix(loss=f"{row['loss']:.3f}", refresh=False)
                bar.update(settings.tokens_per_step)
        save(run.checkpoint, model, settings.steps)
    except Diverged as divergence:
        status, error = "diverged", str(divergence)
        print(f"{run.folder}: {error}; kept as diverged")
    run.write_training(rows)
    last = rows[-1] if rows else {}
    run.write_record(
        status=status, error=error, tokens=last.get("tokens", 0), **cost,
        final_loss=last.get("loss"), val_loss=last.get("val_loss"),
    )  # fmt: skip


def _validation(text: TextSource, settings) -> list:
    """Batches of the validation split at the training length; none where it is too small for one."""
    from lengthlab.training import Batches

    documents = text.arrays("val")
    if sum(len(tokens) + 1 for tokens in documents) <= settings.length:
        return []
    blocks = Batches(documents, text.vocabulary.bos, settings.length, seed=0)
    count = max(1, settings.validation_tokens // settings.tokens_per_step)
    return list(islice(blocks.batches(settings.batch), count))

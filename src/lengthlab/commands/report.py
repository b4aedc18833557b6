"""`lengthlab report study=S`: figures, summary.csv and report.html, from files alone."""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from lengthlab.commands import compose, naming, refuse
from lengthlab.study import Run

naming.register()


@hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="report")
def _run(cfg: DictConfig) -> None:
    config = compose.plain(cfg)
    print(write(config["study"], Path(config["results"])))


def main(words: list[str]) -> None:
    """Run the command, after a look at whether there is such a study."""
    line = compose.parse("report", words)
    if not line.only_shows:
        for job in compose.jobs_of(line):
            refuse.check_study(compose.plain(job.config))
    line.to_hydra()
    _run()


def summary_of(run: Run):
    """The curves of one run."""
    from lengthlab.measurement import summarise
    from lengthlab.study import frame_of

    return summarise(frame_of([run]))


def write(study: str, results: Path) -> str:
    """Write the study's report; returns what the terminal ends with: the tables and where the page is."""
    from lengthlab.figures.labels import protocols_of
    from lengthlab.figures.report import text_table, write_report
    from lengthlab.measurement import summarise
    from lengthlab.study import cells_of, collect, runs_of

    frame = collect(study, results)
    summary = summarise(frame)
    runs = [run.record for run in runs_of(results / study)]
    page = write_report(results / study, study, summary, cells_of(frame), runs)
    tables = [text_table(summary, protocol) for protocol in protocols_of(summary)]
    return "\n".join([*tables, f"report: {page}"])

"""A study on one page: its figure, its tables and what limits them; and the table as plain text."""

import json
import re
from collections import Counter
from pathlib import Path

import pandas as pd

from lengthlab.figures.caveats import caveats, last_line
from lengthlab.figures.curves import degradation, save
from lengthlab.figures.labels import CURVE, curves_of, number, printable, protocols_of, word
from lengthlab.figures.rates import rates_of
from lengthlab.study.runs import write_whole

MACHINE = ("versions", "device", "dtype", "threads", "git")


def text_table(summary: pd.DataFrame, protocol: str) -> str:
    """Perplexity by curve and length, aligned plain text; a training length is marked with a star."""
    curves = curves_of(summary, protocol)
    if not curves:
        return f"protocol {protocol}: no cells\n"
    lengths, trained = _lengths(curves)
    table = [[protocol, *(f"{n}*" if n in trained else str(n) for n in lengths)]]
    for curve in curves:
        cells = {int(p["length"]): _cell(p)["text"] for p in curve.points.to_dict("records")}
        table.append([curve.label, *(cells.get(n, "") for n in lengths)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]
    return "\n".join([*map(str.rstrip, lines), f"{_measure(protocol)}; * training length", ""])


def _measure(protocol: str) -> str:
    return "pseudo-perplexity" if protocol.startswith("masked") else "perplexity"


def write_report(folder: Path, study: str, summary: pd.DataFrame, cells: pd.DataFrame, runs: list[dict]) -> Path:
    """Writes summary.csv, degradation.png and .svg, and report.html into `folder`; returns the page's path.

    `summary`: a row per point of a curve; `cells`: a row per run and cell; `runs`: the records (run.json).
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = [name for name in ("protocol", *CURVE, "length") if name in summary]
    if keys:
        summary = summary.sort_values(keys, kind="stable", ignore_index=True)
        summary = summary[keys + sorted(set(summary) - set(keys))]
    runs = sorted(runs, key=lambda run: run["run"])
    table = summary.to_csv(index=False, lineterminator="\n")
    write_whole(folder / "summary.csv", lambda temporary: temporary.write_text(table, encoding="utf-8"))
    svg = save(degradation(summary), folder / "degradation")[1].read_text(encoding="utf-8")
    path = folder / "report.html"
    page = _page(study, summary, cells, runs, svg)
    write_whole(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
    return path


def _page(study: str, summary: pd.DataFrame, cells: pd.DataFrame, runs: list[dict], svg: str) -> str:
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"last_line": last_line, "printable": printable}
    machines = Counter(json.dumps([r.get(key) for key in MACHINE], sort_keys=True) for r in runs)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return environment.get_template("report.html.j2").render(
        study=study,
        runs=runs,
        about=_about(summary, runs),
        empty=summary.empty or not summary["ppl"].notna().any(),
        svg=Markup(drawing),
        tables=[_table(summary, protocol) for protocol in protocols_of(summary)],
        caveats=caveats(summary, cells, runs),
        rates=rates_of(runs),
        commands=_commands(cells, runs),
        machines=[(json.loads(machine), count) for machine, count in sorted(machines.items())],
    )


def _about(summary: pd.DataFrame, runs: list[dict]) -> list[str]:
    parts = [f"{len(runs)} run{'' if len(runs) == 1 else 's'}"]
    if len(summary):
        parts.append("schemes " + ", ".join(sorted(set(summary["scheme"]))))
        parts.append("trained at " + ", ".join(str(n) for n in sorted(set(summary["train_length"]))) + " tokens")
        parts.append("corpus " + ", ".join(sorted(set(summary["data"] + " (" + summary["split"] + ")"))))
    newest = max((str(r["date"]) for r in runs if r.get("date")), default="")
    return parts + ([f"newest run {newest}"] if newest else [])


def _commands(cells: pd.DataFrame, runs: list[dict]) -> list[str]:
    """Each command line that trained a run or computed a cell, once."""
    of_cells = cells["command"].dropna() if "command" in cells else []
    return sorted({command for command in [*(run.get("command") for run in runs), *of_cells] if command})


def _table(summary: pd.DataFrame, protocol: str) -> dict:
    curves = curves_of(summary, protocol)
    lengths, trained = _lengths(curves)
    rows = [(curve, {int(p["length"]): _cell(p) for p in curve.points.to_dict("records")}) for curve in curves]
    return {"protocol": protocol, "lengths": lengths, "trained": trained, "rows": rows}


def _cell(point: dict) -> dict:
    if pd.isna(point["ppl"]):
        return {"text": word(point["status"]), "ratio": "", "span": "", "gap": True}
    span = f"{number(point['ppl_low'])}–{number(point['ppl_high'])}" if point["seeds"] > 1 else ""
    ratio = "" if pd.isna(point["ratio"]) else f"×{number(point['ratio'])}"
    return {"text": number(point["ppl"]), "ratio": ratio, "span": span, "gap": False}


def _lengths(curves: list) -> tuple[list[int], set[int]]:
    return sorted({int(n) for c in curves for n in c.points["length"]}), {c.train_length for c in curves}

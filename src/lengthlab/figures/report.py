"""A study on one page: its figure, its tables and what limits them; and the table as plain text."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pandas as pd

from lengthlab.figures.colours import colour
from lengthlab.figures.curves import degradation, save
from lengthlab.figures.labels import CURVE, curves_of, number, printable, protocols_of, word
from lengthlab.figures.rates import rates_of

FEW = 30  # documents: below it a mean says more about these texts than about the language
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
    _write(folder / "summary.csv", summary.to_csv(index=False, lineterminator="\n"))
    svg = save(degradation(summary), folder / "degradation")[1].read_text(encoding="utf-8")
    path = folder / "report.html"
    _write(path, _page(study, summary, cells, runs, svg))
    return path


def caveats(summary: pd.DataFrame, cells: pd.DataFrame, runs: list[dict]) -> list[str]:
    """One sentence for each thing that limits the numbers, and none where nothing does."""
    found = _seeds(summary) if len(summary) else []
    if len(cells):
        cells = cells.sort_values(["scheme", "run", "protocol", "length"], kind="stable")
        done = cells[cells["status"] == "done"]
        found += _documents(done) + _dropped(cells) + _missing(cells) + _short(done) + _targets(cells)
    return found + _records(runs) + _differing(cells, runs)


def _seeds(summary: pd.DataFrame) -> list[str]:
    single = sorted(set(summary["scheme"][summary["ppl"].notna() & (summary["seeds"] == 1)]))
    some = _points(summary[summary["status"] == "partial"])
    found = [f"One seed only ({_list(single)}): how much another would differ is not known."] if single else []
    return found + ([f"Some seeds are missing: {', '.join(some)}."] if some else [])


def _documents(done: pd.DataFrame) -> list[str]:
    least = done.groupby("protocol")["documents_scored"].min()
    few = ", ".join(f"{protocol} {int(n)}" for protocol, n in least.items() if n < FEW)
    return [f"Fewer than {FEW} documents are scored ({few}): the numbers hold for these texts only."] * bool(few)


def _dropped(cells: pd.DataFrame) -> list[str]:
    found: dict[str, dict[str, list[int]]] = {}
    for protocol, dropped in cells[["protocol", "dropped"]].dropna().itertuples(index=False):
        for reason, count in json.loads(dropped).items():
            if count:
                found.setdefault(protocol, {}).setdefault(reason, []).append(count)
    sentences = []
    for protocol, reasons in sorted(found.items()):
        why = ", ".join(f"{_span(counts)} ({reason})" for reason, counts in sorted(reasons.items()))
        sentences.append(f"{protocol} leaves targets out, in each cell concerned: {why}.")
    return sentences


def _missing(cells: pd.DataFrame) -> list[str]:
    groups: dict[tuple, list[dict]] = {}
    for cell in cells[cells["status"] != "done"].to_dict("records"):
        key = tuple(cell[name] for name in ("scheme", "extension", "protocol", "status"))
        groups.setdefault(key, []).append(cell)
    sentences = []
    for (scheme, extension, protocol, status), group in groups.items():
        name = scheme if extension == "none" else f"{scheme} + {extension}"
        lengths = ", ".join(str(n) for n in sorted({cell["length"] for cell in group}))
        reason = next((f": {cell['reason'].rstrip('.')}" for cell in group if isinstance(cell["reason"], str)), "")
        who = _list(sorted({cell["run"] for cell in group}))
        sentences.append(f"{name} is {word(status)} at {lengths} ({protocol}; {who}){reason}.")
    return sentences


def _short(done: pd.DataFrame) -> list[str]:
    sentences = []
    for (protocol, length), rows in done[done["longest_context"] < done["length"]].groupby(["protocol", "length"]):
        fed, schemes = _span(rows["longest_context"]), _list(sorted(set(rows["scheme"])))
        sentences.append(f"{protocol} never reaches length {length}: the longest context is {fed} ({schemes}).")
    return sentences


def _targets(cells: pd.DataFrame) -> list[str]:
    """Names same_target cells whose targets are not those of most cells of their corpus, reach and block."""
    rows = cells[(cells["protocol"] == "same_target") & cells["target_hash"].notna()]
    groups: dict[tuple, list[dict]] = {}
    for cell in rows.to_dict("records"):
        key = tuple(str(cell.get(k)) for k in ("data", "split", "tokens_per_document", "reach", "block"))
        groups.setdefault(key, []).append(cell)
    sentences = []
    for _, group in sorted(groups.items()):
        usual = Counter(sorted(cell["target_hash"] for cell in group)).most_common(1)[0][0]
        odd = [cell for cell in group if cell["target_hash"] != usual]
        if odd:
            names = ", ".join(_points(pd.DataFrame(odd)))
            sentences.append(f"Not to be compared: {names} scored other targets than the rest of same_target.")
    return sentences


def _records(runs: list[dict]) -> list[str]:
    failed = [run for run in runs if run.get("status") == "failed"]
    found = [f"Run {run['run']} failed: {_last_line(run.get('error')).rstrip('.')}." for run in failed]
    for status, title in (("diverged", "Training diverged"), ("running", "Not finished")):
        names = [run["run"] for run in runs if run.get("status") == status]
        found += [f"{title}: {', '.join(names)}."] * bool(names)
    found += [f"{line}." for line in sorted({line for run in runs for line in run.get("audit") or []})]
    crossing = {f"{100 * run['train_blocks_crossing']:.2g}" for run in runs if run.get("train_blocks_crossing")}
    if crossing:
        share = " to ".join(sorted({min(crossing, key=float), max(crossing, key=float)}, key=float))
        found.append(f"{share} % of the training blocks cross from one document into another.")
    dirty = [run["run"] for run in runs if (run.get("git") or {}).get("dirty")]
    return found + [f"Made from code with uncommitted changes: {_list(dirty)}."] * bool(dirty)


def _differing(cells: pd.DataFrame, runs: list[dict]) -> list[str]:
    found = []
    for key in ("dtype", "eval_dtype", "threads"):
        trained = {str(run[key]) for run in runs if run.get(key) is not None}
        measured = set(cells[key].dropna().astype(str)) if key in cells else set()
        for what, values in (("Training", trained), ("Measurement", measured)):
            if len(values) > 1:
                differ = f"{key.removeprefix('eval_')} ({', '.join(sorted(values))})"
                found.append(f"{what} differs in {differ}: small differences may come from that.")
    return found


def _page(study: str, summary: pd.DataFrame, cells: pd.DataFrame, runs: list[dict], svg: str) -> str:
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"last_line": _last_line, "printable": printable}
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
        commands=sorted({r["command"] for r in runs if r.get("command")}),
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


def _table(summary: pd.DataFrame, protocol: str) -> dict:
    curves = curves_of(summary, protocol)
    lengths, trained = _lengths(curves)
    rows = [
        (curve, colour(curve.scheme), {int(p["length"]): _cell(p) for p in curve.points.to_dict("records")})
        for curve in curves
    ]
    return {"protocol": protocol, "lengths": lengths, "trained": trained, "rows": rows}


def _cell(point: dict) -> dict:
    if pd.isna(point["ppl"]):
        return {"text": word(point["status"]), "ratio": "", "span": "", "gap": True}
    span = f"{number(point['ppl_low'])}–{number(point['ppl_high'])}" if point["seeds"] > 1 else ""
    ratio = "" if pd.isna(point["ratio"]) else f"×{number(point['ratio'])}"
    return {"text": number(point["ppl"]), "ratio": ratio, "span": span, "gap": False}


def _lengths(curves: list) -> tuple[list[int], set[int]]:
    return sorted({int(n) for c in curves for n in c.points["length"]}), {c.train_length for c in curves}


def _points(rows: pd.DataFrame) -> list[str]:
    columns = ("scheme", "extension", "protocol", "length")
    points = sorted({tuple(row) for row in rows[list(columns)].itertuples(index=False)})
    return [f"{s}{'' if e == 'none' else f' + {e}'} at {n} ({p})" for s, e, p, n in points]


def _list(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _span(values) -> str:
    low, high = int(min(values)), int(max(values))
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _last_line(error: str | None) -> str:
    return (str(error or "").strip().splitlines() or [""])[-1]


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)

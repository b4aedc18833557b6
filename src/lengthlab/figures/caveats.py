"""What limits a study's numbers: one sentence for each thing that does."""

import json
from collections import Counter

import pandas as pd

from lengthlab.figures.labels import by_number, curves_of, protocols_of, word
from lengthlab.study.collect import flat
from lengthlab.study.identity import normalised

FEW = 30  # documents: below it a mean says more about these texts than about the language
# Settings in which schemes may differ: what the figure or `_differing` tells, and what no weight depends on.
NOT_COMPARED = ("code", "seed", "dtype", "train.length", "train.validate_every", "train.validation_tokens")


def caveats(summary: pd.DataFrame, cells: pd.DataFrame, runs: list[dict]) -> list[str]:
    """One sentence for each thing that limits the numbers, and none where nothing does."""
    found = _seeds(summary) if len(summary) else []
    if len(cells):
        cells = cells.sort_values(["scheme", "run", "protocol", "length"], kind="stable")
        done = cells[cells["status"] == "done"]
        found += _documents(done) + _dropped(cells) + _missing(cells) + _short(done) + _targets(cells)
    return found + _records(runs) + _training(runs) + _differing(cells, runs)


def _seeds(summary: pd.DataFrame) -> list[str]:
    curves = [curve for protocol in protocols_of(summary) for curve in curves_of(summary, protocol)]
    most = [(curve.scheme, curve.points["seeds"][curve.points["ppl"].notna()].max()) for curve in curves]
    single = sorted({scheme for scheme, seeds in most if seeds == 1})
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
    """One sentence per scheme, protocol, status and reason (of memory the first: its amounts differ by length)."""
    groups: dict[tuple, list[dict]] = {}
    for cell in cells[cells["status"] != "done"].to_dict("records"):
        reason = "" if cell["status"] == "out_of_memory" else _stem(cell["reason"])
        key = (*(cell[name] for name in ("scheme", "extension", "protocol", "status")), reason)
        groups.setdefault(key, []).append(cell)
    sentences = []
    for (scheme, extension, protocol, status, _), group in groups.items():
        name = scheme if extension == "none" else f"{scheme} + {extension}"
        lengths = ", ".join(str(n) for n in sorted({cell["length"] for cell in group}))
        reasons = list(dict.fromkeys(cell["reason"] for cell in group if isinstance(cell["reason"], str)))
        reason = f": {(reasons[0] if len(reasons) == 1 else _stem(reasons[0])).rstrip('.')}" if reasons else ""
        who = _list(sorted({cell["run"] for cell in group}))
        sentences.append(f"{name} is {word(status)} at {lengths} ({protocol}; {who}){reason}.")
    return sentences


def _stem(reason: str | None) -> str:
    """A reason without what holds at one length only."""
    return reason.partition(", a window needs")[0] if isinstance(reason, str) else ""


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
    found = [f"Run {run['run']} failed: {last_line(run.get('error')).rstrip('.')}." for run in failed]
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


def _training(runs: list[dict]) -> list[str]:
    """One sentence per setting whose values are not the same for every scheme; a ladder that all climb is fair."""
    trained: dict[str, list[dict]] = {}
    for run in runs:
        if run.get("training") and run.get("status") in ("done", "diverged"):
            options = flat(normalised(run["training"]))
            trained.setdefault(options["scheme.name"], []).append(options)
    keys = sorted({key for ladder in trained.values() for options in ladder for key in options})
    found = {}
    for key in keys:
        schemes: dict[tuple, list[str]] = {}  # by the values they were trained with
        for scheme, ladder in sorted(trained.items()):
            values = {_said(options.get(key)) for options in ladder}
            schemes.setdefault(tuple(sorted(values, key=by_number)), []).append(scheme)
        if len(schemes) > 1 and key not in NOT_COMPARED and not key.startswith(("scheme.", "positions.")):
            found[key] = schemes
    if "model.name" in found:
        found = {key: schemes for key, schemes in found.items() if key == "model.name" or not key.startswith("model.")}
    sentences = []
    for key, schemes in found.items():
        *first, last = (f"{' or '.join(values)} ({_list(names)})" for values, names in schemes.items())
        said = f"{key} is {', '.join(first)} and {last}"
        sentences.append(f"Trained differently: {said}: their curves differ by more than the scheme.")
    return sentences


def _said(value) -> str:
    if value is None:
        return "null"
    return value[:6] if isinstance(value, str) and len(value) == 64 else str(value)  # 64: a fingerprint


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


def last_line(error: str | None) -> str:
    return (str(error or "").strip().splitlines() or [""])[-1]


def _points(rows: pd.DataFrame) -> list[str]:
    columns = ("scheme", "extension", "protocol", "length")
    points = sorted({tuple(row) for row in rows[list(columns)].itertuples(index=False)})
    return [f"{s}{'' if e == 'none' else f' + {e}'} at {n} ({p})" for s, e, p, n in points]


def _list(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _span(values) -> str:
    low, high = int(min(values)), int(max(values))
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

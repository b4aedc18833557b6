"""Degradation curves: perplexity, and its ratio to the training length, over length for each protocol."""

from __future__ import annotations

import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lengthlab.figures.colours import marker
from lengthlab.figures.labels import Curve, curves_of, number, protocols_of
from lengthlab.figures.places import crowded, limits, plain_ticks, spread
from lengthlab.study.runs import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

HEADLINE = ("nonoverlapping", "same_target", "masked_nonoverlapping")
MEASURES = {"ppl": "perplexity", "ratio": "ratio to training length"}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#555555",
    "svg.fonttype": "none",
    "svg.hashsalt": "lengthlab",
}
LEFT, TOP, BETWEEN, AXIS = 0.58, 0.42, 0.2, 0.42  # inches: y labels, titles, rows, x labels
GAP = 0.19  # inches from a panel to its labels; the label's marker stands in it
GREY = "#777777"


def degradation(summary: pd.DataFrame) -> Figure:
    """The figure: perplexity above its ratio to the training length, `nonoverlapping` beside `same_target`.

    Other protocols are left to the tables where one of these two is there.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if set(HEADLINE) & set(protocols_of(summary)):
        summary = summary[summary["protocol"].isin(HEADLINE)]
    panels = {protocol: curves_of(summary, protocol) for protocol in protocols_of(summary)}
    drawn = [curve for curves in panels.values() for curve in curves]
    lengths = sorted({int(n) for c in drawn for n in c.points["length"]})
    ranges = {m: limits(drawn, m) for m in MEASURES if drawn and np.isfinite(summary[m]).any()}
    with rc_context(STYLE):
        figure = Figure(figsize=(7.5, 1.2), dpi=200)
        FigureCanvasAgg(figure)
        if not ranges:
            figure.text(0.5, 0.5, "No finite perplexity to draw.", ha="center", va="center", fontsize=8)
            return figure
        texts = {
            (m, p): [_label(figure, curve, m, ranges[m][1]) for curve in curves]
            for m in ranges
            for p, curves in panels.items()
        }
        note = _footnote(summary, ranges, drawn)
        for (measure, protocol), ax in _place(figure, texts, lengths, note).items():
            curves = panels[protocol]
            trained = sorted({c.train_length for c in curves})
            _draw(ax, curves, measure, ranges[measure], trained)
            _attach(ax, curves, texts[measure, protocol], measure)
            if measure == next(iter(ranges)):
                _head(ax, protocol, trained)
            left, below = protocol == next(iter(panels)), measure == list(ranges)[-1]
            ax.tick_params(labelleft=left, labelbottom=below)
            ax.set(xlabel="length (tokens)" if below else "", ylabel=MEASURES[measure] if left else "")
            ax.yaxis.set_label_coords(-0.36 / (ax.get_position().width * figure.get_figwidth()), 0.5)
    return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """Writes `stem`.png (200 dpi) and `stem`.svg (text as text), the same bytes for the same figure."""
    from matplotlib import rc_context

    paths = []
    for kind, undated in {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}.items():
        paths.append(stem.with_name(f"{stem.name}.{kind}"))
        drawn = partial(figure.savefig, format=kind, dpi=200, metadata=undated)
        with rc_context(STYLE):
            write_whole(paths[-1], drawn)
    return paths


def _size(text: Text) -> tuple[float, float]:
    """Width and height of a text, inches."""
    return tuple(text.get_window_extent().size / text.figure.dpi)


def _label(figure: Figure, curve: Curve, measure: str, top: float) -> Text:
    words, values = curve.label, curve.points[measure].dropna()
    if len(values) and values.max() > top:
        end = f" ↑ {number(values.iloc[-1])}" if values.iloc[-1] > top else f", peak {number(values.max())}"
        words += end + ("" if measure == "ppl" else "×")
    if measure == "ratio" and values.empty and curve.points["ppl"].notna().any():
        words += ": no cell at the training length"
    elif curve.ending():
        words += (": " if len(words + curve.ending()) < 28 else ":\n") + curve.ending()
    words = "\n".join(textwrap.fill(line, 30) for line in words.split("\n"))
    style = {"color": curve.tint, "fontsize": 6.5, "va": "center", "parse_math": False}
    return figure.text(0, 0, words, label="curve", **style)


def _place(figure: Figure, texts: dict, lengths: list[int], footnote: str) -> dict[tuple[str, str], Axes]:
    """Sizes the figure so that every label has its place, and adds the panels and the footnote."""
    measures, protocols = (list(dict.fromkeys(key[i] for key in texts)) for i in (0, 1))
    column = {p: max(_size(t)[0] for m in measures for t in texts[m, p]) + GAP + 0.12 for p in protocols}
    panel = min(3.6, max(1.9, (7.5 - LEFT - sum(column.values())) / len(protocols)))
    width = LEFT + sum(column.values()) + panel * len(protocols)
    height = max(2.3, *(sum(_size(t)[1] + 0.03 for t in stack) for stack in texts.values()))
    note = figure.text(0.1 / width, 0, "", fontsize=6, color="#555555", va="bottom", parse_math=False)
    note.set_text("\n".join(textwrap.wrap(footnote, int((width - 0.2) * 72 / 3.45))))
    below = (AXIS + 0.22 if crowded(lengths, panel) else AXIS) + _size(note)[1] + 0.1
    total = TOP + len(measures) * height + (len(measures) - 1) * BETWEEN + below
    figure.set_size_inches(width, total)
    note.set_y(0.06 / total)
    axes, left = {}, LEFT
    for p in protocols:
        for row, m in enumerate(reversed(measures)):
            bottom = below + row * (height + BETWEEN)
            axes[m, p] = figure.add_axes((left / width, bottom / total, panel / width, height / total))
        left += panel + column[p]
    return axes


def _draw(ax: Axes, curves: list[Curve], measure: str, span: tuple[float, float], trained: list[int]) -> None:
    for curve in sorted(curves, key=lambda c: (-c.weight, -c.points[measure].count())):
        points = curve.points
        length = points["length"].to_numpy(float)
        dashes = "-" if curve.extension == "none" else (0, (4, 1.6))
        values = points[measure].clip(upper=1000 * span[1]).to_numpy(float)  # infinity too leaves by the top
        ax.plot(length, values, ls=dashes, lw=0.8 + 1.2 * curve.weight, **_sign(curve))
        if measure == "ppl" and points["seeds"].max() > 1:
            band = [points[edge].clip(upper=1000 * span[1]).to_numpy(float) for edge in ("ppl_low", "ppl_high")]
            ax.fill_between(length, *band, color=curve.tint, alpha=0.18, lw=0)
    for length in trained:
        ax.axvline(length, color=GREY, lw=0.7, ls=(0, (3, 2)), zorder=1)
    if measure == "ratio":
        ax.axhline(1, color=GREY, lw=0.7, zorder=1)
    lengths = sorted({int(n) for c in curves for n in c.points["length"]})
    ax.set(yscale="log", ylim=span, axisbelow=True)
    ax.set_xscale("log", base=2)
    ax.set_xlim(min(lengths + trained) / 1.15, max(lengths + trained) * 1.15)
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ticks = plain_ticks(*span)
    ax.set_yticks(ticks, [f"{tick:,.6g}" for tick in ticks])
    ax.minorticks_off()
    ax.tick_params(length=2, width=0.6, color="#555555", labelsize=6.5)
    ax.grid(color="#e4e4e4", lw=0.5, zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    if crowded(lengths, ax.get_position().width * ax.figure.get_figwidth()):
        ax.tick_params(axis="x", labelrotation=90)


def _sign(curve: Curve) -> dict:
    """The marker of a curve, in the panel and at its label."""
    face = "white" if curve.hollow else curve.tint
    size = {"markersize": 2.4 + 2.6 * curve.weight, "markeredgewidth": 0.8}
    return {"color": curve.tint, "marker": marker(curve.scheme), "markerfacecolor": face, **size}


def _attach(ax: Axes, curves: list[Curve], texts: list[Text], measure: str) -> None:
    """Sets the labels beside the panel, each as near to the end of its curve as the others allow."""
    from matplotlib.lines import Line2D

    figure, (width, height) = ax.figure, ax.figure.get_size_inches()
    box, last = ax.get_position(), max(ax.get_xticks())
    known = [c.points[c.points[measure].notna()] for c in curves]
    # Of curves that leave by the top, or end together, the greater's label stands higher.
    order = sorted(range(len(curves)), key=lambda i: known[i][measure].iloc[-1] if len(known[i]) else 0)
    curves, texts, known = ([things[i] for i in order] for things in (curves, texts, known))
    ends = [(p["length"].iloc[-1], p[measure].iloc[-1]) if len(p) else (last, 0) for p in known]
    inside = [(x, min(max(y, ax.get_ylim()[0]), ax.get_ylim()[1])) for x, y in ends]
    marks = figure.transFigure.inverted().transform(ax.transData.transform(inside))
    sizes = [(_size(text)[1] + 0.02) / height for text in texts]
    centres = spread([y for _, y in marks], sizes, box.y0 - 0.06 / height, box.y1 + 0.06 / height)
    for curve, text, end, mark, y in zip(curves, texts, ends, marks, centres, strict=True):
        x = box.x1 + GAP / width
        text.set_position((x, y))
        if curve.points[measure].isna().all():
            continue
        whole = {"transform": figure.transFigure}
        figure.add_artist(Line2D([x - 0.06 / width], [y], lw=0, **_sign(curve), **whole))
        if len(ax.get_xticks()) > 1 and ax.get_ylim()[0] <= end[1] <= ax.get_ylim()[1]:
            whole |= {"color": curve.tint, "lw": 0.5, "alpha": 0.6}
            edge = mark[0]
            if end[0] < last:  # level, for a slope would look like data
                edge = box.x1 + 0.02 / width
                figure.add_artist(Line2D([mark[0], edge], [mark[1]] * 2, **whole | {"ls": (0, (1, 3)), "lw": 0.7}))
            figure.add_artist(Line2D([edge, x - 0.1 / width], [mark[1], y], **whole))


def _head(ax: Axes, protocol: str, trained: list[int]) -> None:
    """The panel's name, and above each dashed line the length it stands for."""
    figure, (width, height), box = ax.figure, ax.figure.get_size_inches(), ax.get_position()
    figure.text(box.x0, box.y1 + 0.2 / height, protocol, fontsize=8, va="bottom", parse_math=False)
    style = {"fontsize": 6, "color": GREY, "ha": "center", "va": "bottom"}
    texts = [figure.text(0, box.y1 + 0.05 / height, f"trained at {n}", **style) for n in trained]
    lines = figure.transFigure.inverted().transform(ax.transData.transform([(n, 1) for n in trained]))
    sizes = [(_size(text)[0] + 0.06) / width for text in texts]
    for text, x in zip(texts, spread([x for x, _ in lines], sizes, box.x0, 1), strict=True):
        text.set_x(x)


def _footnote(summary: pd.DataFrame, ranges: dict, curves: list[Curve]) -> str:
    known = summary[summary["ppl"].notna()]
    seeds = " to ".join(dict.fromkeys(str(int(n)) for n in (known["seeds"].min(), known["seeds"].max())))
    note = "One seed." if seeds == "1" else f"{seeds} seeds: lines are means, bands the lowest and highest."
    corpora = dict.fromkeys(known["data"] + ", " + known["split"] + " split")
    note += f" Corpus: {'; '.join(sorted(corpora))}. Targets scored at each length, per seed: "
    counts = {p: known["targets"][known["protocol"] == p] for p in protocols_of(known)}
    spans = {p: dict.fromkeys(f"{int(n):,}" for n in (c.min(), c.max())) for p, c in counts.items()}
    note += "; ".join(f"{p} {' to '.join(span)}" for p, span in spans.items()) + "."
    if any(c.points[m].max() > high for m, (_, high) in ranges.items() for c in curves):
        note += " A curve marked ↑ leaves by the top; the number is its value at its longest length."
    longest = summary.groupby("protocol")["length"].max()
    ends = [c.points[c.points["ppl"].notna()].iloc[-1] for c in curves if c.points["ppl"].notna().any()]
    if any(end["length"] < longest[end["protocol"]] for end in ends):
        note += " A dotted line leads from the end of a shorter curve to its label."
    return note

"""The degradation figure: what is joined, what is a gap, and that every label can be read."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

from lengthlab.figures import colour, degradation, marker, save
from lengthlab.figures.labels import curves_of
from lengthlab.figures.places import limits

LENGTHS = [64, 128, 256, 512, 1024, 2048]
SLOPES = {"alibi": -0.02, "rope": 0.4, "nope": 0.25, "sinusoidal": 1.1, "learned": np.nan}


def summary(schemes=SLOPES, protocols=("nonoverlapping", "same_target"), lengths=LENGTHS, **change):
    """Made-up curves: nll grows by the scheme's slope per octave; NaN is undefined past 64."""
    rows = []
    for scheme, protocol, length in itertools.product(schemes, protocols, lengths):
        rise = SLOPES.get(scheme, 0.01 * len(scheme)) * np.log2(length / 64) if length > 64 else 0.0
        ratio, ppl = np.exp(rise), 20 * np.exp(rise)
        row = {
            "scheme": scheme, "positions": "plain", "extension": "none", "train_length": 64, "data": "novels",
            "split": "val", "protocol": protocol, "length": length, "seeds": 1, "targets": 4096,
            "status": "undefined" if np.isnan(ppl) else "done", "nll": np.log(ppl), "ppl": ppl,
            "ppl_low": ppl, "ppl_high": ppl, "ratio": ratio, "bits_per_byte": 1.0, "stride": None,
            "reach": 2048 if protocol == "same_target" else None, "block": None, "tokens_per_document": None,
        }  # fmt: skip
        rows.append(row | change)
    nullable = ["stride", "reach", "block", "tokens_per_document"]
    return pd.DataFrame(rows).astype(dict.fromkeys(nullable, "Int64"))


def labels(figure):
    return [text for text in figure.texts if text.get_label() == "curve"]


def words(figure):
    return {text.get_text().replace("\n", " ") for text in figure.texts}


CASES = {
    "five schemes": summary(),
    "one scheme": summary(["rope"]),
    "twelve schemes": summary([f"scheme_{i}" for i in range(12)]),
    "thirty schemes at one value": summary([f"s{i:02d}" for i in range(30)], lengths=[64]),
    "three protocols": summary(protocols=("same_target", "sliding", "nonoverlapping")),
    "two training lengths": pd.concat([summary(), summary(train_length=256)]),
    "twelve variants": pd.concat([summary(["rope"], variant=f"train.lr={i}e-05") for i in range(1, 13)]),
    "an extension": pd.concat([summary(["rope"]), summary(["rope"], extension="yarn", ppl=22.0)]),
    "long and strange names": summary(["x" * 90, "$a_b$ <i>&", "line\nbreak\x1b[0m"]),
    "many lengths": summary(lengths=[n * 64 for n in range(1, 30)]),
    "infinite": pd.concat([summary(["alibi"]), summary(["rope"], ppl=np.inf, ppl_high=np.inf, ratio=np.inf)]),
    "seeds": summary(seeds=3, ppl_low=15.0, ppl_high=40.0),
    "no training length": summary(lengths=[128, 256], ratio=np.nan),
}


@pytest.mark.parametrize("frame", CASES.values(), ids=CASES.keys())
def test_labels_never_overlap_and_nothing_is_cut_off(frame):
    figure = degradation(frame)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in labels(figure)]
    panels = [ax.get_window_extent() for ax in figure.axes]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert not any(box.overlaps(panel) for box, panel in itertools.product(boxes, panels))
    ticks = [t for ax in figure.axes for t in (*ax.get_xticklabels(), ax.xaxis.label, ax.yaxis.label) if t.get_text()]
    footnote = figure.texts[-1] if not labels(figure) else next(t for t in figure.texts if "Corpus" in t.get_text())
    for text in [*figure.texts, *(t for t in ticks if t.get_visible())]:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text
    assert not any(ax.xaxis.label.get_window_extent().overlaps(footnote.get_window_extent()) for ax in figure.axes)


def test_ticks_are_the_lengths_and_numbers_are_plain():
    for ax in degradation(summary(lengths=[64, 100, 3000])).axes:
        assert list(ax.get_xticks()) == [64, 100, 3000]
        assert [t.get_text() for t in ax.get_xticklabels()] in (
            ["64", "100", "3000"],
            [],
        )  # [] in the top row
        assert not len(ax.get_xticks(minor=True)) and not any("10^" in t.get_text() for t in ax.get_yticklabels())


def test_undefined_is_a_gap_and_a_word():
    figure = degradation(summary(["learned"]))
    line = next(line for line in figure.axes[0].lines if line.get_marker() == marker("learned"))
    assert np.isfinite(line.get_ydata()).tolist() == [True] + [False] * 5
    assert "learned: undefined past 64" in words(figure)


def test_memory_and_divergence_are_named():
    frame = summary(["rope"], ["sliding"])
    frame.loc[frame["length"] == 256, ["ppl", "ratio", "status"]] = [np.nan, np.nan, "out_of_memory"]
    assert "rope: out of memory at 256" in words(degradation(frame))
    frame.loc[frame["length"] >= 256, ["ppl", "ratio", "status"]] = [np.nan, np.nan, "diverged"]
    assert "rope: diverged past 128" in words(degradation(frame))


def test_curves_of_different_parameters_are_never_joined():
    frame = pd.concat([summary(["rope"], ["same_target"]), summary(["rope"], ["same_target"], reach=4096)])
    assert [c.label for c in curves_of(frame, "same_target")] == ["rope, reach 2048", "rope, reach 4096"]
    with pytest.raises(ValueError, match="'rope'.*two points at length 64"):
        degradation(pd.concat([summary(["rope"])] * 2))


def test_labels_name_what_differs_and_only_that():
    frame = pd.concat([CASES["an extension"], summary(["rope"], train_length=256)])
    assert [c.label for c in curves_of(frame, "sliding")] == []
    names = [c.label for c in curves_of(frame, "nonoverlapping")]
    assert names == ["rope, L=64", "rope, L=256", "rope + yarn, L=64"]
    assert {"trained at 64", "trained at 256"} <= words(degradation(frame))


RATES = ["3e-05", "0.001", "0.01", "0.1"]
LADDER = pd.concat([summary(["rope"], variant=f"train.lr={rate}", ppl=20.0 + i) for i, rate in enumerate(RATES)])
THREE = pd.concat([summary(["alibi", "rope", "learned"], train_length=n) for n in (16, 64, 512)])


def lines(figure, scheme, panel=0):
    """A scheme's curves in a panel, by training length and variant; grid and helper lines have no marker."""
    return [line for line in figure.axes[panel].lines if line.get_marker() == marker(scheme)]


def test_variants_stand_by_number_and_each_has_its_own_shade():
    curves = curves_of(LADDER.sample(frac=1, random_state=0), "nonoverlapping")
    assert [c.label for c in curves] == [f"rope, train.lr={rate}" for rate in RATES]
    assert [c.hollow for c in curves] == [False, True, False, True] and {c.weight for c in curves} == {0.25}
    figure = degradation(LADDER)
    drawn = {(line.get_color(), line.get_markerfacecolor()) for line in lines(figure, "rope")}
    assert drawn == {(c.tint, "white" if c.hollow else c.tint) for c in curves} and len(drawn) == 4
    assert {t.get_text(): t.get_color() for t in labels(figure)} == {c.label: c.tint for c in curves}


def test_a_variant_keeps_its_shade_at_every_training_length_and_a_lone_curve_its_schemes_colour():
    both = pd.concat([LADDER, LADDER.assign(train_length=256)])
    tints = {c.label: c.tint for c in curves_of(both, "nonoverlapping")}
    assert all(tints[f"rope, L=64, train.lr={rate}"] == tints[f"rope, L=256, train.lr={rate}"] for rate in RATES)
    extended = curves_of(CASES["an extension"], "nonoverlapping")
    assert [c.tint for c in extended] == [colour("rope")] * 2


def test_a_longer_training_length_is_a_heavier_line_and_a_larger_marker():
    for scheme in ("alibi", "rope"):
        drawn = sorted(lines(degradation(THREE), scheme), key=lambda line: line.get_linewidth())
        widths, sizes = ([getattr(line, f"get_{what}")() for line in drawn] for what in ("linewidth", "markersize"))
        assert len(drawn) == 3 and min(np.diff(widths)) > 0.5 and min(np.diff(sizes)) > 1
        assert {line.get_color() for line in drawn} == {colour(scheme)}
    curves = {c.train_length: c.weight for c in curves_of(THREE, "nonoverlapping")}
    assert curves == {16: 0, 64: 0.5, 512: 1}


def leaders(figure):
    """Lines between panels and labels: what the figure itself holds and has no marker."""
    return [artist for artist in figure.artists if artist.get_marker() in ("", "None", None)]


def test_one_length_has_no_leaders_and_several_lead_from_each_end():
    assert not leaders(degradation(summary(lengths=[64])))
    figure = degradation(summary(["alibi", "nope"]))
    assert len(leaders(figure)) == 2 * len(figure.axes)


def test_a_curve_that_ends_early_is_led_level_across_the_panel_to_its_label():
    figure = degradation(summary(["alibi", "learned"], ["nonoverlapping"]))
    (level, last) = [line for line in leaders(figure) if line.get_color() == colour("learned")][:2]
    ax, text = figure.axes[0], [t for t in labels(figure) if t.get_text().startswith("learned")][-1]
    start = figure.transFigure.inverted().transform(ax.transData.transform((64, 1)))  # the ratio's panel
    assert np.allclose([level.get_xdata()[0], *level.get_ydata()], [start[0], start[1], start[1]])
    assert level.get_xdata()[1] == last.get_xdata()[0] > ax.get_position().x1
    assert last.get_ydata()[1] == text.get_position()[1] and last.get_linestyle() == "-" != level.get_linestyle()
    assert any("dotted line leads" in words_ for words_ in words(figure))
    assert not any("dotted" in words_ for words_ in words(degradation(summary(["alibi", "rope"]))))


def test_of_curves_that_leave_by_the_top_the_greater_stands_higher():
    frame = pd.concat([summary(["alibi"]), *(summary(["rope"], train_length=n, ppl=9e5 / n) for n in (16, 32, 64))])
    texts = [t for t in labels(degradation(frame)) if "↑" in t.get_text() and "×" not in t.get_text()]
    top = sorted(texts[:3], key=lambda t: -t.get_position()[1])
    assert [t.get_text().split(" ↑")[0] for t in top] == ["rope, L=16", "rope, L=32", "rope, L=64"]


def titles(figure):
    """The names of the columns, from left to right."""
    found = [t for t in figure.texts if t.get_text() in ("nonoverlapping", "sliding", "same_target")]
    return [t.get_text() for t in sorted(found, key=lambda t: t.get_position()[0])]


def test_the_headline_is_nonoverlapping_beside_same_target_without_empty_panels():
    both = degradation(summary(protocols=("same_target", "sliding", "nonoverlapping")))
    assert titles(both) == ["nonoverlapping", "same_target"] and len(both.axes) == 4
    one = degradation(summary(protocols=("same_target", "sliding")))
    assert titles(one) == ["same_target"] and len(one.axes) == 2
    assert titles(degradation(summary(protocols=("sliding",)))) == ["sliding"]


def test_panels_of_a_row_share_their_axis():
    top, bottom = (degradation(summary()).axes[i::2] for i in (0, 1))
    for row in (top, bottom):
        assert len({ax.get_ylim() for ax in row}) == 1


def test_an_exploding_curve_leaves_by_the_top_and_says_so():
    frame = summary()
    low, high = limits(curves_of(frame, "nonoverlapping"), "ppl")
    assert high < 3.6 * 20 and low < 20  # three times the best curve's worst point, and a margin
    assert "sinusoidal ↑ 4,894" in words(degradation(frame))
    assert any("leaves by the top" in text for text in words(degradation(frame)))
    assert not any("leaves by the top" in text for text in words(degradation(summary(["alibi", "nope"]))))


def test_footnote_says_how_many_seeds_and_targets():
    assert any(re.search("One seed.*novels, val split.*same_target 4,096", t) for t in words(degradation(summary())))
    assert any("3 seeds" in t for t in words(degradation(summary(seeds=3))))


def test_nothing_to_draw_is_a_sentence():
    for frame in (summary().iloc[:0], pd.DataFrame(), summary(["learned"], lengths=[128])):
        assert words(degradation(frame)) == {"No finite perplexity to draw."}


def test_same_figure_same_bytes(tmp_path):
    first = [path.read_bytes() for path in save(degradation(summary()), tmp_path / "a")]
    second = [path.read_bytes() for path in save(degradation(summary().sample(frac=1, random_state=1)), tmp_path / "b")]
    assert first == second
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg", "b.png", "b.svg"]
    assert b"<text" in first[1] and b"dc:date" not in first[1]

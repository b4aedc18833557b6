"""What the curves of a study are, and how each is called and drawn among those of its protocol."""

import re
from dataclasses import dataclass

import pandas as pd

from lengthlab.figures.colours import colour, shade

PROTOCOLS = ("nonoverlapping", "sliding", "same_target", "masked_nonoverlapping")
# What makes a curve: points that differ in any of these (of which OPTIONAL may be absent) are never joined.
# The text names it in a label, where curves differ in it.
CURVE = {
    "scheme": "{}",
    "extension": "{}",
    "positions": "{} positions",
    "train_length": "L={}",
    "data": "{}",
    "split": "{}",
    "stride": "stride {}",
    "reach": "reach {}",
    "block": "block {}",
    "tokens_per_document": "{} tokens per document",
    "variant": "{}",
    "eval_dtype": "{}",
    "draws": "{} draws",
    "mask_seed": "mask seed {}",
}
OPTIONAL = ("variant", "eval_dtype", "draws", "mask_seed")
WORDS = {"out_of_memory": "out of memory"}


@dataclass(frozen=True)
class Curve:
    """The points of one line, by length; `label` names it among the curves of its protocol."""

    label: str
    scheme: str
    extension: str
    train_length: int
    tint: str  # its scheme's colour, or a shade of it where the scheme has variants
    hollow: bool  # its markers: every other variant of a scheme
    weight: float  # of its line and markers, from 0 for the shortest training length to 1 for the longest
    points: pd.DataFrame

    def ending(self) -> str:
        """Why points are missing: "undefined past 64", "out of memory at 512", or nothing."""
        known = self.points["ppl"].notna()
        missing = self.points[~known]
        if missing.empty or not known.any():
            return "" if missing.empty else word(missing["status"].iloc[0])
        last = self.points["length"][known].max()
        after = missing[missing["length"] > last]
        if len(after):
            return f"{word(after['status'].iloc[0])} past {last}"
        return f"{word(missing['status'].iloc[0])} at {', '.join(map(str, missing['length']))}"


def word(status: str) -> str:
    """A status as it is read: "out of memory"."""
    return WORDS.get(status, status)


def number(value: float) -> str:
    """A perplexity or ratio in few digits: 23.41, 5,120, 1.2e+07."""
    if value >= 1e6:
        return f"{value:.1e}"
    return f"{value:,.{2 if value < 100 else 1 if value < 1000 else 0}f}"


def printable(text: str) -> str:
    """`text` without control characters: neither a terminal nor an SVG may meet them."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def protocols_of(summary: pd.DataFrame) -> list[str]:
    """The protocols present, in the order of the figure."""
    present = [] if summary.empty else sorted(summary["protocol"].unique())
    return sorted(present, key=lambda p: PROTOCOLS.index(p) if p in PROTOCOLS else len(PROTOCOLS))


def curves_of(summary: pd.DataFrame, protocol: str) -> list[Curve]:
    """The curves of one protocol by name. ValueError where a curve has two points at one length."""
    if summary.empty:
        return []
    rows = summary[summary["protocol"] == protocol].sort_values("length", kind="stable")
    groups: dict[tuple, list[int]] = {}
    names = [name for name in CURVE if name in rows or name not in OPTIONAL]
    for place, values in enumerate(rows[names].itertuples(index=False)):
        groups.setdefault(tuple((pd.isna(v), "" if pd.isna(v) else v) for v in values), []).append(place)
    order = sorted(groups, key=lambda key: (key[0], key[1][1] != "none", [by_number(v) for _, v in key]))
    varying = [name for i, name in enumerate(names) if i > 1 and len({key[i] for key in groups}) > 1]
    looks = _looks(order, names.index("train_length"))
    curves = []
    for key in order:
        value = {name: None if gone else v for name, (gone, v) in zip(names, key, strict=True)}
        label = _name(value, varying)
        points = rows.iloc[groups[key]].reset_index(drop=True)
        twice = points["length"][points["length"].duplicated()]
        if len(twice):
            raise ValueError(
                f"curve '{label}' ({protocol}) has two points at length {twice.iloc[0]}: average seeds first"
            )
        which = (value["scheme"], value["extension"], int(value["train_length"]))
        curves.append(Curve(printable(label), *which, *looks[key], points))
    return curves


def _name(value: dict, varying: list[str]) -> str:
    """Scheme and extension, and what else curves differ in."""
    name = value["scheme"] + (f" + {value['extension']}" if value["extension"] != "none" else "")
    for key in varying:
        if value[key] not in (None, ""):
            shown = value[key] if isinstance(value[key], str) else int(value[key])
            name += ", " + CURVE[key].format(shown)
    return name


def _looks(keys: list[tuple], train_length: int) -> dict[tuple, tuple[str, bool, float]]:
    """Tint, hollow and weight of each curve; `train_length` is that value's place in a key.

    Variants share the hue of their scheme; those with an extension, drawn dashed, are shaded apart from those without.
    """
    trained = sorted({key[train_length] for key in keys})
    variants: dict[tuple, list[tuple]] = {}
    family = {key: (key[0], key[1][1] == "none") for key in keys}
    variant = {key: key[1:train_length] + key[train_length + 1 :] for key in keys}
    for key in keys:
        known = variants.setdefault(family[key], [])
        known += [variant[key]] * (variant[key] not in known)
    looks = {}
    for key in keys:
        known = variants[family[key]]
        rank = known.index(variant[key])
        weight = trained.index(key[train_length]) / (len(trained) - 1) if len(trained) > 1 else 0.25
        looks[key] = shade(colour(key[0][1]), rank, len(known)), rank % 2 == 1, weight
    return looks


def by_number(value) -> list:
    """A sort key by which 3e-05 stands before 0.001, and v2 before v10."""
    pieces = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", str(value))
    return [float(piece) if i % 2 else piece for i, piece in enumerate(pieces)]

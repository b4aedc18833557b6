"""From sums to the numbers people quote: nll, perplexity, bits per byte, and the ratio to the training length."""

import numpy as np
import pandas as pd

CURVE = [
    "scheme", "variant", "positions", "extension", "train_length", "data", "split", "tokens_per_document",
    "protocol", "stride", "reach", "block", "eval_dtype", "draws", "mask_seed",
]  # fmt: skip
"""What must agree for cells to be points of one curve, seeds and lengths apart. `variant` names every other difference
in how runs were trained; a null `stride` means half of each length."""

POINT = ["status", "seeds", "targets", "nll", "ppl", "ppl_low", "ppl_high", "ratio", "bits_per_byte"]


def per_run(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run and cell from `collect`'s frame: its sums over documents and parts, and its mean nll in nats."""
    keys = [*CURVE, "length", "run", "cell", "seed", "status", "reason", "target_hash"]
    cells = frame.groupby(keys, as_index=False, sort=True, dropna=False)[["targets", "nll", "bytes"]].sum()
    done = cells.status == "done"
    cells["mean_nll"] = (cells.nll / cells.targets).where(done & (cells.targets > 0))
    cells["bits_per_byte"] = (cells.nll / cells.bytes / np.log(2)).where(done & (cells.bytes > 0))
    return cells


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per point of a curve, seeds averaged in nll.

    Columns: CURVE, length, status (`partial`: done for some of the curve's runs only), seeds (that are averaged),
    targets (per seed), nll (mean nats per target), ppl = exp(nll), ppl_low and ppl_high (least and greatest seed),
    ratio (to the same runs' ppl at train_length), bits_per_byte.
    """
    columns = [*CURVE, "length", *POINT]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    cells = _strides(per_run(frame))
    trained = cells[cells.length == cells.train_length][[*CURVE, "run", "mean_nll"]]
    cells = cells.merge(trained, on=[*CURVE, "run"], how="left", suffixes=("", "_trained"))
    of_curve = cells.groupby(CURVE, dropna=False).run.transform("nunique")
    points = cells.assign(of_curve=of_curve).groupby([*CURVE, "length"], sort=True, dropna=False)
    rows = [{**dict(zip([*CURVE, "length"], key, strict=True)), **_point(group)} for key, group in points]
    return pd.DataFrame(rows, columns=columns)


def _strides(cells: pd.DataFrame) -> pd.DataFrame:
    """Sliding cells by the rule that makes them one curve: half of each length (null), or one stride for all."""
    half = cells.stride == np.maximum(1, cells.length // 2)
    curves = pd.MultiIndex.from_frame(cells[["run", *CURVE]].astype(str))
    fixed = curves.isin(curves[cells.stride.notna() & ~half])
    return pd.concat([cells.assign(stride=cells.stride.mask(half)), cells[half & fixed]], ignore_index=True)


def _point(cells: pd.DataFrame) -> dict:
    done = cells[cells.status == "done"]
    nll = done.mean_nll.mean()
    if done.empty:
        status = "diverged" if (cells.status == "diverged").any() else cells.status.iloc[0]
    else:
        status = "done" if len(done) == cells.of_curve.iloc[0] else "partial"
    return {
        "status": status,
        "seeds": (cells if done.empty else done).seed.nunique(),
        "targets": int(cells.targets.max()),
        "nll": nll,
        "ppl": np.exp(nll),
        "ppl_low": np.exp(done.mean_nll.min()),
        "ppl_high": np.exp(done.mean_nll.max()),
        "ratio": np.exp((done.mean_nll - done.mean_nll_trained).mean()),
        "bits_per_byte": done.bits_per_byte.mean(),
    }

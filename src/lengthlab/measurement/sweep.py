"""Run a model over the windows of one cell; the result is sums of nll per document, part, position and context."""

import math
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from lengthlab.measurement.ledger import PART, Placed, Plan, edges, lower_edge
from lengthlab.model import GPT, Positions, generator_of
from lengthlab.schemes import Scheme
from lengthlab.schemes.extensions import Extension
from lengthlab.training import autocast
from lengthlab.training.objective import IGNORED

KEYS = ["document", "part", "position", "context"]
SUMS = ["targets", "nll", "bytes"]
LOGITS = 1 << 25
"""Logits held at once by the output head; more targets are scored in chunks."""


class Reading(NamedTuple):
    """What came of a cell: rows (KEYS and SUMS: int targets, float64 summed nats, int bytes), status and its reason.

    Status is `done` (reason None) or, with no rows, `undefined`, `out_of_memory` or `diverged`. `sd_over_draws` is the
    standard deviation (n - 1) of the cell's mean nll over the draws of its positions; None below two draws.
    """

    rows: pd.DataFrame
    status: str
    reason: str | None = None
    sd_over_draws: float | None = None


class Reader:
    """A trained model with what is needed to read text with it: positions, BOS, bytes per token, dtype.

    Where `positions` are random, every window is read with each of `draws` draws, and the nll of a target is the mean.
    A draw is made of its index, the window's size and `draw_seed` alone: windows of one size share it, whatever they
    are batched with. `mask` is the token that stands for a masked one, for bidirectional models; None: causal.
    """

    def __init__(
        self,
        model: GPT,
        positions: Positions,
        bos: int,
        token_bytes: np.ndarray,
        train_length: int,
        dtype: torch.dtype = torch.float32,
        tokens_per_batch: int = 16384,
        draws: int = 1,
        draw_seed: int = 0,
        mask: int | None = None,
    ):
        self.model, self.positions, self.bos, self.token_bytes = model, positions, bos, token_bytes
        self.train_length, self.dtype, self.tokens_per_batch = train_length, dtype, tokens_per_batch
        self.draws, self.draw_seed = draws if positions.random else 1, draw_seed
        self.mask, self.device = mask, model.embedding.weight.device

    def nothing(self, status: str, reason: str) -> Reading:
        """A cell without rows: why there is no number."""
        return Reading(_frame([]), status, reason)

    def measure(
        self, plan: Plan, extension: Extension, progress: Callable[[int], object] = lambda tokens: None
    ) -> Reading:
        """Read a cell's windows; `progress` hears of the tokens of the text fed, once whatever the number of draws."""
        trained = self.model.scheme
        scheme = extension.wrap(trained, plan.protocol.length)
        reason = self._undefined(plan, scheme)
        if reason:
            return self.nothing("undefined", reason)
        self.model.scheme = scheme
        try:
            rows, sd = self._read(plan, scheme, progress)
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            return self.nothing("out_of_memory", (str(error) or type(error).__name__).splitlines()[0])
        finally:
            self.model.scheme = trained
        if not np.isfinite(rows.nll).all():
            return self.nothing("diverged", "the model's nll is not finite")
        return Reading(rows, "done", None, sd)

    def _undefined(self, plan: Plan, scheme: Scheme) -> str | None:
        longest = max((placed.window.fed for placed in plan.windows), default=0)
        if scheme.horizon is None or not longest:
            return None
        last = math.ceil(max(numbers.max().item() for numbers in self._numbers(longest)))
        if last < scheme.horizon:
            return None
        return f"positions are learned up to {scheme.horizon - 1}, a window needs {last}"

    def _numbers(self, size: int) -> list[torch.Tensor]:
        """The numbers of a window of `size` tokens, draw by draw."""
        generators = (generator_of(self.draw_seed, draw, size) for draw in range(self.draws))
        return [self.positions.numbers(size, generator).to(self.device) for generator in generators]

    @torch.inference_mode()
    def _read(self, plan: Plan, scheme: Scheme, progress: Callable[[int], object]) -> tuple[pd.DataFrame, float | None]:
        self.model.eval()
        bins = edges(max([plan.protocol.length, *(plan.kept(text) for text in plan.texts)]), self.train_length)
        pieces, targets, of_draws = [], 0, np.zeros(self.draws)
        for batch in self._batches(plan):
            fed = batch[0].window.fed
            scheme.extend(fed)
            nll = self._score(plan, batch)
            pieces.append(self._rows(plan, batch, nll.mean(axis=0), bins))
            targets, of_draws = targets + nll.shape[1], of_draws + nll.sum(axis=1)
            progress(fed * len(batch))
        sd = float((of_draws / targets).std(ddof=1)) if self.draws > 1 and targets else None
        return _frame(pieces), sd

    def _batches(self, plan: Plan) -> Iterator[list[Placed]]:
        """Windows of one size at a time, the longest first, as many together as the budget of tokens allows."""
        size = lambda placed: -placed.window.fed  # noqa: E731
        for _, same_size in groupby(sorted(plan.windows, key=size), key=size):
            windows = list(same_size)
            count = max(1, self.tokens_per_batch // windows[0].window.fed)
            for first in range(0, len(windows), count):
                yield windows[first : first + count]

    def _score(self, plan: Plan, batch: list[Placed]) -> np.ndarray:
        """nll (draws, targets; float64 nats) of a batch of equally long windows, their targets window after window."""
        windows = [self._window(plan, placed) for placed in batch]
        inputs, wanted = (torch.from_numpy(np.stack(rows)).to(self.device) for rows in zip(*windows, strict=True))
        return np.stack([self._nll(inputs, wanted, pos) for pos in self._numbers(batch[0].window.fed)])

    def _nll(self, inputs: torch.Tensor, wanted: torch.Tensor, pos: torch.Tensor) -> np.ndarray:
        """nll of what is `wanted` (B, fed; IGNORED: nothing) where `inputs` (B, fed) are read with numbers `pos`."""
        scored = wanted != IGNORED
        with autocast(self.device, self.dtype):
            hidden = self.model.hidden(inputs, pos)[scored]
            chunk = max(1, LOGITS // self.model.vocab)
            nll = [
                F.cross_entropy(self.model.logits(states).float(), targets, reduction="none")
                for states, targets in zip(hidden.split(chunk), wanted[scored].split(chunk), strict=True)
            ]
        return torch.cat(nll).double().cpu().numpy()

    def _window(self, plan: Plan, placed: Placed) -> tuple[np.ndarray, np.ndarray]:
        """What is fed, and what is asked for where it is fed, both (fed) int64; x_0 is BOS."""
        tokens, window, targets = plan.texts[placed.document].tokens, placed.window, plan.targets(placed)
        fed = tokens[max(0, window.start - 1) : window.stop - 1].astype(np.int64)
        fed = fed if window.start else np.concatenate(([self.bos], fed))
        places = targets - window.start  # of the target itself, where it is masked, or of the token before it
        if self.mask is None:
            places = places - 1
        else:
            fed[places] = self.mask
        wanted = np.full_like(fed, IGNORED)
        wanted[places] = tokens[targets - 1]
        return fed, wanted

    def _rows(self, plan: Plan, batch: list[Placed], nll: np.ndarray, bins: np.ndarray) -> pd.DataFrame:
        of_windows = [plan.targets(placed) for placed in batch]
        targets, counts = np.concatenate(of_windows), [len(of_window) for of_window in of_windows]
        part = (targets - 1) // PART
        token = np.concatenate(
            [plan.texts[p.document].tokens[t - 1].astype(np.int64) for p, t in zip(batch, of_windows, strict=True)]
        )
        return _summed(
            pd.DataFrame(
                {
                    "document": np.repeat([plan.texts[p.document].id for p in batch], counts),
                    "part": part,
                    "position": np.maximum(lower_edge(targets, bins), part * PART + 1),
                    "context": lower_edge(np.concatenate([plan.contexts(placed) for placed in batch]), bins),
                    "targets": np.ones(len(targets), dtype=np.int64),
                    "nll": nll,
                    "bytes": self.token_bytes[token],
                }
            )
        )


def _summed(rows: pd.DataFrame) -> pd.DataFrame:
    # A NaN must stay one: pandas would leave it out of the sum.
    return rows.groupby(KEYS, as_index=False, sort=True)[SUMS].sum(skipna=False)


def _frame(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    if pieces:
        return _summed(pd.concat(pieces, ignore_index=True))
    types = {"document": "str", "nll": "float64"}
    return pd.DataFrame({key: pd.Series(dtype=types.get(key, "int64")) for key in KEYS + SUMS})


def _is_out_of_memory(error: Exception) -> bool:
    """Whether it is the device's or the CPU allocator's refusal; torch raises a bare RuntimeError for the latter."""
    return isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or "can't allocate memory" in str(error)

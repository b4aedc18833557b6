"""Run a model over the windows of one cell; the result is sums of nll per document, part, position and context."""

from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from lengthlab.measurement.ledger import PART, Placed, Plan, edges, lower_edge
from lengthlab.model import GPT
from lengthlab.schemes import Scheme
from lengthlab.schemes.extensions import Extension
from lengthlab.training import autocast

KEYS = ["document", "part", "position", "context"]
SUMS = ["targets", "nll", "bytes"]
LOGITS = 1 << 25
"""Logits held at once by the output head; more targets are scored in chunks."""


class Reader:
    """A trained model with what is needed to read text with it: the positions' numbers, BOS, bytes per token, dtype."""

    def __init__(
        self,
        model: GPT,
        numbers: Callable[[int], torch.Tensor],
        bos: int,
        token_bytes: np.ndarray,
        train_length: int,
        dtype: torch.dtype = torch.float32,
        tokens_per_batch: int = 16384,
    ):
        self.model, self.numbers, self.bos, self.token_bytes = model, numbers, bos, token_bytes
        self.train_length, self.dtype, self.tokens_per_batch = train_length, dtype, tokens_per_batch
        self.device = model.embedding.weight.device

    def nothing(self, status: str, reason: str) -> tuple[pd.DataFrame, str, str]:
        """A cell without rows: why there is no number."""
        return _frame([]), status, reason

    def measure(
        self, plan: Plan, extension: Extension, progress: Callable[[int], object] = lambda tokens: None
    ) -> tuple[pd.DataFrame, str, str | None]:
        """Rows (KEYS and SUMS: int targets, float64 summed nats, int bytes), status and its reason (None for `done`).

        Status is `done`, or, with no rows, `undefined`, `out_of_memory` or `diverged`. `progress` hears of tokens fed.
        """
        trained = self.model.scheme
        scheme = extension.wrap(trained, plan.protocol.length)
        reason = self._undefined(plan, scheme)
        if reason:
            return self.nothing("undefined", reason)
        self.model.scheme = scheme
        try:
            rows = self._read(plan, scheme, progress)
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            return self.nothing("out_of_memory", (str(error) or type(error).__name__).splitlines()[0])
        finally:
            self.model.scheme = trained
        if not np.isfinite(rows.nll).all():
            return self.nothing("diverged", "the model's nll is not finite")
        return rows, "done", None

    def _undefined(self, plan: Plan, scheme: Scheme) -> str | None:
        longest = max((placed.window.fed for placed in plan.windows), default=0)
        if scheme.horizon is None or not longest:
            return None
        last = int(self.numbers(longest).max())
        if last < scheme.horizon:
            return None
        return f"positions are learned up to {scheme.horizon - 1}, a window needs {last}"

    @torch.inference_mode()
    def _read(self, plan: Plan, scheme: Scheme, progress: Callable[[int], object]) -> pd.DataFrame:
        self.model.eval()
        bins = edges(max([plan.protocol.length, *(plan.kept(text) for text in plan.texts)]), self.train_length)
        pieces = []
        for batch in self._batches(plan):
            fed = batch[0].window.fed
            scheme.extend(fed)
            pieces.append(self._rows(plan, batch, self._score(plan, batch), bins))
            progress(fed * len(batch))
        return _frame(pieces)

    def _batches(self, plan: Plan) -> Iterator[list[Placed]]:
        """Windows of one size at a time, the longest first, as many together as the budget of tokens allows."""
        size = lambda placed: -placed.window.fed  # noqa: E731
        for _, same_size in groupby(sorted(plan.windows, key=size), key=size):
            windows = list(same_size)
            count = max(1, self.tokens_per_batch // windows[0].window.fed)
            for first in range(0, len(windows), count):
                yield windows[first : first + count]

    def _score(self, plan: Plan, batch: list[Placed]) -> np.ndarray:
        """nll (float64 nats) of the scored targets of a batch of equally long windows, window after window."""
        inputs = np.stack([self._stream(plan, placed) for placed in batch])
        tokens = torch.from_numpy(inputs).to(self.device)
        fed = batch[0].window.fed
        scored = torch.zeros(len(batch), fed, dtype=torch.bool)
        for row, placed in enumerate(batch):
            scored[row, placed.window.first - placed.window.start - 1 :] = True
        scored = scored.to(self.device)
        with autocast(self.device, self.dtype):
            hidden = self.model.hidden(tokens[:, :-1], self.numbers(fed).to(self.device))[scored]
            targets = tokens[:, 1:][scored]
            chunk = max(1, LOGITS // self.model.vocab)
            nll = [
                F.cross_entropy(self.model.logits(states).float(), wanted, reduction="none")
                for states, wanted in zip(hidden.split(chunk), targets.split(chunk), strict=True)
            ]
        return torch.cat(nll).double().cpu().numpy()

    def _stream(self, plan: Plan, placed: Placed) -> np.ndarray:
        """x_start … x_stop of a window's document, int64; x_0 is BOS."""
        tokens, window = plan.texts[placed.document].tokens, placed.window
        piece = tokens[max(0, window.start - 1) : window.stop].astype(np.int64)
        return piece if window.start else np.concatenate(([self.bos], piece))

    def _rows(self, plan: Plan, batch: list[Placed], nll: np.ndarray, bins: np.ndarray) -> pd.DataFrame:
        targets = np.concatenate([np.arange(p.window.first, p.window.stop + 1) for p in batch])
        counts = [p.window.scored for p in batch]
        part = (targets - 1) // PART
        token = np.concatenate(
            [plan.texts[p.document].tokens[p.window.first - 1 : p.window.stop].astype(np.int64) for p in batch]
        )
        return _summed(
            pd.DataFrame(
                {
                    "document": np.repeat([plan.texts[p.document].id for p in batch], counts),
                    "part": part,
                    "position": np.maximum(lower_edge(targets, bins), part * PART + 1),
                    "context": lower_edge(targets - np.repeat([p.window.start for p in batch], counts), bins),
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

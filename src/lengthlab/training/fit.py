"""The training loop: AdamW, warm-up and cosine to a floor, clipping; the same tokens per step at any length."""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lengthlab.model import GPT, Positions, generator_of
from lengthlab.training.objective import IGNORED, NextToken, Objective

NEXT_TOKEN = NextToken()


@dataclass(frozen=True)
class TrainSettings:
    """How long, how much and how fast. Raises ValueError, one line, where the numbers make no sense."""

    length: int
    steps: int
    tokens_per_step: int
    lr: float
    warmup: float  # fraction of the steps
    floor: float  # last learning rate over the highest
    weight_decay: float
    betas: tuple[float, float]
    clip: float
    validate_every: int  # steps; 0: never
    validation_tokens: int

    def __post_init__(self):
        for key in ("length", "steps", "tokens_per_step", "validation_tokens", "validate_every"):
            value, least = getattr(self, key), 0 if key == "validate_every" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{key}={value}: must be an integer of at least {least}")
        if self.tokens_per_step % self.length:
            down = self.tokens_per_step // self.length * self.length
            near = " or ".join(str(n) for n in (down, down + self.length) if n)
            raise ValueError(
                f"tokens_per_step={self.tokens_per_step} is not a multiple of length={self.length}; use {near}"
            )
        for key in ("lr", "clip", "weight_decay", "warmup", "floor"):
            value, highest = getattr(self, key), 1 if key in ("warmup", "floor") else math.inf
            if not _is_number(value) or not 0 <= value <= highest or (value == 0 and key in ("lr", "clip")):
                allowed = "from 0 to 1" if highest == 1 else "above 0" if key in ("lr", "clip") else "of at least 0"
                raise ValueError(f"{key}={value}: must be a number {allowed}")
        pair = isinstance(self.betas, list | tuple) and len(self.betas) == 2
        if not pair or not all(_is_number(beta) and 0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas}: must be two numbers of at least 0 and below 1")

    @property
    def batch(self) -> int:
        """Blocks per step."""
        return self.tokens_per_step // self.length

    def rate(self, step: int) -> float:
        """Learning rate of step 0, 1, …: linear warm-up, then cosine down to floor x lr at the last step."""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return self.lr * (step + 1) / warm
        done = (step - warm + 1) / max(1, self.steps - warm)
        return self.lr * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Diverged(RuntimeError):
    """The loss became NaN or infinite; the rows up to there have been handed out."""


def autocast(device: torch.device, dtype: torch.dtype):
    """The context in which a forward runs at `dtype`; nothing for float32."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype=dtype)


def fit(
    model: GPT,
    positions: Positions,
    batches: Iterator[np.ndarray],
    validation: Iterable[np.ndarray],
    settings: TrainSettings,
    seed: int,
    dtype: torch.dtype,
    objective: Objective = NEXT_TOKEN,
) -> Iterator[dict]:
    """Train in place; yields a row per step: step, tokens, loss, lr, grad_norm, seconds, val_loss (or None).

    `batches` gives (batch, length + 1) tokens; their numbers are one draw of `positions` per step, from `seed` alone:
    the same for every scheme. Validation reads as evaluation does, with one draw that never changes. Losses are nats
    per token. Raises Diverged, before the weights are touched, where the loss or the gradient is not finite.
    """
    device = model.embedding.weight.device
    optimizer = torch.optim.AdamW(_groups(model, settings.weight_decay), betas=settings.betas, fused=True)
    torch.manual_seed(seed)  # dropout: not shifted by what a scheme drew when it was made
    validation, draws, masks = list(validation), generator_of(seed), generator_of(seed)
    held_out_pos = positions.numbers(settings.length, generator_of(0)).to(device)
    model.train()
    start = time.perf_counter()
    for step in range(settings.steps):
        rate = settings.rate(step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        pos = positions.training(settings.length, draws).to(device)
        inputs, targets = objective.pair(torch.from_numpy(next(batches)), masks)
        loss, norm = _gradient(model, inputs, targets, pos, settings.clip, dtype)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise Diverged(f"the loss became {loss} (gradient norm {norm}) at step {step + 1}")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        row = {
            "step": step + 1, "tokens": (step + 1) * settings.tokens_per_step, "loss": loss, "lr": rate,
            "grad_norm": norm, "seconds": time.perf_counter() - start, "val_loss": None,
        }  # fmt: skip
        last = step + 1 == settings.steps
        if validation and settings.validate_every and ((step + 1) % settings.validate_every == 0 or last):
            row["val_loss"] = validate(model, validation, held_out_pos, dtype, objective)
        yield row
    model.eval()


@torch.no_grad()
def validate(
    model: GPT, batches: list[np.ndarray], pos: Tensor, dtype: torch.dtype, objective: Objective = NEXT_TOKEN
) -> float:
    """Mean loss over the given batches of equal size, nats per token; the model is left in training mode."""
    model.eval()
    masks = generator_of(0)
    pairs = (objective.pair(torch.from_numpy(batch), masks) for batch in batches)
    loss = sum(_loss(model, *pair, pos, dtype).item() for pair in pairs) / len(batches)
    model.train()
    return loss


def _gradient(
    model: GPT, inputs: Tensor, targets: Tensor, pos: Tensor, clip: float, dtype: torch.dtype
) -> tuple[float, float]:
    """Loss and gradient norm of a batch; the gradient, clipped, is left on the parameters."""
    loss = _loss(model, inputs, targets, pos, dtype)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    return loss.item(), norm.item()


def _loss(model: GPT, inputs: Tensor, targets: Tensor, pos: Tensor, dtype: torch.dtype) -> Tensor:
    with autocast(pos.device, dtype):
        logits = model(inputs.to(pos.device), pos)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.to(pos.device).flatten(), ignore_index=IGNORED)


def _groups(model: GPT, weight_decay: float) -> list[dict]:
    """Weight decay on the model's matrices only: none on norms, and none on anything a scheme learns."""
    of_scheme = {id(p) for p in model.scheme.parameters()}
    decayed = [p for p in model.parameters() if p.ndim >= 2 and id(p) not in of_scheme]
    rest = [p for p in model.parameters() if p.ndim < 2 or id(p) in of_scheme]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]

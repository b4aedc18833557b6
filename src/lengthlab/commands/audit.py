"""`lengthlab audit …`: what a run would leave untrained, and what 16 bits cost its scheme, before anything is run."""

from collections.abc import Mapping

import hydra
from omegaconf import DictConfig

from lengthlab.commands import build, compose, naming, refuse
from lengthlab.measurement.protocols import with_train_length

NEAREST = 64
"""Keys before the last query that are to be told apart."""

naming.register()


@hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="audit")
def _run(cfg: DictConfig) -> None:
    config, beside = compose.plain(cfg), compose.config_dir_of_job()
    scheme, name = build.scheme_of(config, beside), config["scheme"]["name"]
    lines = scheme.untrained() or [f"{name}: nothing is left untrained at train.length={config['train']['length']}"]
    print("\n".join(lines + precision(config, scheme)))


def main(words: list[str]) -> None:
    """Run the command, for every job of a sweep."""
    line = compose.parse("audit", words)
    jobs = compose.jobs_of(line)
    if not line.only_shows:
        for job in jobs:
            refuse.check_audit(compose.plain(job.config), line.config_dir)
    line.to_hydra()
    _run()


def precision(config: Mapping, scheme) -> list[str]:
    """A line per evaluated length and hook: the distance of the training dtype from float32; nothing for float32.

    What is compared is what a hook adds, or makes of one and the same token, at the end of a window and with the
    parameters of the start: bias and scores in nats, components of embeddings and rotations (of ones) as they are. A
    training run is in that dtype under autocast: parameters, embeddings and norms stay float32, queries and keys not.
    """
    import torch

    dtype = getattr(torch, build.dtype_name(config))
    if dtype == torch.float32:
        return []
    extension, lines = build.extension_of(config, scheme), []
    for length in with_train_length(config["eval"]["lengths"], config["train"]["length"]):
        pos = _numbers(config, length)
        read = extension.wrap(scheme, length)
        read.extend(length)
        if read.horizon is not None and int(pos.max()) >= read.horizon:
            lines.append(f"length {length}: undefined, positions are learned up to {read.horizon - 1}")
            continue
        exact, cast = (_contributions(read, pos, one) for one in (torch.float32, dtype))
        where = f"length {length}, {build.dtype_name(config)}"
        lines += [f"{where}: {hook} {_compared(exact[hook], cast[hook])}" for hook in exact]
    return lines


def _numbers(config: Mapping, length: int):
    from lengthlab.model import generator_of

    return build.positions_of(config).numbers(length, generator_of(0))


def _compared(exact: list, cast: list) -> str:
    """Of the layers, the worst."""
    drift = max((one.double() - other.double()).abs().max().item() for one, other in zip(exact, cast, strict=True))
    apart, before = (min(len(rows.unique(dim=0)) for rows in layers) for layers in (cast, exact))
    nearest = f"{apart} of the {len(exact[0])} nearest keys told apart (float32: {before})"
    return f"at most {drift:.2g} from float32, {nearest}"


def _contributions(scheme, pos, dtype) -> dict[str, list]:
    """Per hook that acts, per layer that is another: (keys, …), what it makes of the same token at the last keys."""
    import torch

    from lengthlab.schemes import Scheme
    from lengthlab.training import autocast

    rows: dict[str, list] = {}
    layers = dict.fromkeys(map(scheme.layer, range(scheme.dims.layers)))
    with torch.no_grad(), autocast(torch.device("cpu"), dtype):
        for hook, made in MADE.items():
            for part in (scheme,) if hook == "embed" else layers:
                if getattr(type(part), hook, None) is not getattr(Scheme, hook, None):
                    rows.setdefault(hook, []).append(made(part, pos, dtype))
    return rows


def _embedded(scheme, pos, dtype):
    import torch

    pos = pos[-NEAREST:]
    return scheme.embed(torch.zeros(1, len(pos), scheme.dims.width), pos)[0]


def _rotated(scheme, pos, dtype):
    import torch

    pos, ones = pos[-NEAREST:], torch.ones(1, 1, 1, scheme.dims.head_size, dtype=dtype)
    q, k = ones.expand(-1, scheme.dims.heads, -1, -1), ones.expand(-1, scheme.dims.heads, len(pos), -1)
    return scheme.rotate(q, k, pos[-1:], pos)[1][0].transpose(0, 1).flatten(1)


def _biases(scheme, pos, dtype):
    return scheme.bias(pos[-1:], pos[-NEAREST:])[..., 0, :].T


def _scores(scheme, pos, dtype):
    """With all keys there are: some schemes count them."""
    import torch

    from lengthlab.schemes import Kept

    dims, generator = scheme.dims, torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, dims.width, generator=generator).expand(-1, len(pos), -1)
    k = torch.randn(1, 1, 1, dims.head_size, generator=generator).to(dtype).expand(-1, dims.heads, len(pos), -1)
    kept = scheme.keep(x, None)
    kept = None if kept is None else Kept(kept[:, -1:], kept)
    q, k = (turned.float() for turned in scheme.rotate(k[:, :, -1:], k, pos[-1:], pos))
    bias, seen = scheme.bias(pos[-1:], pos), torch.ones(1, len(pos), dtype=torch.bool)
    with torch.autocast("cpu", enabled=False):
        s = q @ k.mT / dims.head_size**0.5
        s = scheme.scores(s if bias is None else s + bias, q, k, kept, pos[-1:], pos, seen)
    return s[0, :, 0, -NEAREST:].T


MADE = {"embed": _embedded, "rotate": _rotated, "bias": _biases, "scores": _scores}

"""T5: a learned bias per head and bucket of distance, shared by all layers (Raffel et al. 2020, arXiv:1910.10683)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthlab.schemes.base import Dims, DistanceBias


def bucket_edges(buckets: int, max_distance: int) -> list[int]:
    """The first distance of buckets 1, 2, …: exact to half of the buckets, then logarithmic up to max_distance.

    With e = buckets // 2 and r = buckets - e, a distance d >= e is in bucket e + ⌊r ln(d/e) / ln(max_distance/e)⌋, so
    bucket e + k starts at the least d with d^r e^k >= e^r max_distance^k: integers, with no rounding at an edge.
    """
    exact = buckets // 2
    edges, distance = list(range(1, exact + 1)), exact
    for k in range(1, buckets - exact):
        while distance ** (buckets - exact) * exact**k < exact ** (buckets - exact) * max_distance**k:
            distance += 1
        edges.append(distance)
    return edges


def spans(numbers: list[int]) -> str:
    """Increasing integers as text: 3, 27-31."""
    firsts = (n for n in numbers if n - 1 not in numbers)
    lasts = (n for n in numbers if n + 1 not in numbers)
    return ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in zip(firsts, lasts, strict=True))


class T5(DistanceBias):
    """bias = table[bucket of the distance], causal. Learned: buckets x H, N(0, 1/D) at the start (`transformers`).

    `buckets` 32 and `max_distance` 128 tokens are the paper's. Keys after the query share bucket 0, and a fraction of a
    token does not count. T5 leaves its logits unscaled; here they are q·k / sqrt(K), as for every scheme, and the bias
    is added as it is. Raises ValueError where there is no logarithmic bucket.
    """

    causal_only = True

    def __init__(self, dims: Dims, buckets: int = 32, max_distance: int = 128):
        super().__init__(dims)
        if buckets < 2:
            raise ValueError(f"buckets={buckets}: must be at least 2")
        if max_distance <= buckets // 2:
            raise ValueError(f"max_distance={max_distance}: must be above {buckets // 2}, half of the buckets")
        self.buckets, self.max_distance = buckets, max_distance
        self.edges = tuple(bucket_edges(buckets, max_distance))
        self.table = nn.Parameter(torch.empty(buckets, dims.heads).normal_(std=dims.width**-0.5))

    def bucket_of(self, distance: Tensor) -> Tensor:
        """The bucket of each distance, integers of the same shape."""
        edges = torch.tensor(self.edges, dtype=distance.dtype, device=distance.device)
        return torch.bucketize(distance.contiguous(), edges, right=True)

    def of_distance(self, distance):
        """Each head's entry of the distance's bucket, float32."""
        return F.embedding(self.bucket_of(distance), self.table.float()).movedim(-1, 0)

    def untrained(self):
        """Buckets that no distance between two training positions falls into."""
        reached = set(self.bucket_of(torch.arange(self.dims.horizon)).tolist())
        never = [bucket for bucket in range(self.buckets) if bucket not in reached]
        if not never:
            return []
        return [
            f"t5: no training distance (0 to {self.dims.horizon - 1}) is in buckets {spans(never)} of {self.buckets}: "
            "they keep their random start; lower "
            f"scheme.max_distance={self.max_distance} or scheme.buckets={self.buckets}"
        ]

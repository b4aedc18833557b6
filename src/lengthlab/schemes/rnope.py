"""RNoPE: RoPE on all layers but every n-th, which has no position (Yang et al. 2025, arXiv:2501.18795)."""

from lengthlab.schemes.base import Dims
from lengthlab.schemes.nope import NoPE
from lengthlab.schemes.rope import RoPE


class RNoPE(RoPE):
    """Layer i, counted from 1, is NoPE where `every` divides i, and RoPE elsewhere. Learned: nothing.

    `every`: 4, three layers of RoPE to one of NoPE, is the ratio of RNoPE-SWA and of SWAN (arXiv:2504.08719), the place
    of the NoPE layer SmolLM3's; 2 alternates. Both papers give the RoPE layers a sliding window, which is the model's
    to give. `base`, `fraction` and `layout` as RoPE's. Raises ValueError where `every` is not an integer above 1.
    """

    def __init__(
        self,
        dims: Dims,
        every: int = 4,
        base: float = 10000.0,
        fraction: float | None = None,
        layout: str | None = None,
    ):
        super().__init__(dims, base=base, fraction=fraction, layout=layout)
        if isinstance(every, bool) or not isinstance(every, int) or every < 2:
            raise ValueError(f"every={every}: must be an integer of at least 2; with 1 no layer would turn, use nope")
        self.every, self.still = every, NoPE(dims)

    def layer(self, index):
        """NoPE in every n-th layer, else this very scheme."""
        return self if (index + 1) % self.every else self.still

    def untrained(self):
        """As RoPE's; and that there is no NoPE layer, in a model too shallow for one."""
        if self.every <= self.dims.layers:
            return super().untrained()
        return [
            *super().untrained(),
            f"rnope: every={self.every} of {self.dims.layers} layers is none, so this is rope; use scheme.every=2",
        ]

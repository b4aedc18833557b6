"""NoPE: no position, only the causal mask (Haviv et al. 2022, arXiv:2203.16634; Kazemnejad 2023, arXiv:2305.19466)."""

from lengthlab.schemes.base import Scheme


class NoPE(Scheme):
    """Adds nothing anywhere. Learned: nothing."""

"""RoPE's extensions against transformers' `ROPE_INIT_FUNCTIONS`, and what each does to logits."""

import math

import pytest
import torch

from lengthlab.schemes.extensions.llama3 import Llama3
from lengthlab.schemes.extensions.longrope import LongRoPE
from lengthlab.schemes.extensions.ntk import NTK
from lengthlab.schemes.extensions.pi import PI
from lengthlab.schemes.extensions.yarn import YaRN
from lengthlab.schemes.p_rope import PRoPE
from lengthlab.schemes.rnope import RNoPE
from lengthlab.schemes.rope import RoPE

LENGTH = 512
HEADS = pytest.mark.parametrize("head", [8, 64, 128])
FACTORS = pytest.mark.parametrize("s", [1.0, 1.5, 4.0, 32.0])
REAL = [YaRN, Llama3, PI, NTK, LongRoPE]


@pytest.fixture
def rope_of(scheme_of):
    def make(head: int = 64, length: int = LENGTH, kind=RoPE, **options) -> RoPE:
        return kind(scheme_of("nope", width=2 * head, heads=2, length=length, layers=4).dims, **options)

    return make


def theirs(name: str, head: int, length: int = LENGTH, n: int | None = None, **options) -> tuple[torch.Tensor, float]:
    """Frequencies and factor on cosines and sines, as transformers has them for a Llama of these sizes."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rotary = {
        "rope_type": name, "rope_theta": 10000.0, "original_max_position_embeddings": length, **options,
    }  # fmt: skip
    config = LlamaConfig(
        hidden_size=2 * head, num_attention_heads=2, head_dim=head, max_position_embeddings=length,
        rope_parameters=rotary,
    )  # fmt: skip
    return ROPE_INIT_FUNCTIONS[name](config, torch.device("cpu"), seq_len=n)


def check(wrapped, expected: tuple[torch.Tensor, float]) -> None:
    """Frequencies to float32's last bits, the factor on cosines and sines to float64's."""
    changed = wrapped.layer(0)
    torch.testing.assert_close(changed.used_frequencies(), expected[0], atol=0, rtol=2e-6)
    assert changed.magnitude == pytest.approx(expected[1], rel=1e-12)


@HEADS
@FACTORS
def test_pi_is_linear(rope_of, head, s):
    check(PI(s).wrap(rope_of(head), 9), theirs("linear", head, factor=s))


@HEADS
@pytest.mark.parametrize("n", [1, LENGTH - 1, LENGTH, LENGTH + 1, 700, 4096, 20_000])
def test_ntk_is_dynamic(rope_of, head, n):
    """Theirs takes the factor into a formula of its own, which at 1 is n / L."""
    wrapped = NTK("dynamic").wrap(rope_of(head), 9)
    wrapped.extend(n)
    check(wrapped, theirs("dynamic", head, n=n, factor=1.0))


@HEADS
@FACTORS
def test_ntk_is_a_larger_base(rope_of, head, s):
    larger = rope_of(head, base=10000.0 * s ** (head / (head - 2)))
    check(NTK(s).wrap(rope_of(head), 9), (larger.frequencies(), 1.0))


@HEADS
@pytest.mark.parametrize("options", [{}, {"beta_fast": 8.0, "beta_slow": 2.0}, {"truncate": False}], ids=str)
@FACTORS
def test_yarn_is_yarn(rope_of, head, options, s):
    for length in (32, 64, 256, 2048, 100_000):
        expected = theirs("yarn", head, length, factor=s, **options)
        check(YaRN(s, **options).wrap(rope_of(head, length), 9), expected)


def test_an_attention_factor_of_ones_own_is_yarns(rope_of):
    expected = theirs("yarn", 64, factor=4.0, attention_factor=1.7)
    check(YaRN(4.0, attention_factor=1.7).wrap(rope_of(), 9), expected)


@HEADS
@pytest.mark.parametrize(("low", "high"), [(1.0, 4.0), (2.0, 32.0)])
@FACTORS
def test_llama3_is_llama3(rope_of, head, low, high, s):
    for length in (64, 8192):
        expected = theirs("llama3", head, length, factor=s, low_freq_factor=low, high_freq_factor=high)
        check(Llama3(s, low=low, high=high).wrap(rope_of(head, length), 9), expected)


@HEADS
@FACTORS
def test_longrope_is_longrope(rope_of, head, s):
    long = tuple(1 + 0.5 * k for k in range(head // 2))
    short = tuple(1 + 0.01 * k for k in range(head // 2))
    wrapped = LongRoPE(s, long=long, short=short).wrap(rope_of(head), 9)
    for n in (1, LENGTH, LENGTH + 1, 9000):
        wrapped.extend(n)
        check(wrapped, theirs("longrope", head, n=n, factor=s, long_factor=long, short_factor=short))


def test_partial_rotary_counts_in_every_formula(rope_of):
    half = {"partial_rotary_factor": 0.5}
    for extension, name, options in (
        (PI(4.0), "linear", {}),
        (YaRN(4.0), "yarn", {}),
        (Llama3(4.0), "llama3", {"low_freq_factor": 1.0, "high_freq_factor": 4.0}),
    ):
        check(extension.wrap(rope_of(128, fraction=0.5), 9), theirs(name, 128, factor=4.0, **options, **half))
    check(NTK("dynamic").wrap(rope_of(128, fraction=0.5), 2048), theirs("dynamic", 128, n=2048, factor=1.0, **half))


@pytest.mark.parametrize("n", [LENGTH, LENGTH + 1])
@pytest.mark.parametrize("allocated", [LENGTH, 64 * LENGTH])
def test_longrope_switches_past_the_training_length_whatever_is_allocated(rope_of, n, allocated):
    """F11: at L tokens the short factors, in a cell of any length; one token more, the long ones."""
    wrapped = LongRoPE(long=(5.0,) * 32, short=(2.0,) * 32).wrap(rope_of(), allocated)
    wrapped.extend(n)
    expected = rope_of().frequencies() / (5.0 if n > LENGTH else 2.0)
    torch.testing.assert_close(wrapped.layer(0).used_frequencies(), expected, atol=0, rtol=1e-6)


def test_longrope_without_numbers_is_pi_with_a_magnitude(rope_of):
    wrapped, pi = LongRoPE(8.0).wrap(rope_of(), 8 * LENGTH).layer(0), PI(8.0).wrap(rope_of(), 1).layer(0)
    assert torch.equal(wrapped.used_frequencies(), pi.used_frequencies())
    assert wrapped.magnitude == math.sqrt(1 + math.log(8) / math.log(LENGTH))


def product(scheme, q, k, distance: int) -> torch.Tensor:
    q, k = scheme.layer(0).rotate(q, k, torch.tensor([distance]), torch.tensor([0]))
    return (q.double() * k.double()).sum(-1)


def test_yarns_logits_are_1_2964_times_as_large_at_four(rope_of):
    """F12: m = 0.1 ln 4 + 1 once on q and once on k, so m² on the logits; at distance 0 nothing else is changed."""
    rope, q, k = rope_of(), torch.randn(1, 2, 1, 64), torch.randn(1, 2, 1, 64)
    yarn = YaRN(4.0).wrap(rope, 9)
    assert yarn.layer(0).magnitude == pytest.approx(1.1386, abs=5e-5)
    assert 1.1386**2 == pytest.approx(1.2964, abs=5e-5)  # m² itself, unrounded, is 1.2965
    ratio = product(yarn, q, k, 0) / product(rope, q, k, 0)
    torch.testing.assert_close(ratio, torch.full_like(ratio, (0.1 * math.log(4) + 1) ** 2), atol=0, rtol=1e-6)


def test_yarns_magnitude_is_on_the_rotary_part_alone(rope_of):
    rope, q = rope_of(fraction=0.5), torch.randn(1, 2, 1, 64)
    turned, _ = YaRN(4.0).wrap(rope, 9).layer(0).rotate(q, q, torch.tensor([5]), torch.tensor([5]))
    assert torch.equal(turned[..., 32:], q[..., 32:])
    lengths = turned[..., :32].norm(dim=-1) / q[..., :32].norm(dim=-1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.1 * math.log(4) + 1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("length", [2, 6, 7])
def test_where_no_pair_finishes_a_turn_yarn_divides_all_but_the_first(rope_of, length):
    """Below 2 pi tokens the band's upper end is negative; as 0, every later pair is past it."""
    factors = YaRN(4.0).factors(rope_of(8, length), 4.0, 9, torch.ones(4))
    assert factors.tolist() == [1.0, 0.25, 0.25, 0.25]


def test_at_small_lengths_yarn_keeps_nothing_but_the_first_pair(rope_of):
    for length in (64, 256):
        low, high = YaRN().band(rope_of(64, length))
        assert low == 0 and high > 1


def test_pi_turns_position_sp_as_rope_turns_p(rope_of):
    rope, q, pos = rope_of(), torch.randn(1, 2, 9, 64), torch.arange(9)
    pi = PI(4.0).wrap(rope, 9).layer(0)
    for ours, expected in zip(pi.rotate(q, q, 4 * pos, 4 * pos), rope.rotate(q, q, pos, pos), strict=True):
        assert torch.equal(ours, expected)


def test_ntk_keeps_the_fastest_pair_and_slows_the_slowest_by_s(rope_of):
    rope = rope_of()
    before, after = rope.frequencies(), NTK(8.0).wrap(rope, 9).layer(0).used_frequencies()
    assert after[0] == before[0]
    assert (before[-1] / after[-1]).item() == pytest.approx(8, rel=1e-6)


def test_ntk_refuses_an_only_pair(rope_of):
    for rope in (rope_of(2), rope_of(8, fraction=0.25)):
        with pytest.raises(ValueError, match=r"^ntk needs two rotary pairs per head at least, got one .d_r = 2.*$"):
            NTK(2.0).wrap(rope, 9)


@pytest.mark.parametrize("extension", REAL)
def test_pairs_that_do_not_turn_do_not_start_to(rope_of, extension):
    p_rope = rope_of(kind=PRoPE, p=0.5)
    after = extension(4.0).wrap(p_rope, 4 * LENGTH).layer(0).used_frequencies()
    assert torch.equal(after[16:], torch.zeros(16)) and (after[:16] > 0).all()


@pytest.mark.parametrize("extension", REAL)
def test_layers_without_position_stay_so_and_the_others_are_changed(rope_of, extension):
    rnope = rope_of(kind=RNoPE)
    wrapped = extension(4.0).wrap(rnope, 4 * LENGTH)
    assert wrapped.layer(3) is rnope.layer(3)
    assert wrapped.layer(0) is wrapped.layer(2) is not rnope.layer(0)
    expected = extension(4.0).wrap(rope_of(), 4 * LENGTH).layer(0).used_frequencies()
    assert torch.equal(wrapped.layer(0).used_frequencies(), expected)


def test_layers_with_schemes_of_their_own_are_each_changed(rope_of):
    class Two(RoPE):
        def layer(self, index):
            return self if index else other

    scheme, other = rope_of(kind=Two), rope_of(base=500.0)
    wrapped = PI(2.0).wrap(scheme, 9)
    for index in (0, 1):
        expected = scheme.layer(index).frequencies() / 2
        assert torch.equal(wrapped.layer(index).used_frequencies(), expected)
    assert torch.equal(other.used_frequencies(), other.frequencies())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: YaRN(beta_fast=1.0), r"^beta_fast=1.0: must be above beta_slow \(1.0\)$"),
        (lambda: YaRN(beta_slow=0.0), r"^beta_slow=0.0: must be above 0$"),
        (lambda: YaRN(attention_factor=0.0), r"^attention_factor=0.0: must be above 0, or null"),
        (lambda: Llama3(low=4.0, high=4.0), r"^high=4.0: must be above low \(4.0\)$"),
        (lambda: Llama3(low=-1.0), r"^low=-1.0: must be above 0$"),
        (lambda: LongRoPE(long=(1.0, 0.0)), r"^long=\[1.0, 0.0\]: must be numbers above 0, one per pair, or null$"),
        (lambda: LongRoPE(short=(math.nan,)), r"^short=\[nan\]: must be numbers above 0"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_longrope_needs_a_number_for_each_pair(rope_of):
    with pytest.raises(ValueError, match=r"^long=\[2.0, 2.0\]: must be 32 numbers, one per pair, or null$"):
        LongRoPE(long=(2.0, 2.0)).wrap(rope_of(), 9)

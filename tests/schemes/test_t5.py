"""T5's buckets against transformers' and x-transformers', its edges in integers, and which of them training reaches."""

import math

import pytest
import torch

from lengthlab.schemes.alibi import ALiBi
from lengthlab.schemes.t5 import T5, bucket_edges

# Sizes without an edge that is a whole number: there the peers' float32 logarithm could fall on either side.
SIZES = pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 110), (16, 64), (8, 1000), (33, 128)])
DISTANCES = torch.arange(-50, 5000)


@pytest.fixture
def dims(scheme_of):
    return scheme_of("nope").dims


@SIZES
def test_buckets_are_transformers_and_x_transformers(dims, buckets, max_distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    ours = T5(dims, buckets, max_distance).bucket_of(DISTANCES.float())
    sizes = {"num_buckets": buckets, "max_distance": max_distance}
    assert torch.equal(ours, T5Attention._relative_position_bucket(-DISTANCES, bidirectional=False, **sizes))
    other = pytest.importorskip("x_transformers.x_transformers").RelativePositionBias
    assert torch.equal(ours, other._relative_position_bucket(-DISTANCES, causal=True, **sizes))


def test_bias_is_x_transformers_with_the_same_table(dims):
    theirs = pytest.importorskip("x_transformers.x_transformers").RelativePositionBias(1.0, causal=True, heads=4)
    ours = T5(dims)
    theirs.relative_attention_bias.weight.data = ours.table.data
    pos = torch.arange(300)
    assert torch.equal(ours.bias(pos, pos), theirs(300, 300))


@SIZES
def test_buckets_are_the_papers(buckets, max_distance):
    """The formula solved for the distance, float64: bucket e + k starts at e (max_distance/e)^(k/r)."""
    exact = buckets // 2
    rest = buckets - exact
    starts = [exact * (max_distance / exact) ** (k / rest) for k in range(1, rest)]
    expected = [*range(1, exact + 1), *(math.ceil(start - 1e-9) for start in starts)]
    assert bucket_edges(buckets, max_distance) == expected


def test_an_edge_that_is_a_whole_number_belongs_to_the_bucket_that_starts_there(dims):
    """16 buckets to 128: 8 x 2^(k/2), so 16, 32 and 64 are edges exactly."""
    at = torch.tensor([15.0, 16, 31, 32, 63, 64, 127, 128])
    assert T5(dims, buckets=16, max_distance=128).bucket_of(at).tolist() == [9, 10, 11, 12, 13, 14, 15, 15]


def test_each_head_reads_its_column_of_the_one_table(dims):
    scheme = T5(dims)
    bias = scheme.bias(torch.tensor([20, 300]), torch.tensor([0, 18, 25]))
    buckets = [[17, 2, 0], [31, 31, 31]]
    for head in range(4):
        assert torch.equal(bias[head], scheme.table[:, head][torch.tensor(buckets)])


def test_the_future_is_bucket_0_and_fractions_do_not_count(dims):
    scheme = T5(dims)
    assert scheme.bucket_of(torch.tensor([-1e6, -1, -0.5, 0, 0.5, 0.999, 1, 1.5, 15.9, 16, 1e7])).tolist() == [
        0, 0, 0, 0, 0, 0, 1, 1, 15, 16, 31,
    ]  # fmt: skip


def test_with_a_linear_table_it_is_alibi_inside_the_exact_buckets(dims):
    scheme, alibi = T5(dims), ALiBi(dims)
    scheme.table.data = -torch.arange(32.0)[:, None] * torch.tensor(alibi.slopes)
    near = torch.arange(17.0)
    assert torch.equal(scheme.of_distance(near), alibi.of_distance(near))
    assert not torch.equal(scheme.of_distance(near + 16), alibi.of_distance(near + 16))


def test_one_table_serves_all_layers(model_of):
    model = model_of("t5")
    assert [key for key, _ in model.named_parameters() if "table" in key] == ["scheme.table"]
    assert model.scheme.table.shape == (32, 4)


def test_the_table_starts_as_transformers_does(scheme_of):
    table = scheme_of("t5", width=1024, heads=32).table
    assert table.std().item() == pytest.approx(1024**-0.5, rel=0.1)


def test_the_gradient_of_a_bucket_is_its_share_of_the_distances(dims):
    scheme = T5(dims)
    scheme.of_distance(torch.arange(64.0)).sum().backward()
    counts = scheme.bucket_of(torch.arange(64.0)).bincount(minlength=32)
    assert torch.equal(scheme.table.grad, counts.float()[:, None].expand(32, 4))


@pytest.mark.parametrize(("length", "left"), [(32, "22-31"), (64, "27-31"), (100, "31"), (128, None), (2048, None)])
def test_untrained_buckets_are_named(scheme_of, length, left):
    scheme = scheme_of("t5", length=length)
    scheme.bias(torch.arange(length), torch.arange(length)).tril().sum().backward()
    none = (scheme.table.grad == 0).all(1).nonzero().flatten().tolist()
    sentences = scheme.untrained()
    assert len(none) == {32: 10, 64: 5, 100: 1}.get(length, 0)
    if left is None:
        assert sentences == []
        return
    assert f"{none[0]}-{none[-1]}" == left or none == [int(left)]
    assert sentences == [
        f"t5: no training distance (0 to {length - 1}) is in buckets {left} of 32: they keep their random start; "
        "lower scheme.max_distance=128 or scheme.buckets=32"
    ]


def test_the_remedy_works_and_buckets_without_any_distance_are_named(scheme_of):
    dims = scheme_of("nope", length=64).dims
    assert T5(dims, max_distance=64).untrained() == []
    assert "buckets 17, 19, 21, 23, 25, 27, 29 of 32" in T5(dims, max_distance=24).untrained()[0]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 3)])
def test_distances_of_any_shape(dims, shape):
    scheme, distance = T5(dims), torch.randint(-9, 300, shape).float()
    bias = scheme.of_distance(distance)
    assert bias.dtype == torch.float32
    assert torch.equal(bias, scheme.table.T[:, scheme.bucket_of(distance)])
    assert torch.equal(scheme.of_distance(distance.unsqueeze(0).expand(2, *shape))[:, 1], bias), "not contiguous"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"buckets": 1}, "buckets=1: must be at least 2"),
        ({"max_distance": 16}, "max_distance=16: must be above 16, half of the buckets"),
        ({"buckets": 64, "max_distance": 20}, "max_distance=20: must be above 32, half of the buckets"),
    ],
)
def test_bad_options_are_refused(dims, options, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}$"):
        T5(dims, **options)

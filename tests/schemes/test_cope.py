"""CoPE against x-transformers' with the same table, and against a float64 transcription of the paper's equations."""

import math
import warnings

import pytest
import torch

from lengthlab.schemes.cope import CoPE

B, H, S, K = 2, 4, 23, 8


@pytest.fixture
def cope_of(scheme_of):
    """One whose tables are not zero."""

    def make(**options):
        cope = CoPE(scheme_of("nope").dims, **options)
        for layer in cope.layers:
            torch.nn.init.normal_(layer.table)
        return cope

    return make


def inputs(queries: int):
    q, k = torch.randn(B, H, queries, K), torch.randn(B, H, S, K)
    pos = torch.arange(S)
    return (
        q @ k.mT / K**0.5,
        q,
        k,
        None,
        pos[-queries:],
        pos,
        torch.ones(queries, S, dtype=torch.bool).tril(S - queries),
    )


@pytest.mark.parametrize("npos", [4, 16, 65])
@pytest.mark.parametrize("queries", [S, 5, 1])
@torch.no_grad()
def test_added_term_is_that_of_x_transformers(cope_of, npos, queries):
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # x-transformers scripts at its import
        from x_transformers.x_transformers import CoPE as Theirs

    layer, arguments = cope_of(npos=npos).layer(0), inputs(queries)
    s, q, visible = arguments[0], arguments[1], arguments[-1]
    theirs = Theirs(K, H, npos)
    theirs.pos_emb.copy_(layer.table)
    expected = theirs(q, s.masked_fill(~visible, float("-inf")))
    got = layer.scores(*arguments) - s
    torch.testing.assert_close(got[..., visible], expected[..., visible], atol=1e-5, rtol=0)


@pytest.mark.parametrize("npos", [4, 65])
@torch.no_grad()
def test_logits_are_the_papers(cope_of, npos):
    layer, arguments = cope_of(npos=npos).layer(1), inputs(S)
    s, q, got = arguments[0].double(), arguments[1].double(), layer.scores(*arguments)
    for b in range(B):
        for h in range(H):
            for i in range(S):
                for j in range(i + 1):
                    count = sum(1 / (1 + math.exp(-s[b, h, i, t])) for t in range(j, i + 1))
                    count = min(count, npos - 1)
                    low, share = math.floor(count), count - math.floor(count)
                    low_row, high_row = (layer.table[row].double() for row in (low, math.ceil(count)))
                    expected = s[b, h, i, j] + q[b, h, i] @ ((1 - share) * low_row + share * high_row)
                    assert got[b, h, i, j].item() == pytest.approx(expected.item(), abs=2e-5)


@torch.no_grad()
def test_what_is_not_visible_is_not_counted(cope_of):
    """Whatever a hidden key's logit is, before or after the query, the visible ones are as without it."""
    layer, (s, *rest, visible) = cope_of().layer(0), inputs(S)
    visible = visible & (torch.rand(S, S) < 0.7)
    other = torch.where(visible, s, 100 * torch.randn_like(s))
    one, two = (layer.scores(logits, *rest, visible) for logits in (s, other))
    assert torch.equal(one[..., visible], two[..., visible])
    row = visible[-1].nonzero().flatten()
    q, k, _, q_pos, k_pos = rest
    few = s[:, :, -1:, row], q[:, :, -1:], k[:, :, row], None, q_pos[-1:], k_pos[row], visible[-1:, row]
    torch.testing.assert_close(one[:, :, -1:, row], layer.scores(*few), atol=1e-5, rtol=0)


def test_tables_are_zero_at_the_start_one_per_layer_and_reach_what_training_counts(scheme_of):
    cope = CoPE(scheme_of("nope", length=64).dims)
    assert [layer.table.shape for layer in cope.layers] == [(65, K)] * 2
    assert not any(layer.table.any() for layer in cope.layers)
    assert cope.untrained() == []
    (sentence,) = CoPE(scheme_of("nope", length=64).dims, npos=80).untrained()
    assert sentence == (
        "cope: training windows count to 64 at most, so rows 65 to 79 stay zero; lower scheme.npos=80 to 65, or null"
    )


def test_a_table_of_one_row_is_refused(scheme_of):
    with pytest.raises(ValueError, match="^npos=1: must be at least 2, or null for the training length [+] 1$"):
        CoPE(scheme_of("nope").dims, npos=1)

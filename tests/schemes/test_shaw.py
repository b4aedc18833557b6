"""Shaw against a float64 transcription of the paper's equation 4, pair by pair."""

import pytest
import torch

from lengthlab.schemes.shaw import Shaw

B, H, K = 2, 4, 8


def shaw_of(scheme_of, length: int = 64, **options):
    """One with a table so large that it matters."""
    return Shaw(scheme_of("nope", length=length).dims, **{"std": 1.0, **options})


def written_out(q, k, table, q_pos, k_pos, clip):
    """e_ij = q_i · (k_j + a[min(i - j, clip)]) / sqrt(K), every pair alone, float64; zero where j is after i."""
    out = torch.zeros(B, H, q.shape[2], k.shape[2], dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(q.shape[2]):
                for j in range(k.shape[2]):
                    distance = int(q_pos[b, i] - k_pos[b, j])
                    if distance >= 0:
                        a = table[h, min(distance, clip)].double()
                        out[b, h, i, j] = q[b, h, i].double() @ (k[b, h, j].double() + a) / K**0.5
    return out


@pytest.mark.parametrize("clip", [1, 5, 16])
@pytest.mark.parametrize("shared", [True, False], ids=["one row of positions", "a row each"])
def test_logits_are_the_papers(scheme_of, clip, shared):
    layer = shaw_of(scheme_of, clip=clip).layer(1)
    q, k = torch.randn(B, H, 7, K), torch.randn(B, H, 23, K)
    k_pos = torch.arange(23) if shared else torch.stack([torch.randperm(64)[:23].sort().values for _ in range(B)])
    q_pos = k_pos[..., -7:]
    rows = [pos.expand(B, -1) for pos in (q_pos, k_pos)]
    seen = rows[0].unsqueeze(-1) >= rows[1].unsqueeze(-2)
    visible = seen[0] if shared else seen.unsqueeze(1)
    got = layer.scores(q @ k.mT / K**0.5, q, k, None, q_pos, k_pos, visible)
    expected = written_out(q, k, layer.table, *rows, clip)
    torch.testing.assert_close(got.double().masked_fill(~seen.unsqueeze(1), 0), expected, atol=1e-5, rtol=0)


def test_every_layer_and_head_has_a_table_and_distances_past_the_clip_share_a_row(scheme_of):
    shaw = shaw_of(scheme_of, clip=3)
    tables = [shaw.layer(index).table for index in range(2)]
    assert [table.shape for table in tables] == [(H, 4, K)] * 2 and not torch.equal(*tables)
    q, k = torch.randn(1, H, 1, K), torch.zeros(1, H, 6, K)
    zeros, all_seen = torch.zeros(1, H, 1, 6), torch.ones(1, 6, dtype=torch.bool)
    row = shaw.layer(0).scores(zeros, q, k, None, torch.tensor([5]), torch.arange(6), all_seen)[0, 0, 0]
    assert row[0] == row[1] == row[2] and len(row.unique()) == 4


def test_rows_that_training_never_reaches_are_named(scheme_of):
    assert shaw_of(scheme_of, length=64).untrained() == []
    assert shaw_of(scheme_of, length=17).untrained() == []
    (sentence,) = shaw_of(scheme_of, length=16).untrained()
    assert sentence == (
        "shaw: training distances end at 15, so rows 16 to 16 keep their random start; lower scheme.clip=16 to 15"
    )


def test_a_clip_below_one_is_refused(scheme_of):
    with pytest.raises(ValueError, match="^clip=0: must be at least 1$"):
        shaw_of(scheme_of, clip=0)

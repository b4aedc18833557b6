"""Transformer-XL's term against a float64 transcription of section 3.3, the sinusoid of every distance written out."""

import pytest
import torch

from lengthlab.schemes.transformer_xl import TransformerXL

B, H, K, D = 2, 4, 8, 32


@pytest.fixture
def layer(scheme_of):
    return TransformerXL(scheme_of("nope").dims, std=0.5).layer(0)


def logits(layer, q, k, q_pos, k_pos):
    visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    return layer.scores(q @ k.mT / K**0.5, q, k, None, q_pos, k_pos, visible)


def written_out(layer, q, k, distance):
    """((q_i + u)·k_j + (q_i + v)·(W R[d_ij])) / sqrt(K), R the sines and then the cosines; pair by pair, float64."""
    u, v, W = layer.u.double(), layer.v.double(), layer.project.double()
    rates = torch.tensor([10000.0 ** (-2 * n / D) for n in range(D // 2)], dtype=torch.float64)
    out = torch.zeros(B, H, q.shape[2], k.shape[2], dtype=torch.float64)
    for b in range(B):
        for i in range(q.shape[2]):
            for j in range(k.shape[2]):
                R = torch.cat(((distance[b, i, j] * rates).sin(), (distance[b, i, j] * rates).cos()))
                for h in range(H):
                    query, key = q[b, h, i].double(), k[b, h, j].double()
                    out[b, h, i, j] = ((query + u[h]) @ key + (query + v[h]) @ (W[h] @ R)) / K**0.5
    return out


@pytest.mark.parametrize("numbers", ["sequential", "a row each", "far", "real"])
@torch.no_grad()
def test_logits_are_the_papers(layer, numbers):
    q, k = torch.randn(B, H, 5, K), torch.randn(B, H, 17, K)
    k_pos = {
        "sequential": torch.arange(17),
        "a row each": torch.stack([torch.randperm(64)[:17].sort().values for _ in range(B)]),
        "far": torch.arange(17) + 10_000_000,
        "real": torch.arange(17) / 3,
    }[numbers]
    q_pos = k_pos[..., -5:]
    distance = q_pos.double().unsqueeze(-1) - k_pos.double().unsqueeze(-2)
    expected = written_out(layer, q, k, distance.expand(B, -1, -1))
    torch.testing.assert_close(logits(layer, q, k, q_pos, k_pos).double(), expected, atol=2e-5, rtol=0)


@torch.no_grad()
def test_distance_alone_matters_however_far(layer):
    q, k, pos = torch.randn(1, H, 9, K), torch.randn(1, H, 9, K), torch.arange(9)
    assert torch.equal(logits(layer, q, k, pos, pos), logits(layer, q, k, pos + 2**40, pos + 2**40))
    assert not torch.allclose(logits(layer, q, k, pos, pos), logits(layer, q, k, 2 * pos, 2 * pos), atol=1e-2)


def test_every_layer_has_its_own_parameters(scheme_of):
    scheme = TransformerXL(scheme_of("nope").dims)
    assert not torch.equal(scheme.layer(0).project, scheme.layer(1).project)
    assert sum(p.numel() for p in scheme.parameters()) == 2 * (2 * H * K + H * K * D)


def test_an_odd_width_is_refused(scheme_of):
    with pytest.raises(ValueError, match="^width=33: must be even for transformer_xl$"):
        TransformerXL(scheme_of("nope", width=33, heads=3).dims)

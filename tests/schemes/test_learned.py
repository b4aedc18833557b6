"""The learned table: row p is added at position p, every row learns, and there is nothing past the last one."""

import pytest
import torch


def test_row_p_is_added_at_position_p(scheme_of):
    scheme, x, pos = scheme_of("learned"), torch.randn(2, 3, 32), torch.tensor([[0, 1, 5], [2, 3, 63]])
    for row in range(2):
        for at in range(3):
            expected = x[row, at] + scheme.table[pos[row, at]]
            assert torch.equal(scheme.embed(x, pos)[row, at], expected)


def test_the_table_has_a_row_for_every_training_position(scheme_of):
    scheme = scheme_of("learned", length=48)
    assert scheme.horizon == 48 == len(scheme.table)
    assert scheme.table.numel() == sum(p.numel() for p in scheme.parameters())
    assert scheme.table.std().item() == pytest.approx(0.02, rel=0.1)


def test_every_row_learns_and_no_other_position_moves_it(scheme_of):
    scheme = scheme_of("learned")
    scheme.embed(torch.zeros(1, 64, 32), torch.arange(64)).sum().backward()
    assert (scheme.table.grad == 1).all()
    scheme.table.grad = None
    scheme.embed(torch.zeros(1, 2, 32), torch.tensor([3, 9])).sum().backward()
    assert scheme.table.grad.abs().sum(1).nonzero().flatten().tolist() == [3, 9]


@pytest.mark.parametrize("pos", [[64], [0, 1, 64], [100_000], [[0, 1], [2, 64]]])
def test_past_the_horizon_is_undefined(scheme_of, pos):
    pos = torch.tensor(pos)
    with pytest.raises(ValueError, match=r"^learned positions are 0 to 63, got \d+: undefined$"):
        scheme_of("learned").embed(torch.zeros(pos.shape[0] if pos.ndim == 2 else 1, pos.shape[-1], 32), pos)


def test_positions_do_not_count_from_the_end(scheme_of):
    with pytest.raises(ValueError, match="got -1: undefined"):
        scheme_of("learned").embed(torch.zeros(1, 2, 32), torch.tensor([-1, 0]))


def test_a_fraction_lies_between_the_rows_around_it(scheme_of):
    scheme = scheme_of("learned", length=8)
    table, zeros = scheme.table.detach().double(), torch.zeros(1, 4, 32)
    pos = torch.tensor([0.25, 3.5, 6.0, 6.9])
    expected = torch.stack(
        [(1 - w) * table[i] + w * table[i + 1] for i, w in ((0, 0.25), (3, 0.5), (6, 0.0), (6, 0.9))]
    )
    torch.testing.assert_close(scheme.embed(zeros, pos)[0].double(), expected, atol=1e-8, rtol=0)
    whole = torch.tensor([0, 3, 7, 7])
    assert torch.equal(scheme.embed(zeros, whole.float()), scheme.embed(zeros, whole))
    for wrong in (7.5, -0.5):
        with pytest.raises(ValueError, match="0 to 7"):
            scheme.embed(zeros[:, :1], torch.tensor([wrong]))

"""What a learned table's extensions add at each position, against rows picked and mixed one by one; and DroPE."""

import pytest
import torch

from lengthlab.schemes.extensions.clamp import Clamp
from lengthlab.schemes.extensions.drope import DroPE
from lengthlab.schemes.extensions.interpolate import Interpolate
from lengthlab.schemes.extensions.tile import Tile
from lengthlab.schemes.nope import NoPE

ROWS = 12


@pytest.fixture
def table(scheme_of):
    return scheme_of("learned", length=ROWS)


def added(scheme, *pos: int) -> torch.Tensor:
    return scheme.embed(torch.zeros(1, len(pos), 32), torch.tensor(pos))[0]


def test_clamp_repeats_the_last_row(table):
    scheme = Clamp().wrap(table, 4096)
    assert scheme.horizon is None
    assert torch.equal(added(scheme, 0, 11, 12, 100_000), table.table[[0, 11, 11, 11]])


def test_tile_starts_again(table):
    scheme = Tile().wrap(table, 4096)
    assert scheme.horizon is None
    assert torch.equal(added(scheme, 0, 11, 12, 23, 24, 12_005), table.table[[0, 11, 0, 11, 0, 5]])


@pytest.mark.parametrize("s", [1.0, 1.5, 3.0, 7.3])
def test_interpolate_mixes_the_rows_around_p_over_s(table, s):
    scheme = Interpolate(s).wrap(table, 1)
    for p in range(scheme.horizon):
        place = min(p / s, ROWS - 1)
        below = int(place)
        above, share = min(below + 1, ROWS - 1), place - below
        expected = (1 - share) * table.table[below].double() + share * table.table[above].double()
        torch.testing.assert_close(added(scheme, p)[0].double(), expected, atol=1e-6, rtol=0)


def test_interpolate_at_one_is_the_table(table):
    scheme = Interpolate(1.0).wrap(table, 1)
    assert scheme.horizon == ROWS
    assert torch.equal(added(scheme, *range(ROWS)), table.table)


@pytest.mark.parametrize("length", [12, 13, 17, 48, 100, 4096, 99_999])
@pytest.mark.parametrize("factor", ["auto", "dynamic"])
def test_the_interpolated_horizon_is_the_length_that_is_read(table, length, factor):
    scheme = Interpolate(factor).wrap(table, length)
    assert scheme.horizon == length
    assert added(scheme, length - 1).isfinite().all()
    with pytest.raises(ValueError, match=rf"^interpolated positions are 0 to {length - 1}, got {length}: undefined$"):
        added(scheme, length)


@pytest.mark.parametrize("length", [29, 58, 123, 450])
def test_a_horizon_is_whole_where_the_factor_is_not(scheme_of, length):
    """Here length / 7 * 7 is a little more than length in float64."""
    assert length / 7 * 7 > length
    assert Interpolate().wrap(scheme_of("learned", length=7), length).horizon == length


def test_a_dynamic_horizon_follows_what_is_read(table):
    scheme = Interpolate("dynamic").wrap(table, 48)
    for n, expected in ((5, 12), (36, 36), (12, 12)):
        scheme.extend(n)
        assert scheme.horizon == expected


@pytest.mark.parametrize("extension", [Clamp(), Tile(), Interpolate(4.0)])
def test_positions_do_not_count_from_the_end(table, extension):
    with pytest.raises(ValueError, match="got -1: undefined"):
        added(extension.wrap(table, 48), -1, 0)


def test_the_table_itself_stays_undefined_past_its_end(table):
    for extension in (Clamp(), Tile(), Interpolate(4.0)):
        extension.wrap(table, 48)
    assert table.horizon == ROWS
    with pytest.raises(ValueError, match="undefined"):
        added(table, ROWS)


def test_drope_leaves_no_position_at_all(scheme_of):
    for name in ("rope", "alibi", "learned", "sinusoidal", "rnope"):
        dropped = DroPE().wrap(scheme_of(name), 4096)
        assert type(dropped) is NoPE and dropped.dims == scheme_of(name).dims

"""No extension: every scheme is read as it was trained."""

from pathlib import Path

import pytest

from lengthlab.schemes.extensions.none import Unchanged

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / "scheme").glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_none_fits_every_scheme_and_hands_it_back(name, scheme_of):
    scheme = scheme_of(name)
    assert isinstance(scheme, Unchanged.fits)
    assert Unchanged().wrap(scheme, 4096) is scheme

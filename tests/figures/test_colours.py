"""Colours: fixed, readable on white, apart to the colour-blind; and shades that keep their hue."""

import colorsys
import itertools
import re

import numpy as np
import pytest

from lengthlab.figures import colour, marker
from lengthlab.figures.colours import SCHEMES, shade


def test_known_schemes_have_distinct_fixed_looks():
    assert len({colour(name) for name in SCHEMES}) == len(SCHEMES)
    assert (colour("alibi"), marker("alibi"), colour("rope")) == ("#0072b2", "o", "#d55e00")


def contrast(tint):
    """WCAG contrast on white."""
    parts = [int(tint[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 1.05 / (np.dot(linear, [0.2126, 0.7152, 0.0722]) + 0.05)


@pytest.mark.parametrize("name", [*SCHEMES, "mine", "another", ""])
def test_every_colour_is_readable_on_white(name):
    assert re.fullmatch("#[0-9a-f]{6}", colour(name))
    assert contrast(colour(name)) >= 3


def lab(name, sight):
    parts = np.array([int(colour(name)[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    seen = np.clip(sight @ np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4), 0, 1)
    to_xyz = np.array([[0.4338, 0.3763, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]])  # by white
    x, y, z = np.cbrt(np.maximum(to_xyz @ seen, 1e-3))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


SIGHTS = {  # Machado et al. 2009, full severity, linear RGB
    "normal": np.eye(3),
    "red-blind": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "green-blind": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
}


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_known_colours_stay_apart_to_the_colour_blind(sight):
    seen = [lab(name, np.array(sight)) for name in SCHEMES]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 10


def test_unknown_scheme_keeps_its_look():
    assert (colour("mine"), marker("mine")) == ("#497719", "P")


@pytest.mark.parametrize("name", [*SCHEMES, "mine"])
def test_shades_of_a_scheme_go_in_equal_steps_of_lightness_from_dark_to_light(name):
    shades = [shade(colour(name), rank, 12) for rank in range(12)]
    lightness = [116 * np.cbrt(1.05 / contrast(tint) - 0.05) - 16 for tint in shades]  # CIE L*
    assert np.allclose(np.diff(lightness), 42 / 11, atol=0.6) and contrast(shades[-1]) >= 3
    assert shade(colour(name), 0, 1) == colour(name)


@pytest.mark.parametrize("name", ["alibi", "rope", "sinusoidal", "t5"])
def test_shades_keep_their_hue(name):
    hue, *rest = (
        colorsys.rgb_to_hls(*(int(tint[i : i + 2], 16) for i in (1, 3, 5)))[0]
        for tint in (colour(name), *(shade(colour(name), rank, 5) for rank in range(5)))
    )
    assert max(abs((other - hue + 0.5) % 1 - 0.5) for other in rest) < 0.04  # of a turn

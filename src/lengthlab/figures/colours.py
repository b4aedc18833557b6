"""One fixed colour and marker per scheme, the same in every figure and table; its variants are shades of it."""

import colorsys
import hashlib

# Okabe-Ito for the six that are in most figures; the rest chosen so that every pair stays apart to normal,
# red-blind and green-blind eyes (11 in CIE Lab), at a contrast of 3 to 1 on white.
SCHEMES = {
    "alibi": ("#0072b2", "o"),
    "rope": ("#d55e00", "s"),
    "sinusoidal": ("#c9709f", "^"),
    "learned": ("#7a1f4f", "D"),
    "nope": ("#222222", "X"),
    "t5": ("#009e73", "v"),
    "kerple_log": ("#484818", "P"),
    "kerple_power": ("#1818d8", "<"),
    "sandwich": ("#d87848", ">"),
    "fire": ("#181878", "*"),
    "xpos": ("#906048", "h"),
    "cope": ("#1860d8", "p"),
    "fox": ("#187878", "d"),
    "shaw": ("#6090c0", "8"),
    "dape": ("#903048", "H"),
    "cable": ("#603078", "^"),
    "rerope": ("#c04818", "v"),
    "self_extend": ("#303018", "s"),
    "rnope": ("#c03078", "o"),
}
MARKERS = "os^DXvP<>*hpd8H"
DARKEST, LIGHTEST = 18, 60  # CIE L* of a scheme's first and last variant; 60 is 3 to 1 on white


def colour(scheme: str) -> str:
    """`#rrggbb` of a scheme: from the table, else from a hash of its name."""
    if scheme in SCHEMES:
        return SCHEMES[scheme][0]
    digest = _digest(scheme)
    hue, lightness = int.from_bytes(digest[:2], "big") / 65536, 0.28 + 0.16 * digest[2] / 255
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, lightness, 0.65))


def marker(scheme: str) -> str:
    """The matplotlib marker of a scheme, so that curves are told apart in grey as well."""
    return SCHEMES[scheme][1] if scheme in SCHEMES else MARKERS[_digest(scheme)[3] % len(MARKERS)]


def shade(tint: str, rank: int, count: int) -> str:
    """`#rrggbb` of the hue of `tint`, for the variant `rank` of `count`: lightness in equal steps, dark to light."""
    if count == 1:
        return tint
    parts = [int(tint[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    now = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    wanted = ((DARKEST + (LIGHTEST - DARKEST) * rank / (count - 1) + 16) / 116) ** 3
    white = max(0, (wanted - now) / (1 - now))  # mixed with white, or with black where less light is wanted
    mixed = [p * min(1, wanted / now) * (1 - white) + white for p in linear]
    encoded = [12.92 * p if p <= 0.0031308 else 1.055 * p ** (1 / 2.4) - 0.055 for p in mixed]
    return "#" + "".join(f"{round(255 * part):02x}" for part in encoded)


def _digest(scheme: str) -> bytes:
    return hashlib.sha256(scheme.encode()).digest()

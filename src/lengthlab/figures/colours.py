"""One fixed colour and marker per scheme, the same in every figure and table."""

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


def _digest(scheme: str) -> bytes:
    return hashlib.sha256(scheme.encode()).digest()

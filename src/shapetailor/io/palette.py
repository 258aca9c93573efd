"""The colours of regions, in overlays and in label maps."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping

#: Colours for colour-blind people too (Okabe and Ito, "Color universal design", 2008), without black.
COLOURS = (
    (0, 114, 178),  # blue
    (230, 159, 0),  # orange
    (0, 158, 115),  # bluish green
    (204, 121, 167),  # reddish purple
    (240, 228, 66),  # yellow
    (213, 94, 0),  # vermilion
    (86, 180, 233),  # sky blue
)


def palette(count: int, colours: Mapping[int, tuple[int, int, int]]) -> list[int]:
    """Return red, green and blue of the first numbers, one after the other; those not in `colours` are regions."""
    return [value for number in range(count) for value in colours.get(number) or region_colour(number)]


def region_colour(number: int) -> tuple[int, int, int]:
    """Return the colour of a region: of `COLOURS`, beyond them hues a golden angle apart."""
    if 0 <= number < len(COLOURS):
        return COLOURS[number]
    red, green, blue = colorsys.hls_to_rgb(0.618034 * number % 1.0, (0.45, 0.65)[number % 2], 0.7)
    return round(255 * red), round(255 * green), round(255 * blue)

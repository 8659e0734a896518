"""The colours of the page: contrast in both colour schemes."""

import itertools
import re

import pytest

from dualmctx.pages import SHARED_STYLE

STYLE = SHARED_STYLE.read_text("utf-8")
COLOUR = r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)"
SCHEMES = ("light", "dark")


def colours(selector, scheme):
    """Returns the colours that the block of a selector sets."""
    [block] = re.findall(rf"(?<!\w){re.escape(selector)} \{{(.*?)\}}", STYLE, re.DOTALL)
    return {name: pair[SCHEMES.index(scheme)] for name, *pair in re.findall(COLOUR, block)}


def luminance(colour):
    """Returns the relative luminance of a colour, as in the guidelines."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first, second):
    """Returns the ratio of the luminance of two colours, from 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_and_stones_have_enough_contrast(scheme):
    """Web Content Accessibility Guidelines 2.2, level AA: 4.5 for text, 3 for parts of graphics."""
    named = colours(":root", scheme)
    assert len(named) == 23
    inks = ("ink", "muted", "accent", "good", "bad")
    pairs = [*itertools.product(inks, ("background", "panel", "shade"))]
    for ink, ground in [*pairs, ("on-accent", "accent"), ("ink", "hole"), ("ink", "win")]:
        assert contrast(named[ink], named[ground]) >= 4.5, (ink, ground)
    for pit in (named["pit"], colours(".game-connect_four", scheme)["pit"]):
        assert min(contrast(pit, named[f"stone-{x}"]) for x in ("first", "second")) >= 3, pit


def test_contrast_of_black_and_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)

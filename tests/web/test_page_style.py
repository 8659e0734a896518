"""The colours of the page: contrast in both colour schemes."""

import re

import pytest

from dualmctx.pages import SHARED_STYLE

SCHEMES = ("light", "dark")
# Level AA of the Web Content Accessibility Guidelines 2.2, section 1.4.3.
LEAST_CONTRAST = 4.5


def colours(scheme):
    """Returns the colours of `:root`."""
    [block] = re.findall(r":root \{(.*?)\}", SHARED_STYLE.read_text("utf-8"), re.DOTALL)
    rows = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", block)
    assert len(rows) == block.count("--")
    return {name: pair[SCHEMES.index(scheme)] for name, *pair in rows}


def luminance(colour):
    """Returns the relative luminance of a colour, as in the guidelines."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first, second):
    """Returns the ratio of the luminance of two colours, from 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_enough_contrast(scheme):
    named = colours(scheme)
    pairs = [
        (ink, ground)
        for ink in ("ink", "muted", "accent", "good", "bad")
        for ground in ("background", "panel", "shade")
    ]
    weak = {
        pair: round(contrast(*(named[name] for name in pair)), 2)
        for pair in [*pairs, ("on-accent", "accent"), ("ink", "hole"), ("ink", "win")]
        if contrast(*(named[name] for name in pair)) < LEAST_CONTRAST
    }
    assert not weak


@pytest.mark.parametrize("scheme", SCHEMES)
def test_stones_differ_from_holes(scheme):
    """Section 1.4.11 of the guidelines: at least 3 for parts of a graphic."""
    text = SHARED_STYLE.read_text("utf-8")
    pattern = r"\.game-connect_four \{[^}]*--pit: light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)"
    [own] = re.findall(pattern, text)
    named = colours(scheme)
    for pit in (named["pit"], own[SCHEMES.index(scheme)]):
        stones = (named["stone-first"], named["stone-second"])
        assert min(contrast(pit, stone) for stone in stones) >= 3, pit


def test_contrast_of_black_and_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)

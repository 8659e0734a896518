"""The formats of numbers in reports."""

import math

import numpy as np
import pytest

from dualmctx.reports.numbers import (
    show_decimal,
    show_elo,
    show_interval,
    show_number,
    show_probability,
    show_share,
    show_signed,
)

NUMBERS = {
    **{"–": None, "∞": math.inf, "−∞": -math.inf, "0": -0.0},
    **{"12,345": 12_345, "−12,345": np.int64(-12_345), "1,000,000,000,000": 10**12},
    **{"1,234": 1234.5, "123": 123.4, "12.3": 12.34, "1.00": 0.9996, "100": 99.96},
    **{"0.00123": 0.001234, "0.000100": 0.0001, "−0.500": -0.5, "1.00e−107": 1e-107},
    **{"−2.22e−16": -2.22e-16, "1.00e−4": 9.996e-5, "1.50e300": 1.5e300},
}
PROBABILITIES = {
    **{"–": None, "0": -2.2e-16, "<0.001": 0.00099, "0.250": 0.25},
    **{"0.999": 0.9989, ">0.999": 0.9999999, "1": 1 + 2e-16},
}


@pytest.mark.parametrize(
    ("show", "values"), [(show_number, NUMBERS), (show_probability, PROBABILITIES)]
)
def test_numbers_have_three_digits_and_probabilities_may_be_bounds(show, values) -> None:
    assert [show(value) for value in values.values()] == [*values]


def test_a_missing_number_is_a_dash_and_a_rounded_zero_has_no_sign() -> None:
    assert {show_number(math.nan), show_share(None), show_elo({"elo": None})} == {"–"}
    assert [show_decimal(x, 2) for x in (-0.001, 0.0, -0.006)] == ["0.00", "0.00", "−0.01"]
    assert [show_share(x, 1) for x in (-1e-9, 0.125)] == ["0.0%", "12.5%"]
    assert [show_signed(x) for x in (-0.4, 0.4, -0.6, 1234.0)] == ["0", "0", "−1", "+1,234"]
    assert show_interval({"low": -0.2, "high": None}) == "0 … +∞"
    assert show_interval({"low": None, "high": -70.0}) == "−∞ … −70"


def test_random_numbers_stay_short_and_keep_their_value() -> None:
    rng = np.random.default_rng(0)
    for value in (rng.choice([-1, 1], 500) * 10 ** rng.uniform(-120, 120, 500)).tolist():
        shown = show_number(value)
        assert len(shown) <= 12
        read = float(shown.replace("−", "-").replace(",", ""))
        assert read == pytest.approx(value, rel=0.0051)

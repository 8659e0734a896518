"""The dtype in which a trunk computes."""

from dualmctx.checks import check

DTYPES = ("float32", "bfloat16")
"""The names of the dtypes in which a trunk can compute."""


def check_dtype(dtype: str) -> None:
    """Checks the name of a trunk's dtype.

    Raises:
      ValueError: if it is not in `DTYPES`.
    """
    check(dtype in DTYPES, "dtype", dtype, f"one of {', '.join(DTYPES)}")

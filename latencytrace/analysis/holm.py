"""Correction of p-values for their number.

Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
Statistics, 1979.
"""

import numpy as np
from numpy.typing import NDArray


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correct p-values for how many tests were made, so that all hold together."""
    order = np.argsort(p_values, kind="stable")
    stepped = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return corrected

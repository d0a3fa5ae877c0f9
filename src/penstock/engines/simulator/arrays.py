"""Array types of the simulator: times and rates as floats, indices and counts as integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.integer[Any]]
Indices = npt.NDArray[np.intp]

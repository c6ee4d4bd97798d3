"""Types of numpy's arrays; modules that are sent to devices do without."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
AnyArray = npt.NDArray[Any]  # samples and labels of a data set, whatever their type

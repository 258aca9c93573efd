"""Names for the arrays that everything passes around."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ints = NDArray[np.int64]
#: H×W, the number of each pixel's region; negative: in none.
Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
#: H×W×3, for the eye.
RGB8 = NDArray[np.uint8]
#: Rows and columns of a part of a picture.
Box = tuple[slice, slice]

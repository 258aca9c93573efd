"""Names for the arrays that everything passes around, and whatever a user gives as one."""

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


def as_array(given: Any, name: str) -> Array:
    """Return an array, a tensor (of any device, with or without gradients) or nested lists as an array.

    A TypeError names the argument that is nothing of the kind.
    """
    try:
        if not is_tensor(given):
            return np.asarray(given)
        narrow = given.is_floating_point() and given.element_size() < 4  # NumPy has no bfloat16
        found: Array = (given.float() if narrow else given).numpy(force=True)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = f"{type(given).__name__} ({str(error).splitlines()[0]})"
        raise TypeError(f"{name} must be an array or a tensor of numbers, got {reason}") from error
    return found


def is_tensor(given: Any) -> bool:
    """Whether something is a tensor of torch, which need not be imported."""
    return hasattr(given, "detach") and hasattr(given, "numpy")

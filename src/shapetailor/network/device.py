"""Where to compute: a device that is there, or an error in words."""

from __future__ import annotations

import torch


def usable_device(device: str | torch.device) -> torch.device:
    """Return the device of this name; a ValueError says why it cannot be used."""
    try:
        found = torch.device(device)
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise ValueError(f'device must be "cpu", "cuda" or "cuda:N", got {str(device)!r}')
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= count:
            raise ValueError(
                f"device is {found}, but PyTorch {torch.__version__} sees {count or 'no'} GPU here; use cpu"
            )
    return found

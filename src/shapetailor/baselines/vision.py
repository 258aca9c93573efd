"""torchvision's segmentation networks, also where its compiled operators do not load.

On import torchvision registers shapes of its operators ``nms`` and ``qnms``, and fails where its compiled part was
built for another torch. The networks used here need neither: declaring them lets the import pass.
"""

from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

HINT = "pip install 'shapetailor[baselines]'"
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@cache
def missing() -> str | None:
    """Return None where the networks can be made, else why not."""
    if find_spec("torchvision") is None:
        return f"torchvision is not installed: {HINT}"
    try:
        _networks()
    except Exception as error:  # whatever another version's import may raise is a reason, not a failure of ours
        return f"torchvision does not work with torch {torch.__version__}: {type(error).__name__}: {error}"
    return None


def segmentation_network(architecture: str, outputs: int) -> torch.nn.Module:
    """Return torchvision's network of this name with random weights; an ImportError says why it cannot be made."""
    reason = missing()
    if reason:
        raise ImportError(reason)
    make = getattr(_networks(), architecture)
    net: torch.nn.Module = make(weights=None, weights_backbone=None, num_classes=outputs, aux_loss=False)
    return net


@cache
def _networks() -> Any:
    """Import the networks; declare what torchvision's compiled operators would, unless they load."""
    spec = find_spec("torchvision")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for file in (file for folder in folders for file in sorted(Path(folder).glob("_C*"))):
        with suppress(OSError):
            torch.ops.load_library(str(file))
            break
    else:
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                torch.library.define(f"torchvision::{name}", SIGNATURE)
    return import_module("torchvision.models.segmentation")

"""Bad input gets its own clear error at the door."""

import numpy as np
import pytest
import torch

import shapetailor as st
from shapetailor.poisson import Edges, edges_of

X = torch.ones(1, 2, 4, 5)
LABELS = torch.zeros(1, 4, 5, dtype=torch.long)
NAN = X.clone()
NAN[0, 1, 2, 3] = torch.nan
INFINITE = X.clone()
INFINITE[0, 0, 0, 0] = torch.inf
EDGES = edges_of(LABELS)


@pytest.mark.parametrize(
    ("error", "match", "arguments", "options"),
    [
        (TypeError, r"x must be a torch\.Tensor, got ndarray", (np.ones((1, 2, 4, 5)), LABELS, 1.0), {}),
        (TypeError, "x must be float32 or float64, got torch.int64", (X.long(), LABELS, 1.0), {}),
        (TypeError, "x must be float32 or float64, got torch.float16", (X.half(), LABELS, 1.0), {}),
        (ValueError, r"x must have the shape \(B, C, H, W\), got \(2, 4, 5\)", (X[0], LABELS, 1.0), {}),
        (ValueError, "x must not be empty", (X[:, :0], LABELS, 1.0), {}),
        (ValueError, "x must not be empty", (torch.ones(1, 1, 0, 5), torch.zeros(1, 0, 5, dtype=torch.long), 1.0), {}),
        (ValueError, "x must be finite inside the regions; 1 values", (NAN, LABELS, 1.0), {}),
        (ValueError, "x must be finite inside the regions; 1 values", (INFINITE, LABELS, 1.0), {}),
        (TypeError, "labels must be integers, got torch.float32", (X, LABELS.float(), 1.0), {}),
        (TypeError, r"labels must be integers, got torch.bool; for a mask", (X, LABELS.bool(), 1.0), {}),
        (TypeError, "labels must be an integer torch.Tensor or Edges, got list", (X, [[0]], 1.0), {}),
        (ValueError, r"labels must have the shape \(1, 4, 5\).*got \(1, 5, 4\)", (X, LABELS.mT, 1.0), {}),
        (ValueError, r"labels must have the shape .*got \(4, 5\)", (X, LABELS[0], 1.0), {}),
        (ValueError, "labels must be on the device of x, cpu; it is on meta", (X, LABELS.to("meta"), 1.0), {}),
        (ValueError, r"labels.across must have", (X, Edges(EDGES.down, EDGES.down, EDGES.inside), 1.0), {}),
        (ValueError, "conductances must be finite", (X, Edges(-EDGES.across, EDGES.down, EDGES.inside), 1.0), {}),
        (ValueError, "alpha must be finite and not negative", (X, LABELS, -1.0), {}),
        (ValueError, "alpha must be finite and not negative", (X, LABELS, float("nan")), {}),
        (ValueError, r"alpha must be a number.*got shape \(3,\)", (X, LABELS, torch.ones(3)), {}),
        (ValueError, r"alpha must be a number.*got shape \(0,\)", (X, LABELS, torch.ones(0)), {}),
        (TypeError, "alpha must be a number or a torch.Tensor, got str", (X, LABELS, "5"), {}),
        (TypeError, "alpha must be real", (X, LABELS, torch.ones(2, dtype=torch.complex64)), {}),
        (ValueError, "tol must be between 0 and 1, got 0", (X, LABELS, 1.0, 0), {}),
        (ValueError, "max_steps must be at least 1, got 0", (X, LABELS, 1.0), {"max_steps": 0}),
        (ValueError, "backend must be one of 'auto'", (X, LABELS, 1.0), {"backend": "magic"}),
        (ValueError, "runs on a GPU", (X, LABELS, 1.0), {"backend": "triton"}),
        (ValueError, "guess must be a tensor of the result's shape", (X, LABELS, 1.0), {"guess": X[0]}),
        (ValueError, "guess must be finite", (X, LABELS, 1.0), {"guess": NAN}),
    ],
)
def test_bad_input(error, match, arguments, options):
    with pytest.raises(error, match=match):
        st.smooth(*arguments, **options)


def test_dense_refuses_large_images():
    with pytest.raises(ValueError, match=r"at most 9216 pixels; got 100×100"):
        st.smooth(torch.ones(1, 1, 100, 100), torch.zeros(1, 100, 100, dtype=torch.int64), 1.0, backend="dense")


def test_huge_but_finite_data_is_not_taken_for_infinite():
    x = torch.full((1, 1, 4, 5), 3e38)
    assert torch.isfinite(st.smooth(x, LABELS, 0.5)).all()

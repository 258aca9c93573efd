"""Whatever a user gives as an array."""

import io

import numpy as np
import pytest
import torch

from shapetailor.arrays import as_array

VALUES = torch.tensor([[0.5, 0.25], [1.0, 0.0]])


@pytest.mark.parametrize(
    "tensor",
    [
        VALUES.clone().requires_grad_(),
        VALUES.bfloat16(),
        VALUES.half(),
        torch.complex(VALUES, -VALUES).conj().imag,  # a view whose signs are still to be turned
        VALUES.T.contiguous().T,
    ],
    ids=["with gradients", "bfloat16", "half", "negative view", "not contiguous"],
)
def test_tensors_of_every_kind_are_taken_as_they_are(tensor):
    np.testing.assert_array_equal(as_array(tensor, "image"), VALUES)


@pytest.mark.parametrize("given", [torch.empty(2, 2, device="meta"), VALUES.to_sparse(), [[1, 2], [3]]])
def test_what_has_no_values_is_refused_by_its_name(given):
    with pytest.raises(TypeError, match=r"^marks must be an array or a tensor of numbers, got"):
        as_array(given, "marks")


def test_an_open_file_is_no_tensor():
    with io.FileIO(__file__) as file:
        assert as_array(file, "image").dtype == object

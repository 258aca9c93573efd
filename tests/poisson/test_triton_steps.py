"""Fused steps, by Triton's interpreter on the CPU."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

SCRIPT = """
import torch
from shapetailor.poisson import chebyshev, edges_of, smooth
from shapetailor.poisson.cuda.triton_steps import Stepper

torch.manual_seed(0)
x, labels, alphas = torch.rand(2, 2, 9, 11), torch.randint(-1, 2, (2, 9, 11)), torch.tensor([[5.0, 2.0], [0.5, 0.0]])
edges = edges_of(labels)
inside = torch.where(edges.inside[:, None], x, 0)
gamma, omegas = chebyshev.step_weights(chebyshev.condition(5.0), 40)
found = Stepper(inside, edges.across, edges.down, alphas).run(gamma, omegas.tolist())
torch.testing.assert_close(found.double(), smooth(x.double(), labels, alphas.double(), 1e-10), atol=1e-4, rtol=0)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_fused_steps_solve_the_equation():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}  # read when Triton is imported
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, env=environment, timeout=100)

"""Shared by all tests: threads, compiled code, where the public research data lies and how tests that need it skip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before NumPy is imported: two workers on two cores, each with BLAS threads that spin, would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("default", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("default")

DATA = Path(os.environ.get("SHAPETAILOR_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_sessionstart(session):
    """Compile one solver in each of two workers; tests begin when both are ready, and load the other from the cache.

    Numba's cache has no lock: two processes must not save one function for two types of numbers at the same time.
    """
    backend = {"gw0": "chebyshev", "gw1": "multigrid"}.get(os.environ.get("PYTEST_XDIST_WORKER"))
    if backend is not None:
        import torch

        from shapetailor import smooth

        for dtype in (torch.float32, torch.float64):
            smooth(torch.ones(1, 5, 8, 8, dtype=dtype), torch.zeros(1, 8, 8).long(), 1.0, backend=backend)


@pytest.fixture(scope="session")
def data_dir():
    """Return a function: dataset name → its folder, or a skip that says what is missing."""

    def folder(name: str) -> Path:
        path = DATA / name
        if not path.is_dir():
            pytest.skip(f"needs the {name} data in {path} (set SHAPETAILOR_DATA to the folder that holds it)")
        return path

    return folder


@pytest.fixture(scope="session")
def taught(tmp_path_factory):
    """A project of classes that was taught and applied, not to be changed."""
    from class_pictures import project

    from shapetailor.cli import main

    folder = project(tmp_path_factory.mktemp("taught") / "steel")
    assert main(["teach", str(folder)]) == 0
    assert main(["apply", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def ray_cluster():
    """A real Ray cluster: a head without cores, which survives, and two nodes of one core each (`workers`)."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    here, store = Path(__file__).parent, {"object_store_memory": 80 * 2**20}
    # Nodes are asked more often than usual, so that a killed one is soon missed. One that is merely slow is waited for.
    asked = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {"num_cpus": 0, **store, "include_dashboard": False, "_system_config": asked}
    paths = [str(here / "workers"), str(here.parent / "src"), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.workers = [cluster.add_node(num_cpus=1, **store) for _ in range(2)]
        yield cluster
        ray.shutdown()
        cluster.shutdown()

"""Shared by all tests: where the public research data lies, and how tests that need it skip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("default")

DATA = Path(os.environ.get("SHAPETAILOR_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data_dir():
    """Return a function: dataset name → its folder, or a skip that says what is missing."""

    def folder(name: str) -> Path:
        path = DATA / name
        if not path.is_dir():
            pytest.skip(f"needs the {name} data in {path} (set SHAPETAILOR_DATA to the folder that holds it)")
        return path

    return folder

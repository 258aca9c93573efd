import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "classes"))


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory, monkeypatch):
    """The key of the page's cookie is kept in the user's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))

import pytest
from class_pictures import picture, project

from shapetailor.cli import main


@pytest.fixture(scope="session")
def taught(tmp_path_factory):
    """A project that was taught and applied, not to be changed."""
    folder = project(tmp_path_factory.mktemp("taught") / "steel")
    assert main(["teach", str(folder)]) == 0
    assert main(["apply", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def classifier(taught):
    from shapetailor import Classifier

    return Classifier.load(taught / "model.safetensors")


@pytest.fixture
def sample():
    return picture(11, 56)

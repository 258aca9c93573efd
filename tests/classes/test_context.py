import pytest
import torch

from shapetailor.classes import context as module
from shapetailor.classes.head import Head

FEATURES = 20


@pytest.fixture
def head():
    generator = torch.Generator().manual_seed(0)
    made = Head(FEATURES, 4, context=True)
    made.context.initialise(generator)
    with torch.no_grad():
        made.context.out.weight.normal_(generator=generator)
    return made.requires_grad_(False)


@pytest.fixture
def features():
    return torch.randn(FEATURES, 61, 83, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("shape", [(61, 83), (121, 163)])
def test_the_number_of_threads_changes_no_bit(head, threads, shape):
    features, found = torch.randn(FEATURES, *shape, generator=torch.Generator().manual_seed(1)), []
    for count in (1, 2, 3):
        threads(count)
        found.append(head.probabilities(features))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_bands_give_what_the_whole_gives(head, features, monkeypatch):
    with torch.enable_grad():
        whole = head.maps(features[None])
    for cells in (1, 5 * 83):
        monkeypatch.setattr(module, "BAND", cells)
        with torch.no_grad():
            torch.testing.assert_close(head.maps(features[None]), whole, rtol=1e-4, atol=1e-4)


def test_a_new_context_adds_nothing(features):
    head = Head(FEATURES, 4, context=True).requires_grad_(False)
    head.context.initialise(torch.Generator().manual_seed(0))
    cells = head(features.flatten(1).T).T.reshape(1, 4, *features.shape[1:])
    torch.testing.assert_close(head.maps(features[None]), cells, rtol=1e-4, atol=1e-5)


def test_a_cell_sees_far_around_through_the_context(head, features):
    other = features.clone()
    other[:, :, 60:] += 1
    changed = (head.maps(features[None]) - head.maps(other[None])).abs()
    assert changed[..., 50].min() > 1e-5  # ten columns away
    head.context = None
    assert torch.equal(head.maps(features[None])[..., :60], head.maps(other[None])[..., :60])

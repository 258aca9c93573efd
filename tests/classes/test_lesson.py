"""What a lesson makes of cells: features that are made here, no networks."""

import numpy as np
import pytest
import torch

from shapetailor.classes.copies import MOST_COPIED
from shapetailor.classes.features import channel_count
from shapetailor.classes.head import expect_shares, fit
from shapetailor.classes.lesson import (
    COPIES,
    MOST_CELLS,
    MOST_OTHERS,
    choose_cells,
    described_cells,
    held_out,
    learn,
)
from shapetailor.network.checkpoint import read_model

SOURCES = torch.arange(6)


def drawn(rng, counts, shift=0.0):
    """Cells of two classes that overlap, and their classes."""
    targets = np.repeat([0, 1], counts)
    features = rng.normal(size=(len(targets), 6)) + 0.6 * targets[:, None] + shift
    return torch.from_numpy(features).float(), torch.from_numpy(targets)


def picture(rng, marked, unmarked, shift=0.0):
    """A picture of 1 × n cells: features (6, 1, n), marks, truth."""
    features, targets = drawn(rng, marked, shift)
    others, truth = drawn(rng, unmarked, shift)
    cells = np.concatenate([targets.numpy(), np.full(len(truth), -1)])
    return torch.cat([features, others]).T[:, None], cells[None], truth


def _energies(net, values, marks, pictures, number=0):
    """Energies across and up of all cells that are kept of a picture, one of so many."""
    features = described_cells(net, None, values, marks, 1, 0, number, pictures).features
    channels = features[:, net.config.widths[-1] + net.fine.config.widths[-1] :]
    first = channel_count(net) - 5 * len(net.fine.config.energy_scales) + 1
    return channels[:, first], channels[:, first + 2]


def test_the_share_of_a_class_is_found_though_both_are_marked_equally_often():
    rng = np.random.default_rng(0)
    features, targets = drawn(rng, (300, 300))
    others, truth = drawn(rng, (2700, 300))
    head = fit(features, targets, 2, SOURCES, 0)
    before = head.of_cells(others).argmax(dim=1)
    counts = torch.bincount(targets)
    expect_shares(head, counts, counts, others, torch.ones(len(others)))
    after = head.of_cells(others).argmax(dim=1)
    wrong, better = (abs(found.float().mean() - 0.1) for found in (before, after))
    assert wrong > 0.1
    assert better < 0.5 * wrong
    assert (after == truth).sum() > (before == truth).sum()


def test_shares_of_fully_marked_pictures_stay():
    features, targets = drawn(np.random.default_rng(1), (400, 100))
    head = fit(features, targets, 2, SOURCES, 0)
    bias, counts = head.out.bias.clone(), torch.bincount(targets)
    expect_shares(head, counts, counts, features[:0], torch.ones(0))
    torch.testing.assert_close(head.out.bias, bias)


def test_cells_without_marks_teach_too():
    rng = np.random.default_rng(2)
    features, cells, _ = picture(rng, (20, 20), (4000, 400))
    test, right = drawn(rng, (4000, 400))
    accuracies = []
    for described, marks in ((features, cells), (features[:, :, :40], cells[:, :40])):
        head = learn([choose_cells(described, marks, [0])], 2, SOURCES, 0)
        accuracies.append((head.of_cells(test).argmax(dim=1) == right).float().mean())
    assert accuracies[0] > accuracies[1] + 0.05


def test_few_cells_of_a_large_picture_are_kept_and_stand_for_all():
    features = torch.zeros(6, 200, 200)
    cells = np.full((200, 200), -1)
    cells[:, :80] = 1
    kept = choose_cells(features, cells, [0])
    assert (len(kept.features), len(kept.others)) == (MOST_CELLS, MOST_OTHERS)
    assert kept.weight * MOST_CELLS == pytest.approx(200 * 80)
    assert kept.others_weight * MOST_OTHERS == pytest.approx(200 * 120)


def test_fewer_than_three_pictures_are_not_judged():
    rng = np.random.default_rng(3)
    pictures = [choose_cells(*picture(rng, (60, 60), (0, 0))[:2], [number]) for number in range(3)]
    judged = held_out(pictures, 2, SOURCES, 0)
    assert judged["folds"] == 3
    assert 0.5 < judged["mean_iou"] < judged["accuracy"] < 1
    assert len(judged["iou"]) == 2
    assert held_out(pictures[:2], 2, SOURCES, 0) is None


def test_a_single_picture_is_learnt_from_in_turned_copies_and_many_as_they_are():
    net = read_model("texture").net.rescaled(64)
    stripes = (0.5 + 0.4 * torch.sin(torch.arange(64.0))).expand(net.image_channels, 64, 64).numpy().copy()
    marks = np.zeros((64, 64), np.int64)
    across, up = _energies(net, stripes, marks, COPIES + 1)
    assert up.std() < 0.01 < 0.5 < across.std()  # nothing changes along the stripes
    across, up = _energies(net, stripes, marks, 1)
    assert up.std() > 0.5


def test_copies_of_a_picture_stand_for_no_more_than_the_picture():
    net = read_model("texture").net.rescaled(64)
    values = np.random.default_rng(0).random((net.image_channels, 64, 64), np.float32)
    marks = np.full((64, 64), -1, np.int64)
    marks[:, :32] = 0
    alone, copied = (described_cells(net, None, values, marks, 1, 0, 0, pictures) for pictures in (COPIES + 1, 1))
    cropped = described_cells(net, None, values, marks, 1, 0, 1, COPIES)
    for cells in (alone, copied, cropped):
        assert cells.weight * len(cells.targets) == pytest.approx(512, rel=0.2)
        assert cells.others_weight * len(cells.others) == pytest.approx(512, rel=0.2)
    assert len(copied.targets) > 6 * len(alone.targets)
    assert 1.1 * len(alone.targets) < len(cropped.targets) < 1.6 * len(alone.targets)


@pytest.mark.parametrize("pictures", [COPIES // 2 + 1, COPIES])
def test_of_a_picture_among_several_a_turned_crop_is_learnt_from_too(pictures):
    net = read_model("texture").net.rescaled(64)
    stripes = (0.5 + 0.4 * torch.sin(torch.arange(64.0))).expand(net.image_channels, 64, 64).numpy().copy()
    marks = np.zeros((64, 64), np.int64)
    across, up = _energies(net, stripes, marks, pictures, number=1)
    assert up.std() > 0.3
    assert across[:1024].std() > 0.5
    assert up[:1024].std() < 0.01  # the picture itself comes first
    assert len(across) > 1100


def test_a_copy_of_a_large_picture_shows_a_part_of_it():
    net = read_model("texture").net.rescaled(800)
    values = np.random.default_rng(0).random((net.image_channels, 800, 800), np.float32)
    marks = np.full((800, 800), -1, np.int64)
    marks[::20, ::20] = 0
    kept = described_cells(net, None, values, marks, 1, 0, 0, COPIES // 2)
    assert kept.weight == pytest.approx(1 / (1 + MOST_COPIED / marks.size))
    assert kept.weight * len(kept.targets) == pytest.approx(1600, rel=0.3)

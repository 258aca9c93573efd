from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.network.features import channel_count, channels, gray, normalise, prepare, prepared_count
from shapetailor.network.region_grid import Domain

#: Where each paper channel goes when the picture is transformed: the oriented gradients change places.
TURNED = {"turn": [0, 1, 2, 3, 6, 7, 4, 5], "flip": [0, 1, 2, 3, 4, 7, 6, 5]}


def regions(seed, height=9, width=8):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, 3, (1, height, width), generator=generator)
    return labels.repeat_interleave(2, dim=1)[:, :height]


def test_normalise_gives_each_picture_zero_mean_and_unit_variance():
    image = normalise(100 * torch.rand(3, 2, 16, 16) + 1000)
    torch.testing.assert_close(image.flatten(1).mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(image.flatten(1).std(1, correction=0), torch.ones(3), atol=1e-5, rtol=0)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8, -3e-30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalise_makes_a_constant_picture_zero(value, dtype):
    constant = torch.full((1, 3, 17, 19), value, dtype=dtype)
    assert torch.equal(normalise(constant), torch.zeros_like(constant))


def test_normalise_keeps_the_proportions_of_colours():
    image = torch.rand(1, 3, 5, 5, dtype=torch.float64)
    ratio = (image[:, 0] - image[:, 1]) / (image[:, 0] - image[:, 2])
    normal = normalise(image)
    torch.testing.assert_close((normal[:, 0] - normal[:, 1]) / (normal[:, 0] - normal[:, 2]), ratio)


@pytest.mark.parametrize(
    ("image", "error"),
    [([[1.0]], TypeError), (torch.zeros(1, 1, 4, 4, dtype=torch.uint8), TypeError), (torch.zeros(4, 4), ValueError)],
)
def test_normalise_names_what_arrived(image, error):
    with pytest.raises(error, match=r"image must .* got"):
        normalise(image)


def test_gray_is_luma_of_three_channels_and_the_mean_of_others():
    assert gray(torch.tensor([1.0, 2.0, 3.0]).reshape(1, 3, 1, 1)).item() == pytest.approx(
        0.299 + 2 * 0.587 + 3 * 0.114
    )
    assert gray(torch.tensor([1.0, 2.0, 3.0, 6.0]).reshape(1, 4, 1, 1)).item() == 3.0
    assert gray(torch.tensor([7.0]).reshape(1, 1, 1, 1)).item() == 7.0


@pytest.mark.parametrize(("colours", "expected"), [(1, 5), (2, 7), (3, 8), (16, 21)])
def test_paper_channels_are_colours_gray_and_four_gradients(colours, expected):
    image = torch.rand(1, colours, 6, 5)
    labels = regions(0, 6, 5)
    out = channels(image, Domain(labels), colours)
    assert out.shape == (1, expected, 6, 5) == (1, channel_count(colours, "paper", 3), 6, 5)
    assert torch.equal(out[:, :colours], torch.where(labels[:, None] >= 0, image, 0))
    assert (out[:, -4:] >= 0).all()


@pytest.mark.parametrize("colours", [1, 2, 3, 16])
@pytest.mark.parametrize("scales", [(0.0, 1.0, 4.0), (2.0,)])
def test_rich_channels_are_as_many_as_announced_and_finite(colours, scales):
    image = prepare(torch.rand(2, colours, 8, 7).round(), "rich", scales)
    assert image.shape[1] == prepared_count(colours, "rich", len(scales))
    out = channels(image, Domain(regions(0, 8, 7).expand(2, -1, -1)), colours, "rich", scales)
    assert out.shape[1] == channel_count(colours, "rich", len(scales))
    assert torch.isfinite(out).all()


def test_rich_channels_of_the_whole_picture_are_standardised_in_their_second_half():
    image = prepare(torch.rand(2, 3, 16, 16), "rich")
    out = channels(image, Domain(torch.zeros(2, 16, 16, dtype=torch.long)), 3, "rich")
    second = out.chunk(2, dim=1)[1].flatten(2)
    torch.testing.assert_close(second.mean(2), torch.zeros_like(second[:, :, 0]), atol=1e-4, rtol=0)
    assert ((second.std(2) > 0.5) & (second.std(2) < 1.01)).all()


def test_rich_channels_of_a_constant_picture_are_zero_in_their_second_half():
    image = prepare(torch.full((1, 3, 8, 8), 0.3), "rich")
    out = channels(image, Domain(torch.zeros(1, 8, 8, dtype=torch.long)), 3, "rich")
    assert out.chunk(2, dim=1)[1].abs().max() < 1e-3


def test_rich_preparation_refuses_values_outside_0_to_1():
    with pytest.raises(ValueError, match=r"image must have values in 0..1 .* got 0..255"):
        prepare(torch.tensor([0.0, 255.0]).reshape(1, 1, 1, 2), "rich")


@given(st.integers(0, 2**31), st.sampled_from(["paper", "rich"]))
def test_channels_of_a_region_do_not_change_with_the_rest(seed, kind):
    torch.manual_seed(seed)
    labels = regions(seed)
    image = prepare(torch.rand(1, 3, 9, 8), kind)
    for label in range(3):
        mine = labels == label
        other = torch.where(mine[:, None], image, 10 * torch.randn_like(image))
        kept, changed = (channels(x, Domain(labels), 3, kind)[:, :, mine[0]] for x in (image, other))
        assert torch.equal(kept, changed)


@given(st.integers(0, 2**31))
def test_paper_channels_turn_and_flip_with_the_picture_to_the_bit(seed):
    torch.manual_seed(seed)
    labels, image = regions(seed), torch.randn(1, 3, 9, 8)
    out = channels(image, Domain(labels), 3)
    for name, transform in {"turn": lambda x: x.rot90(1, (-2, -1)), "flip": lambda x: x.flip(-1)}.items():
        turned = channels(transform(image), Domain(transform(labels)), 3)
        assert torch.equal(turned, transform(out)[:, TURNED[name]])


def test_rich_channels_turn_and_flip_with_the_picture():
    torch.manual_seed(0)
    labels, image = regions(3), prepare(torch.rand(1, 1, 9, 8, dtype=torch.float64), "rich", tol=1e-10)
    out = channels(image, Domain(labels, torch.float64, tol=1e-10), 1, "rich")
    single = [0, 1, *(2 + 4 * s + o for s in range(3) for o in (2, 3, 0, 1)), 14, 15]
    places = single + [16 + place for place in single]
    turned = channels(image.rot90(1, (-2, -1)), Domain(labels.rot90(1, (-2, -1)), torch.float64, tol=1e-10), 1, "rich")
    back = turned.rot90(-1, (-2, -1))[:, places]
    raw, standard = back.chunk(2, dim=1)
    torch.testing.assert_close(raw, out[:, :16], rtol=1e-6, atol=1e-6)
    assert standard.shape == raw.shape  # its statistics, in `image`, were taken before the turn

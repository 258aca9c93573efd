"""What pictures are standardised by: light is taken off, what classes change stays."""

import numpy as np
import pytest
import torch
from class_pictures import CLASSES, thinned

from shapetailor import Classifier
from shapetailor.classes.standard import LIGHT, Measured, Standard, standard_of
from shapetailor.network.masked import Statistics

CHANNELS, DARK, BRIGHT = 3, 0.2, 0.8


def statistics(mean, deviation=0.5):
    whole = torch.full((1, CHANNELS, 1, 1), float(deviation))
    return Statistics(torch.full_like(whole, mean), 1 / whole)


def seen(share, light):
    """A picture with a share of the bright class, in some light."""
    mean = share * BRIGHT + (1 - share) * DARK + light
    classes = torch.full((2, CHANNELS), torch.nan)
    for number, (value, there) in enumerate(((DARK, share < 1), (BRIGHT, share > 0))):
        if there:
            classes[number] = value + light
    return Measured((statistics(mean), statistics(mean)), classes)


def test_pictures_that_differ_by_light_alone_are_standardised_by_themselves():
    standard = standard_of([seen(0.5, light) for light in (-0.4, -0.1, 0.2, 0.3)])
    assert standard.light.min() > 0.75


def test_pictures_that_differ_by_their_classes_alone_keep_the_difference():
    standard = standard_of([seen(share, 0) for share in (0.1, 0.4, 0.6, 0.9)])
    assert standard.light.max() < 0.2


def test_one_class_a_picture_is_taken_for_classes_not_for_light():
    assert standard_of([seen(0, 0), seen(1, 0), seen(0, 0), seen(1, 0)]).light.max() < 0.2


def test_a_single_picture_tells_nothing_of_light():
    torch.testing.assert_close(standard_of([seen(0.5, 0.1)]).light, torch.full((CHANNELS,), LIGHT))


def test_the_usual_statistics_are_those_of_all_pixels_together():
    rng = np.random.default_rng(0)
    pictures = [rng.normal(mean, 0.3, (CHANNELS, 5000)) for mean in (0, 1, 3)]
    found = standard_of(
        [
            Measured(
                (Statistics(*(torch.from_numpy(part)[None, :, None, None] for part in parts)),) * 2,
                torch.full((2, CHANNELS), torch.nan),
            )
            for parts in ((each.mean(axis=1), 1 / each.std(axis=1)) for each in pictures)
        ]
    )
    together = np.concatenate(pictures, axis=1)
    for mean, scale in found.usual:
        np.testing.assert_allclose(mean.flatten(), together.mean(axis=1), rtol=1e-5)
        np.testing.assert_allclose(1 / scale.flatten(), together.std(axis=1), rtol=1e-5)


@pytest.mark.parametrize(("light", "mean", "deviation"), [(1.0, 0.9, 0.1), (0.0, 0.5, 0.4), (0.5, 0.7, 0.2)])
def test_light_is_the_share_of_the_own_statistics(light, mean, deviation):
    usual = (statistics(0.5, 0.4),) * 2
    for found in Standard(torch.full((CHANNELS,), light), usual).of([statistics(0.9, 0.1)] * 2):
        torch.testing.assert_close(found, statistics(mean, deviation))


def tones(levels, rng):
    """A picture of noise about these gray levels, side by side, and the map of their classes: 3 dark, 7 bright."""
    image = np.concatenate([rng.normal(level, 20, (72, 48)) for level in levels], axis=1).clip(0, 255).astype(np.uint8)
    return image, np.repeat([3 if level < 125 else 7 for level in levels], 48)[None].repeat(72, axis=0)


@pytest.mark.parametrize("level", [90, 160])
def test_a_picture_of_one_class_is_that_class(level):
    rng = np.random.default_rng(0)
    image, truth = tones((90, 160), rng)
    taught = Classifier.teach([(image, thinned(truth))], CLASSES)
    whole, truth = tones((level, level), rng)
    assert np.mean(taught.apply(whole).labels == truth) > 0.95


def test_pictures_in_another_light_are_classified_once_marks_show_such_light():
    rng = np.random.default_rng(1)
    lights = (-40, 0, 40)
    samples = [tones((100 + light, 140 + light), rng) for light in lights]
    samples = [(image, thinned(np.repeat([[3, 7]], 48, axis=1).repeat(72, axis=0))) for image, _ in samples]
    taught = Classifier.teach(samples, CLASSES)
    assert taught.standard.light.max() > 0.75
    image, _ = tones((130, 170), rng)
    assert np.mean(taught.apply(image).labels == np.repeat([3, 7], 48)) > 0.95

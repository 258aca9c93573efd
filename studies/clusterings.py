"""k-means and the normalised cut of many images' descriptors at once, on the descriptors' device.

They do what `shapetailor.segmentation.starts` does one image at a time; seeds and the order of points differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, one_hot

from shapetailor.metrics import covering
from shapetailor.segmentation.starts import SIGMA2, assign, region_means

SEEDINGS, ITERATIONS = 6, 12
#: Block means a side that the normalised cut works on.
GRID = 32
#: Products with the affinity, and between how many of them the vectors are made orthogonal again.
POWERS, BETWEEN = 100, 4
#: Where the mean of no point lies: no descriptor of unit norm is near it.
FAR = 1e3
#: Images clustered together.
TOGETHER = 16
#: What `coverings` returns, in this order.
METHODS = ("k-means", "normalised cut", "true means")


def coverings(descriptors: Tensor, truths: Tensor) -> npt.NDArray[np.float64]:
    """Return how well clusters cover the truth, (N, len(METHODS)); each image's number of regions is given.

    Parameters
    ----------
    descriptors : Tensor, (N, D, h, w)
        Of unit norm.
    truths : integer Tensor, (N, h, w), on the CPU
        -1 where a block is not judged.
    """
    regions = torch.tensor([len(truth[truth >= 0].unique()) for truth in truths])
    found = np.zeros((len(truths), len(METHODS)))
    for count in regions.unique().tolist():
        for numbers in (regions == count).nonzero()[:, 0].split(TOGETHER):
            some = descriptors[numbers.to(descriptors.device)].float()
            maps = [cluster(some, count).cpu().numpy() for cluster in (cluster_means, cut)]
            for place, (number, values) in enumerate(zip(numbers.tolist(), some.cpu().numpy(), strict=True)):
                truth = truths[number].numpy().astype(np.int64)
                labels = (maps[0][place], maps[1][place], assign(values, region_means(values, truth)))
                found[number] = [covering(each, truth, ignore=-1) for each in labels]
    return found


def cluster_means(descriptors: Tensor, clusters: int) -> Tensor:
    """Cluster (N, D, h, w) by k-means: (N, h, w)."""
    return k_means(_points(descriptors), clusters).unflatten(1, descriptors.shape[2:])


def cut(descriptors: Tensor, clusters: int, sigma2: float = SIGMA2) -> Tensor:
    """Cluster (N, D, h, w) by a normalised cut of block means, each block then going to the nearest mean: (N, h, w)."""
    height, width = descriptors.shape[2:]
    points = _points(adaptive_avg_pool2d(descriptors, (min(height, GRID), min(width, GRID))))
    affinity = torch.exp(-torch.cdist(points, points).square() / sigma2)
    degree = affinity.sum(dim=2).sqrt()
    _, vectors = leading(affinity / (degree[:, :, None] * degree[:, None]), clusters)
    labels = k_means(vectors / vectors.norm(dim=2, keepdim=True).clamp_min(1e-12), clusters)
    return _nearest(_points(descriptors), _means(points, labels, clusters, FAR)).unflatten(1, (height, width))


def leading(matrices: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the greatest eigenvalues of symmetric (N, P, P) without negative ones, falling, and their vectors.

    Orthogonal iteration with some vectors to spare, and a Rayleigh-Ritz step at the end.
    """
    size = matrices.shape[1]
    generator = torch.Generator(matrices.device).manual_seed(0)
    start = torch.randn(len(matrices), size, min(size, count + 16), generator=generator, device=matrices.device)
    basis = torch.linalg.qr(start.to(matrices)).Q
    for power in range(1, POWERS + 1):
        basis = matrices @ basis
        if power % BETWEEN == 0:
            basis = torch.linalg.qr(basis).Q
    values, turn = torch.linalg.eigh(basis.transpose(1, 2) @ matrices @ basis)
    return values.flip(1)[:, :count], (basis @ turn).flip(2)[:, :, :count]


def k_means(points: Tensor, clusters: int) -> Tensor:
    """Cluster each row of (N, P, D) by Lloyd's iterations from k-means++ seedings; the least sum of squares wins."""
    images, count, dimension = points.shape
    generator = torch.Generator(points.device).manual_seed(0)
    every = points[:, None].expand(-1, SEEDINGS, -1, -1).reshape(images * SEEDINGS, count, dimension)
    chosen = torch.randint(count, (len(every), 1), generator=generator, device=points.device)
    centres = _rows(every, chosen)
    for _ in range(clusters - 1):
        distance = torch.cdist(every, centres).amin(dim=2).square() + 1e-12
        chosen = torch.multinomial(distance, 1, generator=generator)
        centres = torch.cat([centres, _rows(every, chosen)], dim=1)
    for _ in range(ITERATIONS):
        centres = _means(every, _nearest(every, centres), clusters, centres)
    distance, labels = torch.cdist(every, centres).min(dim=2)
    best = distance.square().sum(dim=1).view(images, SEEDINGS).argmin(dim=1)
    return labels.view(images, SEEDINGS, count)[torch.arange(images, device=points.device), best]


def _points(maps: Tensor) -> Tensor:
    return maps.flatten(2).transpose(1, 2)


def _rows(points: Tensor, chosen: Tensor) -> Tensor:
    return points.gather(1, chosen[..., None].expand(-1, -1, points.shape[2]))


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    return torch.cdist(points, centres).argmin(dim=2)


def _means(points: Tensor, labels: Tensor, clusters: int, empty: Tensor | float) -> Tensor:
    """Return the clusters' means, (N, K, D), and `empty` in place of those without points."""
    member = one_hot(labels, clusters).to(points)
    count = member.sum(dim=1)[..., None]
    return torch.where(count > 0, member.transpose(1, 2) @ points / count.clamp_min(1), empty)

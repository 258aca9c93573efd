"""Training losses: pure functions of descriptors (B, D, H, W) and label maps (B, H, W).

Renaming labels changes no loss. Pixels with negative labels do not count. All regions of an image have the same weight
whatever their size, and all images of a batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

#: Temperature of `assignment_loss`.
TEMPERATURE = 0.2
#: Ridge of `scatter_loss`, relative to the mean variance, and absolute.
RELATIVE_RIDGE, ABSOLUTE_RIDGE = 1e-4, 1e-10


@dataclass(frozen=True)
class _Regions:
    """Regions of a batch, numbered from 0 in each image; K is the largest number in an image, N = H·W."""

    values: Tensor  # (B, D, N), descriptors with zeros outside
    index: Tensor  # (B, N), the region of each pixel; 0 outside
    weight: Tensor  # (B, N), 1/|R_i| inside region i, 0 outside
    exists: Tensor  # (B, K)
    means: Tensor  # (B, K, D), a_i; zeros where there is no region

    @property
    def count(self) -> Tensor:
        """Number of regions in each image, (B,)."""
        return self.exists.sum(dim=1)

    @property
    def deviation(self) -> Tensor:
        """F(x) − a_i inside region i, (B, D, N)."""
        each = self.means.gather(1, self.index[:, :, None].expand(-1, -1, self.means.shape[2]))
        return (self.values - each.transpose(1, 2)) * (self.weight > 0)[:, None]


def region_loss(descriptors: Tensor, labels: Tensor) -> Tensor:
    """Scatter inside regions minus distance between their means (`eq:loss`), averaged over the batch.

    For an image with regions R_1..R_N and mean descriptors a_i::

        Σ_i 1/|R_i| Σ_{x ∈ R_i} |F(x) − a_i|² − Σ_i Σ_{j≠i} |a_i − a_j|²

    Examples
    --------
    >>> labels = torch.tensor([[[3, 3, 8, 8]]])
    >>> region_loss(torch.tensor([[[[0.0, 2.0, 5.0, 5.0]]]]), labels)  # 1 + 0 − 2·4²
    tensor(-31.)
    """
    regions = _regions(descriptors, labels)
    within = (regions.deviation.square().sum(dim=1) * regions.weight).sum(dim=1)
    # Σ_i Σ_j |a_i − a_j|² = 2N Σ_i |a_i − ā|²: no difference of large numbers.
    between = 2 * regions.count * _spread(regions).square().sum(dim=(1, 2))
    return (within - between).mean()


def scatter_loss(descriptors: Tensor, labels: Tensor) -> Tensor:
    """Share of the variance that regions do not explain: ``1 − tr(S_T⁻¹ S_B)/(K−1)``.

    S_B is the covariance of the K regions' means, S_T = S_B + S_W with S_W the mean of the regions' covariances. It is
    0 when regions are uniform and their means in general position, 1 when the means coincide. Invertible linear maps of
    the descriptors do not change it, up to a small ridge. Images with fewer than two regions do not count.
    """
    return _scatter(_regions(descriptors, labels))


def separation_loss(descriptors: Tensor, labels: Tensor) -> Tensor:
    """The sum of `scatter_loss` and `assignment_loss`."""
    regions = _regions(descriptors, labels)
    return _scatter(regions) + _assignment(regions)


def _scatter(regions: _Regions) -> Tensor:
    total = regions.count.clamp_min(1)[:, None, None].double()
    deviation, spread = regions.deviation.double(), _spread(regions).double()
    within = (deviation * regions.weight[:, None]) @ deviation.transpose(1, 2) / total
    between = spread.transpose(1, 2) @ spread / total
    scatter = within + between
    size = scatter.diagonal(dim1=1, dim2=2).mean(dim=1)
    ridge = (RELATIVE_RIDGE * size + ABSOLUTE_RIDGE)[:, None, None] * torch.eye(len(scatter[0])).to(scatter)
    explained = torch.linalg.solve(scatter + ridge, between).diagonal(dim1=1, dim2=2).sum(dim=1)
    several = regions.count > 1
    losses = torch.where(several, 1 - explained / (regions.count - 1).clamp_min(1), 0)
    return (losses.sum() / several.sum().clamp_min(1)).to(regions.values.dtype)


def assignment_loss(descriptors: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of assigning each pixel to its region by ``softmax_i(−|F(x) − a_i|²/τ)``, τ = 0.2.

    A mean over the pixels of each region, over the regions, and over the images that have regions.
    """
    return _assignment(_regions(descriptors, labels))


def _assignment(regions: _Regions) -> Tensor:
    # |F|² is the same for every i and falls out of the softmax.
    logits = (2 * regions.means @ regions.values - regions.means.square().sum(dim=2, keepdim=True)) / TEMPERATURE
    logits = logits.masked_fill(~regions.exists[:, :, None], torch.finfo(logits.dtype).min)
    right = logits.gather(1, regions.index[:, None]).squeeze(1)
    pixels = (logits.logsumexp(dim=1) - right) * regions.weight
    images = pixels.sum(dim=1) / regions.count.clamp_min(1)
    return images.sum() / (regions.count > 0).sum().clamp_min(1)


def _spread(regions: _Regions) -> Tensor:
    """a_i − ā, ā being the mean of the means: (B, K, D), zeros where there is no region."""
    centre = regions.means.sum(dim=1, keepdim=True) / regions.count.clamp_min(1)[:, None, None]
    return torch.where(regions.exists[:, :, None], regions.means - centre, 0)


def _regions(descriptors: Tensor, labels: Tensor) -> _Regions:
    _check(descriptors, labels)
    index, inside, sizes = _number(labels)
    most = sizes.shape[1]
    values = torch.where(inside[:, None], descriptors.flatten(2), 0)
    weight = torch.where(inside, 1 / sizes.clamp_min(1).to(values.dtype).gather(1, index), 0)
    # Twice: a sum of many float32 loses digits, the sum of the deviations from a first estimate does not. The estimate
    # cancels out of the result, so it needs no gradient.
    rough = _sums(values.detach() * weight[:, None], index, most)
    left = values - rough.gather(1, index[:, :, None].expand(-1, -1, values.shape[1])).transpose(1, 2)
    means = rough + _sums(left * weight[:, None], index, most)
    return _Regions(values, index, weight, sizes > 0, means)


def _number(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Number each image's labels from 0: (index (B, N), inside (B, N), sizes (B, K))."""
    images = labels.shape[0]
    flat = labels.flatten(1)
    inside = flat >= 0
    values, rank = flat.unique(return_inverse=True)
    key = rank + torch.arange(images, device=labels.device)[:, None] * len(values)
    keys, number = key[inside].unique(return_inverse=True)
    owner = keys // len(values)
    local = torch.arange(len(keys), device=labels.device) - torch.searchsorted(owner, owner)
    most = int(local.max()) + 1 if len(keys) else 1
    index = torch.zeros_like(flat, dtype=torch.long)
    index[inside] = local[number]
    slot = (index + torch.arange(images, device=labels.device)[:, None] * most)[inside]
    return index, inside, torch.bincount(slot, minlength=images * most).reshape(images, most)


def _sums(values: Tensor, index: Tensor, most: int) -> Tensor:
    """Sum (B, D, N) over the regions: (B, K, D)."""
    images, dimension, _ = values.shape
    slot = index + torch.arange(images, device=index.device)[:, None] * most
    rows = values.transpose(1, 2).reshape(-1, dimension)
    return values.new_zeros(images * most, dimension).index_add(0, slot.flatten(), rows).reshape(images, most, -1)


def _check(descriptors: Tensor, labels: Tensor) -> None:
    if not isinstance(descriptors, Tensor) or not descriptors.is_floating_point():
        raise TypeError(f"descriptors must be a floating-point torch.Tensor, got {_kind(descriptors)}")
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
        raise TypeError(f"labels must be an integer torch.Tensor, got {_kind(labels)}")
    if descriptors.ndim != 4 or labels.shape != (descriptors.shape[0], *descriptors.shape[2:]):
        raise ValueError(
            "descriptors must be (B, D, H, W) and labels (B, H, W), "
            f"got {tuple(descriptors.shape)} and {tuple(labels.shape)}"
        )


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__

"""What a segmentation is, and how it is saved."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from skimage.measure import label as connected_components

from ..arrays import RGB8, Array, Floats32, Ints, Mask
from ..drawing.overlay import notebook_png, overlay
from ..drawing.polygons import feature_collection
from ..io.files import atomic
from ..io.images import write_image, write_labels
from ..io.pixel_size import PixelSize
from ..labels import boundary_length, bounding_box, present

Path = str | os.PathLike[str]
Row = dict[str, float | int | None]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Segmentation:
    """An image's regions, and how they were found.

    Attributes
    ----------
    labels : ndarray, (H, W)
        The number of each pixel's region; −1 outside the picture (nodata, NaN, transparent).
    image : ndarray, (H, W) or (H, W, C)
        What was segmented, as it was given.
    energy : list of float
        `eq:mulregions` of the start and after every iteration, before boundaries are finished.
    iterations : int
    converged : bool
        The regions stood still at the end; False if the iterations ran out or a callback stopped them.
    vanished : tuple of int
        Regions that were asked for but have no pixel. The others keep their numbers.
    seed : int
        Of the randomness that went into the start.
    descriptors : ndarray, (D, H, W), optional
        Of the final regions, where they were asked for.
    probabilities, uncertainty : ndarray, (K, H, W) and (H, W), optional
        How likely each region is, and where two are nearly equally likely (1) or one is certain (0): with marks. They
        are read-only.
    alternatives : tuple of Segmentation
        Other regions that the picture may be meant to have, unlike these and each other, the likeliest first; as many
        as were asked for, or as there are.
    score : float, optional
        How likely these regions are among them and their alternatives, 1 in all; where alternatives were asked for.
    """

    labels: Ints
    image: Array
    energy: list[float]
    iterations: int
    converged: bool
    vanished: tuple[int, ...] = ()
    seed: int = 0
    descriptors: Floats32 | None = None
    probabilities: Floats32 | None = None
    uncertainty: Floats32 | None = None
    alternatives: tuple[Segmentation, ...] = ()
    score: float | None = None

    def __repr__(self) -> str:
        height, width = self.labels.shape
        areas = np.bincount(self.labels[self.labels >= 0]).tolist()
        shares = {number: f"{area / max(1, sum(areas)):.1%}" for number, area in enumerate(areas) if area}
        shown = ", ".join(f"{number}: {share}" for number, share in list(shares.items())[:8])
        more = f", … {len(shares) - 8} more" if len(shares) > 8 else ""
        state = "converged" if self.converged else "not converged"
        return f"<Segmentation of {height}×{width} pixels: {shown}{more}; {self.iterations} iterations, {state}>"

    def _repr_png_(self) -> bytes:
        return notebook_png(self.overlay())

    def overlay(self) -> RGB8:
        """Return the image with tinted regions and their boundaries, as H×W×3 of uint8."""
        return overlay(self.image, self.labels)

    def statistics(self) -> list[Row]:
        """Measure every region, vanished ones (of area 0) included.

        Returns
        -------
        list of dict
            region : its number
            area, share : pixels, and their share of the pixels inside the picture
            perimeter : estimated length of the boundary with other regions; the picture's frame does not count
            pieces : how many parts not connected by 4-neighbours
            x, y : centroid, from the centre of the first pixel
            left, top, right, bottom : bounding box, the last two exclusive
            mean_C, std_C : of the image's channel C; values that are not finite do not count
        """
        channels = self.image[..., None] if self.image.ndim == 2 else self.image
        rows = [_measure(number, self.labels, channels) for number in present(self.labels).tolist() if number >= 0]
        inside = int(np.count_nonzero(self.labels >= 0))
        for row in rows:
            row["share"] = (row["area"] or 0) / inside
        blank: Row = dict.fromkeys(rows[0]) if rows else {}
        nothing: Row = {"area": 0, "share": 0.0, "perimeter": 0.0, "pieces": 0}
        rows += [{**blank, **nothing, "region": number} for number in self.vanished]
        return sorted(rows, key=lambda row: row["region"] or 0)

    def polygons(self) -> dict[str, Any]:
        """Return the regions as a GeoJSON FeatureCollection, exactly along pixel edges (x right, y down, in pixels)."""
        return feature_collection(self.labels)

    def save(self, path: Path) -> None:
        """Write the label map as PNG or TIFF."""
        write_labels(path, self.labels)

    def save_overlay(self, path: Path) -> None:
        """Write the overlay as a picture; the name's ending says which format."""
        write_image(path, self.overlay())

    def save_uncertainty(self, path: Path) -> None:
        """Write where the regions are unsure as a gray picture, white where two are equally likely."""
        if self.uncertainty is None:
            raise ValueError("only regions found from marks have an uncertainty")
        write_image(path, np.rint(255 * self.uncertainty.clip(0, 1)).astype(np.uint8))

    def save_statistics(self, path: Path, pixel_size: PixelSize | None = None) -> None:
        """Write the statistics as CSV, a line for each region; with `physical_area` and `unit` of a pixel's size."""
        rows: list[dict[str, Any]] = list(self.statistics())
        if pixel_size is not None:
            side, unit = pixel_size
            rows = [row | {"physical_area": (row["area"] or 0) * side**2, "unit": f"{unit}²"} for row in rows]
        with atomic(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            for row in rows:
                writer.writerow({key: f"{x:.7g}" if isinstance(x, float) else x for key, x in row.items()})

    def save_polygons(self, path: Path) -> None:
        """Write the polygons as GeoJSON."""
        text = json.dumps(self.polygons(), separators=(",", ":"))
        with atomic(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


def _shared_length(region: Mask, outside: Mask) -> float:
    """Length of a region's boundary with other regions; where the region or others touch the outside cancels."""
    others = ~(region | outside)
    lengths = [boundary_length(mask) for mask in (region, others, outside)]
    return (lengths[0] + lengths[1] - lengths[2]) / 2


def _measure(number: int, labels: Ints, channels: Array) -> Row:
    mask = labels == number
    rows, columns = bounding_box(mask)
    # All that follows happens in the box, with a rim that shows where the region ends inside the image.
    frame = bounding_box(mask, margin=1)
    inside, values = mask[frame], channels[frame][mask[frame]]
    down, across = inside.sum(axis=1), inside.sum(axis=0)
    area = int(down.sum())
    row: Row = {
        "region": number,
        "area": area,
        "share": None,  # in its place in the table
        "perimeter": _shared_length(inside, labels[frame] < 0),
        "pieces": int(connected_components(inside, connectivity=1).max()),
        "x": float(across @ np.arange(len(across))) / area + frame[1].start,
        "y": float(down @ np.arange(len(down))) / area + frame[0].start,
        "left": columns.start,
        "top": rows.start,
        "right": columns.stop,
        "bottom": rows.stop,
    }
    for channel in range(channels.shape[2]):
        finite = values[np.isfinite(values[:, channel]), channel].astype(np.float64)
        row[f"mean_{channel}"] = float(finite.mean()) if len(finite) else None
        row[f"std_{channel}"] = float(finite.std()) if len(finite) else None
    return row

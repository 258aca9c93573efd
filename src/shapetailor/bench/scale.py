"""`shapetailor bench scale`: one picture at 1 to 100 megapixels, coarse to fine, averaged down, and in tiles.

The picture is the same at every size: three textures of 1024² pixels, enlarged, in regions with smooth boundaries that
are sharp to the pixel, and grain of a pixel. Boundary F counts boundary pixels within `TOLERANCE` pixels of the other
map's, without one-to-one matching.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.interpolate import RectBivariateSpline
from scipy.ndimage import gaussian_filter
from scipy.spatial import KDTree

from ..arrays import RGB8, Array, Floats32, Ints, Labels
from ..datasets import texture
from ..segmentation.segmenter import MAX_PIXELS, Segmenter
from .measure import Outcome, chosen_sizes, machine, peak_memory, progress
from .report import NOTHING, Data, duration, megabytes, page, text_table, verdict

SIZES, QUICK_SIZES = (1000, 2000, 4000, 8000, 10_000), (500,)
MODEL, REGIONS = "texture", 3
#: Families of the textures, and their mean colours.
TEXTURES = {"weave": (115, 95, 80), "pebbles": (90, 105, 105), "grain": (120, 118, 90)}
SIDE, CELLS, CONTRAST, GRAIN, STRIP = 1024, 12, 25, 12, 256
TOLERANCE = 2.0
#: Pixels that the way before worked on, at most.
AVERAGED = 2**22
#: Side of tiles, and their overlap; share of a region's overlap that joins it to another's.
TILE, OVERLAP, JOINED = 512, 64, 0.5
#: Way → largest side that does not take too long.
LARGEST = {"coarse to fine": 10_000, "averaged down": 10_000, "tiles": 4000}
#: Calls of which the fastest counts, for pictures below so many numbers.
CALLS, LARGE = 3, 2**24
#: For the largest size: seconds, bytes.
TARGET_SIDE, TARGET_SECONDS, TARGET_MEMORY = 10_000, 180.0, 4e9


def run(sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Measure every way at every size, each in a process of its own."""
    chosen = chosen_sizes(sizes, QUICK_SIZES if quick else SIZES, 64)
    where, rows = machine(), list[Data]()
    for side, way in product(chosen, LARGEST):
        if side <= LARGEST[way]:
            rows.append(measure(way, (side, side)))
            progress(f"{way} at {side}²: {_figures(rows[-1])}")
    data: Data = {"benchmark": "scale", "machine": where, "rows": rows, "targets": judge(rows)}
    lines = [[f"{row['height'] * row['width'] / 1e6:.3g} MP", row["way"], *_figures(row)] for row in rows]
    words = f"Whole Segmenter.segment by {MODEL}, {REGIONS} regions; peak memory above the picture's."
    table = text_table(["size", "way", "time", "peak", "boundary F"], lines)
    return Outcome(page("Scale benchmark", where, words, [table], data["targets"]), data, True)


def measure(way: str, shape: tuple[int, int]) -> Data:
    """Segment in a fresh process; return time, memory and boundary F."""
    with TemporaryDirectory() as folder:
        memory = peak_memory(prepare, way, shape, folder)
        labels = np.load(Path(folder) / "labels.npy")
        seconds = float((Path(folder) / "seconds").read_text())
    truth = np.concatenate([part for _, part in regions(shape)])
    figures = {"seconds": seconds, "bytes": memory, "f": boundary_f(labels, truth)}
    return {"way": way, "height": shape[0], "width": shape[1], **figures}


def prepare(way: str, shape: tuple[int, int], folder: str) -> Callable[[], None]:
    """Make the picture, compile what is compiled, and return the segmentation as a call that leaves its labels."""
    image, _ = picture(shape)
    averaged = way == "averaged down"
    segmenter = Segmenter.from_pretrained(MODEL, max_pixels=AVERAGED if averaged else MAX_PIXELS)
    segmenter._sharpens = not averaged
    segmenter.segment(image[:450, :450], REGIONS)

    def call() -> None:
        times = []
        for _ in range(CALLS if image.size < LARGE else 1):
            begin = time.perf_counter()
            labels = tiled(segmenter, image) if way == "tiles" else segmenter.segment(image, REGIONS).labels
            times.append(time.perf_counter() - begin)
        (Path(folder) / "seconds").write_text(str(min(times)))
        np.save(Path(folder) / "labels.npy", labels.astype(np.int16))

    return call


def picture(shape: tuple[int, int]) -> tuple[RGB8, Array]:
    """Paint the picture and its truth, strip by strip."""
    rng = np.random.default_rng(0)
    planes = [texture(family, SIDE, rng, colour=True).astype(np.float32) for family in TEXTURES]
    planes = [CONTRAST * (plane - plane.mean((0, 1))) / plane.std() for plane in planes]
    image, truth = np.empty((*shape, 3), np.uint8), np.empty(shape, np.uint8)
    columns = np.linspace(0, SIDE - 1, shape[1])
    for top, labels in regions(shape):
        rows = np.linspace(0, SIDE - 1, shape[0])[top : top + len(labels)]
        strip = np.zeros((*labels.shape, 3), np.float32)
        for number, (plane, colour) in enumerate(zip(planes, TEXTURES.values(), strict=True)):
            inside = labels == number
            strip[inside] = _sampled(plane, rows, columns)[inside] + np.array(colour)
        strip += rng.integers(-GRAIN, GRAIN + 1, strip.shape)
        image[top : top + len(labels)], truth[top : top + len(labels)] = np.clip(strip, 0, 255), labels
    return image, truth


def regions(shape: tuple[int, int]) -> Iterator[tuple[int, Array]]:
    """Yield strips of the truth and their first rows: where which of three smooth fields is highest."""
    rng = np.random.default_rng(10)  # its smallest piece has 2.7 % of the picture, well above `min_share`
    knots = np.arange(CELLS)
    noise = [gaussian_filter(rng.standard_normal((CELLS, CELLS)), 1.5) for _ in TEXTURES]
    fields = [RectBivariateSpline(knots, knots, each) for each in noise]
    rows, columns = (np.linspace(0, CELLS - 1, side) for side in shape)
    for top in range(0, shape[0], STRIP):
        yield top, np.argmax([field(rows[top : top + STRIP], columns) for field in fields], axis=0)


def _sampled(plane: Floats32, rows: Array, columns: Array) -> Floats32:
    """Values between pixels, linearly, along one side and then the other."""
    for axis, places in enumerate((rows, columns)):
        low = np.minimum(places.astype(np.int64), plane.shape[axis] - 2)
        share = (places - low).astype(np.float32).reshape(-1, *[1] * (2 - axis))
        first, second = plane.take(low, axis), plane.take(low + 1, axis)
        plane = first + share * (second - first)
    return plane


def tiled(segmenter: Segmenter, image: Array) -> Labels:
    """Segment tiles that overlap, each for itself, and join regions that cover each other in the overlaps."""
    height, width = image.shape[:2]
    full, owner = np.full((height, width), -1, np.int64), list[int]()
    for top, left in product(range(0, height, TILE), range(0, width, TILE)):
        box = slice(max(0, top - OVERLAP), top + TILE), slice(max(0, left - OVERLAP), left + TILE)
        found = segmenter.segment(image[box], "auto").labels + len(owner)
        owner += range(len(owner), int(found.max()) + 1)
        before = full[box]
        for number in np.unique(found).tolist():
            known = Counter[int]()
            for name, count in Counter(before[(found == number) & (before >= 0)].tolist()).items():
                known[_root(owner, name)] += count
            for name, count in known.most_common(1):
                if count > JOINED * known.total():
                    owner[_root(owner, number)] = name
        full[box] = np.where(before >= 0, before, found)
    return np.array([_root(owner, number) for number in range(len(owner))])[full]


def _root(owner: list[int], number: int) -> int:
    while owner[number] != number:
        number = owner[number]
    return number


def boundary_f(labels: Array, truth: Array, tolerance: float = TOLERANCE) -> float:
    """F of the shares of each map's boundary pixels that lie near the other's."""
    found, wanted = _boundary(labels), _boundary(truth)
    if not len(found) or not len(wanted):
        return float(len(found) == len(wanted))
    precision = float(np.mean(KDTree(wanted).query(found)[0] <= tolerance))
    recall = float(np.mean(KDTree(found).query(wanted)[0] <= tolerance))
    return 2 * precision * recall / max(precision + recall, 1e-12)


def _boundary(labels: Array) -> Ints:
    """Pixels unlike the one on their right or below, (n, 2)."""
    found = [np.zeros((0, 2), np.int64)]
    for top in range(0, len(labels), STRIP):
        strip = np.asarray(labels[top : top + STRIP + 1])
        unlike = np.zeros(strip.shape, bool)
        unlike[:-1] = strip[1:] != strip[:-1]
        unlike[:, :-1] |= strip[:, 1:] != strip[:, :-1]
        rows, columns = unlike[:STRIP].nonzero()
        found.append(np.stack([rows + top, columns], axis=1))
    return np.concatenate(found)


def judge(rows: Sequence[Data]) -> list[Data]:
    """Compare the largest size with its targets, and its boundaries with those of the smallest."""
    ours = [row for row in rows if row["way"] == "coarse to fine"]
    first, last = ours[0], ours[-1]
    if last["height"] != TARGET_SIDE:
        return []
    verdicts = [verdict(f"seconds at {TARGET_SIDE}²", last["seconds"], TARGET_SECONDS, at_least=False)]
    if last["bytes"] is not None:
        verdicts.append(verdict("GB there", last["bytes"] / 1e9, TARGET_MEMORY / 1e9, at_least=False))
    what = f"boundary F there, that of {first['height']}² wanted"
    return [*verdicts, verdict(what, last["f"], first["f"], at_least=True)]


def _figures(row: Data) -> list[str]:
    memory = NOTHING if row["bytes"] is None else megabytes(row["bytes"])
    return [duration(row["seconds"]), memory, f"{row['f']:.3f}"]

"""Can a start be chosen among several, and the number of regions? Two tables from `cross_validate.py`'s descriptors.

    python studies/choose.py DIR/QSB.npz

The first compares ten candidate segmentations, the number of regions being given, with choices among them: the best by
the truth, the medoid, the lowest energy, and scorers that are cross-validated over images (with scikit-learn). The
second compares rules for the number of regions, on images of even and of odd number; the rule that is best on one half
is then reported on the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from candidates import KEPT, Array, Labels, affinity, candidates
from measures import measures
from region_count import Cuts, rules
from scorers import agreement, scores
from tqdm import tqdm

from shapetailor.metrics import covering

#: The truths of BSDS500 have too many regions for the first table: it is of texture sets.
PHOTOGRAPHS = "bsds"


def read_sets(path: Path, most: int | None) -> dict[str, tuple[Array, Labels]]:
    """Read each set's descriptors (N, D, h, w), brought to unit norm again, and truths (N, h, w)."""
    with np.load(path) as file:
        names = [name for name in file.files if not name.endswith("_truth")]
        sets = {name: (file[name][:most], file[f"{name}_truth"][:most].astype(np.int64)) for name in names}
    return {name: (_unit(stored.astype(np.float32)), truths) for name, (stored, truths) in sets.items()}


def compare_candidates(sets: dict[str, tuple[Array, Labels]]) -> None:
    """Print the coverings of candidates and of choices among them, and the choices' gain over the library's start."""
    rows, owner = [], []
    for name, (descriptors, truths) in sets.items():
        pairs = tqdm(list(zip(descriptors, truths, strict=True)), desc=f"candidates on {name}")
        rows += [_tried(*each) for each in pairs]
        owner += [name] * len(truths)
    names, coverings, measured, mutual = rows[0][0], *(np.array([row[i] for row in rows]) for i in (1, 2, 3))
    numbers = np.arange(len(names))
    choices = {name: np.tile(numbers == number, (len(rows), 1)) for number, name in enumerate(names)}
    choices["the best, by the truth"] = coverings
    choices["the one that the others agree with most"] = agreement(mutual)
    choices["the lowest energy"] = -measured[:, :, 0]
    if find_spec("sklearn"):
        choices |= scores(measured, mutual, coverings)
    kept = coverings[:, names.index(KEPT)]
    print(f"| start | {' | '.join(f'{name} | gain' for name in sets)} |\n|---|{'---|---|' * len(sets)}")
    for choice, preferred in choices.items():
        found = np.take_along_axis(coverings, preferred.argmax(axis=1)[:, None], axis=1)[:, 0]
        cells = []
        for name in sets:
            own = np.array(owner) == name
            gain = (found - kept)[own]
            cells += [f"{found[own].mean():.3f}", f"{gain.mean():+.3f} ± {gain.std() / np.sqrt(len(gain)):.3f}"]
        print(f"| {choice} | {' | '.join(cells)} |", flush=True)


def _tried(descriptors: Array, truth: Labels) -> tuple[list[str], list[float], list[list[float]], list[list[float]]]:
    """Return the candidates' names, coverings of the truth, measures, and coverings [by, of] of each other."""
    regions = _regions(truth)
    made = candidates(descriptors, regions)
    weights = affinity(descriptors)
    return (
        list(made),
        [covering(each, truth, ignore=-1) for each in made.values()],
        [list(measures(descriptors, each, regions, weights).values()) for each in made.values()],
        [[covering(by, of) for of in made.values()] for by in made.values()],
    )


def compare_counts(sets: dict[str, tuple[Array, Labels]]) -> None:
    """Print covering and share of true numbers by each rule, for both halves, and what a choice on one is worth."""
    found: dict[str, dict[str, list[tuple[float, bool]]]] = {rule: {name: [] for name in sets} for rule in rules()}
    for name, (descriptors, truths) in sets.items():
        for rule, result in _counted(name, descriptors, truths):
            found[rule][name].append(result)
    print(f"| rule | images | {' | '.join(sets)} | mean |\n|---|---|{'---|' * len(sets)}---|")
    halves = {"even": slice(0, None, 2), "odd": slice(1, None, 2)}
    means = {
        half: {rule: _row(rule, half, [np.array(each[part], float) for each in found[rule].values()]) for rule in found}
        for half, part in halves.items()
    }
    for chosen, reported in (("even", "odd"), ("odd", "even")):
        best = max(means[chosen], key=means[chosen].__getitem__)
        print(f"Best on {chosen} images: {best}; on {reported} images its mean is {means[reported][best]:.3f}.")


def _counted(name: str, descriptors: Array, truths: Labels) -> Iterator[tuple[str, tuple[float, bool]]]:
    for values, truth in tqdm(list(zip(descriptors, truths, strict=True)), desc=f"number of regions on {name}"):
        cuts = Cuts(values)
        for rule, cut in rules().items():
            labels = cut(cuts)
            yield rule, (covering(labels, truth, ignore=-1), len(np.unique(labels)) == _regions(truth))


def _row(rule: str, half: str, results: list[Array]) -> float:
    """Print the sets' means, and return the mean covering over the sets."""
    cells = (f"{mean:.3f}, {right:.0%}" for mean, right in (each.mean(axis=0) for each in results))
    mean = float(np.mean([each[:, 0].mean() for each in results]))
    print(f"| {rule} | {half} | {' | '.join(cells)} | {mean:.3f} |", flush=True)
    return mean


def _regions(truth: Labels) -> int:
    return len(np.unique(truth[truth >= 0]))


def _unit(descriptors: Array) -> Array:
    return descriptors / (np.linalg.norm(descriptors, axis=1, keepdims=True) + 1e-9)


def main(arguments: list[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("descriptors", type=Path, help="VARIANT.npz of cross_validate.py")
    parser.add_argument("--most", type=int, help="images of each set")
    args = parser.parse_args(arguments)
    sets = read_sets(args.descriptors, args.most)
    compare_candidates({name: each for name, each in sets.items() if name != PHOTOGRAPHS})
    print()
    compare_counts(sets)


if __name__ == "__main__":
    main()

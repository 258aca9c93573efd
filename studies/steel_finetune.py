"""What `teach --fine-tune` gives on pictures with maps of classes, in the draws of `shapetailor experiment classes`.

    python studies/steel_finetune.py --data STEEL --draws 8:3 20:3 4:2 s8:2 --steps 200 600 --device cuda --seconds 190

8:3 are three draws of eight pictures, s8 such with simulated strokes. Each draw has a process of its own, which teaches
a classifier, fine-tunes it by each number of steps and applies it to the other pictures. Results are printed as they
come; what is not done after so many seconds is left out of the table, which gives the mean IoU, accuracy and error of
area fractions over the draws.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import multiprocessing

from shapetailor import Classifier
from shapetailor.classes.fine_tune import FineTuneConfig, fine_tune
from shapetailor.classes.lesson import Taught
from shapetailor.classes.names import IGNORE
from shapetailor.evaluate.classes import confusion, scores
from shapetailor.experiments.classes import COLUMNS, STEP, Picture, _pictures, _splits
from shapetailor.experiments.results import Context


def values_of(places: np.ndarray, unmarked: int) -> np.ndarray:
    """Turn places of classes to values as `Classifier.teach` takes them."""
    return np.where(places >= 0, places + 1, np.where(places == -1, unmarked, IGNORE))


def judge(classifier: Classifier, tested: list[Picture], device: str) -> tuple[float, ...]:
    """Apply on the device."""
    there = replace(classifier, net=classifier.net.to(device), head=classifier.head.to(device))
    matrices = []
    for each in tested:
        found = there.apply(each.image).labels[::STEP, ::STEP].astype(int) - 1
        matrices.append(confusion(each.truth[::STEP, ::STEP], found, range(len(classifier.classes))))
    classifier.net.cpu()
    classifier.head.cpu()
    judged = scores(matrices)
    return tuple(float(getattr(judged, name)) for name in COLUMNS)


def work(name: str, number: int, taught: list[Picture], tested: list[Picture], args: argparse.Namespace,
         results: Any) -> None:  # fmt: skip
    """Teach, fine-tune and judge one draw."""
    torch.set_num_threads(1 if args.device != "cpu" else torch.get_num_threads())
    began = time.time()
    samples = [
        Taught(each.name, each.image, values_of(each.strokes if name.startswith("s") else each.truth, 0))
        for each in taught
    ]
    count = 1 + max(int(each.truth.max()) for each in (*taught, *tested))
    classifier = Classifier.teach(
        samples, [f"class {place}" for place in range(count)], seed=args.seed, device=args.device
    )
    results.put((name, number, "head", judge(classifier, tested, args.device), time.time() - began, ""))
    for steps in args.steps:
        began = time.time()
        config = FineTuneConfig(steps, args.batch, args.crop)
        tuned = fine_tune(classifier, samples, config, device=args.device)
        seconds = time.time() - began
        record = {key: tuned.record["fine_tune"].get(key) for key in ("before", "after", "helped")}
        results.put((name, number, f"{steps} steps", judge(tuned, tested, args.device), seconds, str(record)))


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", nargs="+", default=["8:3", "20:3", "4:2", "s8:2"])
    parser.add_argument("--steps", nargs="+", type=int, default=[FineTuneConfig.steps])
    parser.add_argument("--batch", type=int, default=FineTuneConfig.batch)
    parser.add_argument("--crop", type=int, default=FineTuneConfig.crop)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=86400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    deadline = time.time() + args.seconds
    pictures, folds, words = _pictures(Context(args.data, Path(), seed=args.seed))
    print(words, flush=True)
    context = multiprocessing.get_context("spawn")
    results, jobs = context.Queue(), []
    for each in args.draws:
        name, _, draws = each.partition(":")
        splits = _splits(len(pictures), int(name.removeprefix("s")), int(draws), folds, args.seed)[: int(draws)]
        for number, split in enumerate(splits):
            taught, tested = ([pictures[i] for i in part] for part in split)
            jobs.append(context.Process(target=work, args=(name, number, taught, tested, args, results)))
    at_once = len(jobs) if args.device != "cpu" else 1
    waiting, running, table = list(jobs), list[Any](), dict[tuple[str, str], list[tuple[float, ...]]]()
    while (waiting or running or not results.empty()) and time.time() < deadline:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0))
            running[-1].start()
        while not results.empty():
            name, number, recipe, figures, seconds, note = results.get()
            print(name, number, recipe, *(f"{each:.4f}" for each in figures), f"{seconds:.0f} s", note, flush=True)
            table.setdefault((name, recipe), []).append(figures)
        running = [each for each in running if each.is_alive()]
        time.sleep(0.2)
    for each in running:
        each.terminate()
    for (name, recipe), found in sorted(table.items()):
        means = "/".join(f"{each:.3f}" for each in np.mean(found, axis=0))
        print(f"{name:4} {recipe:10} {means} {len(found)} draws")


if __name__ == "__main__":
    main()

"""Many pictures on a GPU: some are read, and others finished, while a batch of those between is computed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch

from ..evolution import Evolution
from .end import End
from .result import Segmentation
from .side_by_side import alike, finished, regions_of

if TYPE_CHECKING:
    from .segmenter import Segmenter

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Most pictures of a batch, unless said otherwise.
BATCH_SIZE = 32
#: Threads that read and finish, at most.
MOST_THREADS = 8


class Options(NamedTuple):
    """How all pictures are segmented."""

    regions: int  # 0: to be found
    iterations: int | None = None
    min_share: float = 0.005
    seed: int = 0


@dataclass(frozen=True)
class Job(Generic[Result]):
    """A picture to segment, and what becomes of its regions; what is `held` for it is left when all is done."""

    image: Any
    finish: Callable[[Segmentation], Result]
    held: AbstractContextManager[Any] = field(default_factory=nullcontext)


class Done(NamedTuple, Generic[Item, Result]):
    """What came of a picture: a result, or why there is none."""

    item: Item
    result: Result | None
    error: Exception | None = None


def segment_each(
    segmenter: Segmenter,
    items: Iterable[Item],
    start: Callable[[Item], Job[Result]],
    options: Options,
    batch_size: int,
) -> Iterator[Done[Item, Result]]:
    """Segment what `start` opens for each item, and yield what came of it, in order.

    Pictures are started and finished in threads.
    """
    team, waiting = _Team(segmenter, options, batch_size), iter(items)
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:

        def next_ones() -> list[tuple[Item, Future[_Read[Result]]]]:
            return [(item, pool.submit(team.read, start, item)) for item in islice(waiting, batch_size)]

        reading, finishing = next_ones(), list[tuple[Item, Future[Result]]]()
        while reading or finishing:
            here, reading = reading, next_ones()
            before, finishing = finishing, team.segment(here, pool)
            for item, future in before:
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield Done(item, None, error) if error else Done(item, future.result())


class _Read(NamedTuple, Generic[Result]):
    """A picture on its canvas."""

    job: Job[Result]
    end: End
    held: ExitStack


class _Team:
    """What is done with the pictures of a run."""

    def __init__(self, segmenter: Segmenter, options: Options, batch_size: int) -> None:
        self.segmenter, self.options, self.batch_size = segmenter, options, batch_size
        self._said = False  # that memory is short

    def read(self, start: Callable[[Item], Job[Result]], item: Item) -> _Read[Result]:
        """Open a picture and bring it to its canvas."""
        job, options = start(item), self.options
        with ExitStack() as held:
            held.enter_context(job.held)
            end = self.segmenter._end(job.image, options.iterations, options.min_share, options.seed)
            return _Read(job, end, held.pop_all())

    def segment(
        self, reading: Sequence[tuple[Item, Future[_Read[Result]]]], pool: Executor
    ) -> list[tuple[Item, Future[Result]]]:
        """Segment pictures, those that are alike side by side; they are finished in the background."""
        futures: list[Future[Any]] = [future for _, future in reading]
        groups: dict[Any, list[int]] = {}
        for place, future in enumerate(futures):
            if future.exception() is None:
                end = future.result().end
                beside = self.segmenter._side_by_side(end, self.options.regions)
                groups.setdefault(alike(end) if beside else None, []).append(place)
        for key, places in groups.items():
            reads: list[_Read[Result]] = [futures[place].result() for place in places]
            found = [None] * len(reads) if key is None else self._regions([read.end for read in reads])
            for place, read, run in zip(places, reads, found, strict=True):
                futures[place] = self._alone(read) if run is None else pool.submit(self._finish, read, run)
        return [(item, future) for (item, _), future in zip(reading, futures, strict=True)]

    def _regions(self, ends: list[End]) -> list[Evolution | Exception]:
        """Find the regions of pictures that are alike, in smaller batches where memory is short."""
        found: list[Evolution | Exception] = []
        segmenter, regions = self.segmenter, self.options.regions
        while len(found) < len(ends):
            batch = ends[len(found) : len(found) + self.batch_size]
            try:
                found += regions_of(segmenter.net, batch, regions, segmenter.usage.positions, segmenter.device)
            except torch.OutOfMemoryError as error:
                if len(batch) == 1:
                    found.append(error)
                    continue
                self.batch_size = len(batch) // 2
                if not self._said:
                    warnings.warn(
                        f"{len(batch)} pictures at a time are too many for the memory of {segmenter.device}; going on "
                        "with fewer. A smaller batch_size saves the attempt.",
                        stacklevel=2,
                    )
                self._said = True
            except Exception as error:  # of this batch; what is wrong with it must not cost the others
                found += [error] * len(batch)
        return found

    def _finish(self, read: _Read[Result], run: Evolution | Exception) -> Result:
        with read.held:
            if isinstance(run, Exception):
                raise run
            segmenter = self.segmenter
            result = finished(segmenter.net, read.end, run, self.options.regions, segmenter.device)
            return read.job.finish(result)

    def _alone(self, read: _Read[Result]) -> Future[Result]:
        """Segment a picture by itself."""
        options, future = self.options, Future[Result]()
        try:
            with read.held:
                result = self.segmenter.segment(
                    read.end.canvas.source,
                    options.regions or "auto",
                    iterations=options.iterations,
                    min_share=options.min_share,
                    seed=options.seed,
                )
                future.set_result(read.job.finish(result))
        except Exception as error:
            future = Future()
            future.set_exception(error)
        return future

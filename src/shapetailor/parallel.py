"""Compiled code, and a pool of threads for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Barrier, local
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

_here = local()

# torch's threads do not survive a fork, and the first operation of a forked child that needs them would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def compiled(**options: Any) -> Callable[[Function], Function]:
    """Let numba compile a function that takes plain arrays, without the interpreter's lock.

    What is compiled is kept for the next process, except where no folder can be written to (another user's
    installation and no home folder): numba would refuse to work there at all.
    """

    def compile_function(function: Function) -> Function:
        from numba import njit  # only where something is compiled: not every machine that trains has it

        try:
            kernel: Function = njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # "no locator available"
            kernel = njit(nogil=True, **options)(function)
        return kernel

    return compile_function


def thread_count() -> int:
    """Return how many threads `in_threads` takes: as many as torch, or as torch had before `without_torch`."""
    count: int = getattr(_here, "count", 0) or torch.get_num_threads()
    return count


def in_threads(tasks: Iterable[Callable[[], Result]]) -> list[Result]:
    """Run tasks that release the interpreter's lock on several threads, this one included; return results in order.

    In the other threads torch, and a nested call of this, have one thread.
    """
    todo = list(tasks)
    helpers = min(thread_count(), len(todo)) - 1
    if helpers < 1:
        return [task() for task in todo]
    results: list[Result | None] = [None] * len(todo)
    numbers = iter(range(len(todo)))

    def work() -> None:
        for number in numbers:  # each number goes to one thread
            results[number] = todo[number]()

    running = [_pool(thread_count() - 1, os.getpid()).submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        for helper in running:
            if not helper.cancel():
                helper.result()
    return results  # type: ignore[return-value]


@contextmanager
def without_torch() -> Iterator[None]:
    """Limit torch to one thread: its others wait in a busy loop and take the cores from ours.

    For small operations that alternate with compiled ones.
    """
    before, threads = getattr(_here, "count", 0), torch.get_num_threads()
    if threads == 1:
        yield
        return
    _here.count = threads
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _here.count = before


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Make the threads; a forked process gets its own."""
    pool, ready = ThreadPoolExecutor(threads, "shapetailor"), Barrier(threads + 1)

    def prepare() -> None:
        torch.get_num_threads()  # torch sets the number itself on first use
        torch.set_num_threads(1)
        ready.wait()

    of_torch = torch.get_num_threads()
    for _ in range(threads):
        pool.submit(prepare)
    ready.wait()
    torch.set_num_threads(of_torch)  # for threads to come
    return pool

"""Work on many pictures: in this process, in others, or on the machines of a Ray cluster; the same code for all.

Whatever does the work, a picture that fails is an outcome with a reason, and one whose worker dies is done again. A
picture may so be done twice, but what is written for it is written atomically under the same name.

On Ray the pictures are tasks, not actors or a dataset: Ray itself then starts them again when a worker or a machine
dies, and an autoscaler sees the queue. The model stays with a worker's process between tasks, as it would in an actor.
"""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: A picture whose worker died so often has failed.
MOST_DEATHS = 2
#: The same on a cluster, whose machines also die of their own accord.
MOST_DEATHS_ON_RAY = 4
#: What a full disk says, or one that may not be written to.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
#: Tasks that wait on a cluster for each of its cores, so that none is idle while results travel.
QUEUED = 2


class Outcome(NamedTuple, Generic[Item, Result]):
    """What came of an item: a result, or why there is none."""

    item: Item
    result: Result | None = None
    reason: str = ""
    disk: bool = False  # the reason is a full or read-only disk: others will fail too


def each_done(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int | None = None,
    ray: str | None = None,
    gpus: int = 0,
) -> Iterator[Outcome[Item, Result]]:
    """Yield the outcome of every item, in the order in which they are done.

    Parameters
    ----------
    work : callable
        What is done with an item. It is sent once to each worker, and may hold a model.
    jobs : int, optional
        Worker processes of this machine; 1 (default): none, the work is done here. On a cluster, the tasks that are
        there at once (default: as many as it has room for).
    ray : str, optional
        Address of a Ray cluster.
    gpus : int
        GPUs that a task on the cluster takes.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    if ray is not None:
        return _on_ray(work, items, jobs, ray, gpus)
    if jobs is None or jobs == 1:
        return (_attempt(work, item) for item in items)
    return _in_processes(work, items, jobs)


def _attempt(work: Callable[[Item], Result], item: Item) -> Outcome[Item, Result]:
    try:
        return Outcome(item, work(item))
    except Exception as error:  # whatever is wrong with one item must not cost the others
        return failed(item, error)


def failed(item: Item, error: Exception) -> Outcome[Item, Any]:
    """Return the outcome of an item that could not be done."""
    disk = isinstance(error, OSError) and error.errno in FULL
    return Outcome(item, None, memory_words(error) or str(error) or type(error).__name__, disk)


def memory_words(error: Exception) -> str | None:
    """Say that memory ran out, if that is the error: NumPy and torch have words of their own, Python has none."""
    if type(error) is MemoryError and error.args:
        return str(error)
    torch = sys.modules.get("torch")  # an error of its own comes only after its import
    kinds = (MemoryError,) if torch is None else (MemoryError, torch.OutOfMemoryError)
    if isinstance(error, kinds) or "can't allocate memory" in str(error):
        return "there is too little memory for it"
    return None


def _in_processes(work: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> Iterator[Outcome[Item, Result]]:
    waiting = deque(enumerate(items))
    jobs = min(jobs, len(waiting))
    deaths: Counter[int] = Counter()
    team: dict[Connection, _Worker] = {}
    try:
        while waiting or any(worker.task for worker in team.values()):
            while len(team) < jobs:
                worker = _Worker(work, jobs)
                team[worker.connection] = worker
            for worker in team.values():
                if waiting and worker.task is None:
                    worker.give(waiting.popleft())
            for connection in wait([each for each, worker in team.items() if worker.task]):
                worker = team[connection]  # type: ignore[index]
                task = worker.task
                assert task is not None
                try:
                    yield worker.outcome()
                except EOFError:
                    team.pop(worker.connection)
                    deaths[task[0]] += 1
                    if deaths[task[0]] < MOST_DEATHS:
                        waiting.append(task)
                    else:
                        code = worker.end()
                        yield Outcome(task[1], None, f"its worker died twice (exit code {code}); too little memory?")
    finally:
        for worker in team.values():
            worker.end()


class _Worker:
    """A process that does what it is given, one item at a time."""

    def __init__(self, work: Callable[[Any], Any], jobs: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        threads = max(1, (os.cpu_count() or 1) // jobs)
        self.process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
        self.process.start()
        theirs.close()  # so that the process's death is the end of the connection
        self.task: tuple[int, Any] | None = None
        self._send(work)

    def give(self, task: tuple[int, Any]) -> None:
        self.task = task
        self._send(task[1])

    def _send(self, what: Any) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it died; the answer will say so
            self.connection.send(what)

    def outcome(self) -> Outcome[Any, Any]:
        try:
            outcome: Outcome[Any, Any] = self.connection.recv()
        except ConnectionResetError as error:
            raise EOFError from error
        self.task = None
        return outcome

    def end(self) -> int | None:
        self.process.terminate()
        self.process.join()
        self.connection.close()
        return self.process.exitcode


def _serve(connection: Connection, threads: int) -> None:
    """Work in a process until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    import torch  # here, so that a cluster's worker and the help of commands do without it

    torch.set_num_threads(threads)
    try:
        work = connection.recv()
        while True:
            connection.send(_attempt(work, connection.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _on_ray(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int | None, address: str, gpus: int
) -> Iterator[Outcome[Item, Result]]:
    try:
        import ray
    except ImportError as error:
        raise ValueError("--ray needs Ray: pip install shapetailor[ray]") from error
    if not ray.is_initialized():
        try:
            _check_answers(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(f"--ray {address}: no Ray cluster answers there ({error})") from error
    shared = ray.put(work)
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=MOST_DEATHS_ON_RAY - 1)(_ray_task)
    running: dict[Any, Item] = {}
    for item in items:
        while len(running) >= (jobs or QUEUED * max(1, int(ray.cluster_resources().get("CPU", 1)))):
            yield _finished(ray, running)
        running[task.remote([shared], shared.hex(), item)] = item
    while running:
        yield _finished(ray, running)


def _check_answers(address: str) -> None:
    """Raise unless something listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _finished(ray: Any, running: dict[Any, Item]) -> Outcome[Item, Any]:
    (done,), _ = ray.wait(list(running), num_returns=1)
    item = running.pop(done)
    try:
        outcome: Outcome[Item, Any] = ray.get(done)
        return outcome
    except ray.exceptions.RayError as error:
        first = str(error).strip().split("\n")[0]
        return Outcome(item, None, f"its worker died or could not start ({type(error).__name__}: {first})")


_works: dict[str, Any] = {}


def _ray_task(shared: list[Any], key: str, item: Any) -> Outcome[Any, Any]:
    """Do an item in a worker of the cluster, which keeps the work of the last run."""
    if key not in _works:
        import ray

        _works.clear()
        _works[key] = ray.get(shared[0])
    return _attempt(_works[key], item)

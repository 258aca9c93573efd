"""Spoilt files by the thousand, under a limit of memory and of time for each: ``python tests/fuzz/run.py``.

A process of its own reads them, so that one that hangs or dies is named and the next begins behind it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

from fuzz_targets import TARGETS, attempt

#: Bytes of memory above those of the process at its start, and seconds, that an input may take.
MOST_MEMORY, MOST_SECONDS = 2**31, 20
#: Inputs of one process; decoders may keep memory of files that failed.
BATCH = 500


class Hang(BaseException):
    """No answer for too long."""


def _too_long(*_: object) -> None:
    raise Hang


def _work(sender, todo: list[tuple[str, int]]) -> None:
    warnings.simplefilter("ignore")
    attempt("model", 0, Path(tempfile.mkdtemp()))  # imports and starts what starts once
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as folder:
        for target, seed in todo:
            begin = time.perf_counter()
            signal.alarm(MOST_SECONDS)
            reason = attempt(target, seed, Path(folder))
            signal.alarm(0)
            seconds = time.perf_counter() - begin
            if seconds > MOST_SECONDS / 2:
                reason = f"took {seconds:.0f} s ({reason})"
            sender.send((target, seed, reason))


def main() -> int:
    """Run all inputs and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="inputs, over all readers together")
    parser.add_argument("--seed", type=int, default=0, help="of the first input")
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this reader; may be repeated")
    args = parser.parse_args()
    names = args.target or list(TARGETS)
    todo = [(names[i % len(names)], args.seed + i // len(names)) for i in range(args.count)]
    context = multiprocessing.get_context("spawn")
    begin, done, failures = time.perf_counter(), 0, []
    while done < len(todo):
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(sender, todo[done : done + BATCH]))
        worker.start()
        sender.close()
        try:
            for _ in range(min(BATCH, len(todo) - done)):
                if not receiver.poll(120 if done == 0 else 3 * MOST_SECONDS + 60):
                    raise EOFError
                target, seed, reason = receiver.recv()
                done += 1
                if reason:
                    failures.append((target, seed, reason))
                    print(f"{target} {seed}: {reason}", flush=True)
        except EOFError:
            worker.kill()
            worker.join()
            failures.append((*todo[done], f"the process died or hung, exit status {worker.exitcode}"))
            print(*failures[-1], flush=True)
            done += 1
        worker.join()
    print(f"{done} inputs, {len(failures)} failures, {time.perf_counter() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

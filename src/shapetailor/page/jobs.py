"""Teaching and applying: the command line in a process of its own, watched line by line."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .refusal import Refusal, words_of_command

#: Longest line and most lines of a job's errors that are kept.
LONGEST_LINE, MOST_LINES = 2**16, 50
#: Seconds that a job has to end in once it is asked to.
PATIENCE = 5
#: What fine-tuning says of its steps.
STEP = re.compile(r"step (\d+)/(\d+): loss ([\d.]+).*, (\d+) s left")


class Jobs:
    """At most one job at a time; what is known of the last one is kept.

    Parameters
    ----------
    tell : callable
        Called with the job whenever something is new.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self.job: dict[str, Any] | None = None
        self._tell = tell
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a job is under way."""
        return self.job is not None and self.job["state"] == "running"

    @property
    def failed(self) -> dict[str, str]:
        """Pictures that the last job could not do, by stem, and why."""
        lines = [] if self.job is None else self.job["failures"]
        return {Path(line.split(": ", 1)[0]).stem: line.split(": ", 1)[-1] for line in lines}

    async def start(self, project: Path, kind: str, total: int, fine_tune: bool = False) -> None:
        """Start a job on so many pictures."""
        if self.is_running:
            raise Refusal(409, "A job is running already. Wait for it, or cancel it.")
        if kind not in ("teach", "apply"):
            raise Refusal(400, "A job's kind is teach or apply.")
        words = [kind, str(project), "--progress-json", *(["--fine-tune"] if fine_tune and kind == "teach" else [])]
        self.job = {
            "kind": kind,
            "state": "running",
            "done": 0,
            "total": total,
            "text": "Starting…",
            "curve": [],
            "tried": False,
            "failures": [],
        }
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "shapetailor.cli", *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
                start_new_session=True,
            )
        except OSError:
            self.job = None
            raise
        self._task = asyncio.create_task(self._watch(self._process, self.job))
        self._tell(self.job)

    async def cancel(self) -> None:
        """Stop the job, as Ctrl-C does, and wait until it has ended; what it has written stays."""
        if not self.is_running or self._process is None or self.job is None:
            raise Refusal(409, "No job is running.")
        self.job["state"] = "cancelled"
        await self.end()

    async def end(self) -> None:
        """End the job's process, whatever its state."""
        if self._process is not None and self._process.returncode is None:
            # Where the server runs in the background, its children may ignore the first.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, TimeoutError):
                    self._process.send_signal(number)
                    await asyncio.wait_for(asyncio.shield(self._process.wait()), PATIENCE)
                    break
        if self._task is not None:
            await self._task

    async def _watch(self, process: asyncio.subprocess.Process, job: dict[str, Any]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        said, errors = await asyncio.gather(
            _lines(process.stdout, lambda line: self._hear(job, line)),
            _lines(process.stderr, lambda line: self._follow(job, line)),
        )
        status = await process.wait()
        job["failures"] = [line.removeprefix("failed: ") for line in errors if line.startswith("failed: ")]
        if job["state"] == "running":
            fine = status == 0 or (job["kind"] == "apply" and status == 1 and job["failures"])
            job["state"] = "done" if fine else "failed"
            words = said if fine else [line for line in errors if line.startswith("shapetailor ")] or errors
            last = words[-1].removeprefix(f"shapetailor {job['kind']}: ") if words else ""
            job["text"] = last if fine else words_of_command(status, last)
        elif job["kind"] == "apply":
            job["text"] = "Cancelled; what was done stays."
        else:
            goes_on = "Cancelled. With the same marks, fine-tuning goes on from here."
            job["text"] = goes_on if job["curve"] else "Cancelled."
        self._tell(job)

    def _hear(self, job: dict[str, Any], line: str) -> bool:
        """Take a line of progress; False where it is something else."""
        try:
            news = json.loads(line)
            known = {key: news[key] for key in ("done", "total", "text") if key in news}
        except (ValueError, TypeError, KeyError):
            return False
        if job["state"] == "running":
            job.update(known)
            self._tell(job)
        return True

    def _follow(self, job: dict[str, Any], line: str) -> bool:
        """Take a line of fine-tuning; False where it is something else."""
        step = STEP.match(line)
        if step is None:
            return False
        before = [point for point in job["curve"] if point[0] < int(step[1])]  # none where the trial has ended
        job["tried"] |= len(before) < len(job["curve"])
        what = "Fine-tuning with all marks" if job["tried"] else "Fine-tuning"
        text = f"{what}: step {step[1]} of {step[2]}, {_span(int(step[4]))} left"
        job |= {"done": int(step[1]), "total": int(step[2]), "text": text}
        job["curve"] = [*before, [int(step[1]), float(step[3])]]
        if job["state"] == "running":
            self._tell(job)
        return True


def _span(seconds: int) -> str:
    """How long something takes, for a person.

    >>> _span(89), _span(379)
    ('89 s', '6 min')
    """
    return f"{seconds} s" if seconds < 90 else f"{round(seconds / 60)} min"


async def _lines(stream: asyncio.StreamReader, hear: Callable[[str], bool] = lambda line: False) -> list[str]:
    """Read a stream to its end; return the last lines that were not heard."""
    kept: list[str] = []
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit
            continue
        if not line:
            return kept
        text = line.decode("utf-8", "replace").strip()
        if text and not hear(text):
            kept = [*kept[1 - MOST_LINES :], text]

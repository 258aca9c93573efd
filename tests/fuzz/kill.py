"""Commands killed at random moments and started again: in the end every file is what an undisturbed run writes.

``python tests/fuzz/kill.py``; also two processes at once on one folder, and a clock that runs backwards. A server that
is killed while strokes are drawn has all that it acknowledged when it is back.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLI = [sys.executable, "-m", "shapetailor.cli"]
TRAINING = "--most 6 --steps 6 --samples 6 --resume"
#: Name → the command's words, with DATA for the dataset and OUT for the folder to write to.
COMMANDS = {
    "segment": "segment DATA/images --out OUT --statistics --polygons --animate",
    "train": f"train --data DATA --out OUT/net.safetensors --batch 2 --validate-every 2 {TRAINING}",
    "sharpen": f"sharpen FIRST --data DATA --out OUT/net.safetensors {TRAINING}",
    "experiment": "experiment multi-region --quick --limit 2 --methods kmeans-colour,stld --out OUT",
    "teach": "teach OUT",
    "apply": "apply OUT",
}
#: Two processes of these may work on one folder.
SHARED = ("segment", "experiment", "teach", "apply")
#: The model of a training is another one after each validation; all else is written once.
CHANGING = ("train", "sharpen")
SERVER_TEST = Path(__file__).parents[1] / "page" / "test_kill.py"
#: Each call of the clock tells an hour less than the one before.
BACKWARDS = "import itertools, time\nsteps = itertools.count()\ntime.time = lambda: 1e6 - 3600 * next(steps)\n"


def words(name: str, data: Path, out: Path) -> list[str]:
    """Return a command line."""
    first = str(data.parent / "train-reference" / "net.safetensors")
    text = COMMANDS[name].replace("DATA", str(data)).replace("OUT", str(out)).replace("FIRST", first)
    return [*CLI, *text.split()]


def fresh(name: str, data: Path, out: Path) -> Path:
    """Make the folder a command works in: empty, or a copy of a project that was taught before, with another seed."""
    if name not in ("teach", "apply"):
        out.mkdir()
        return out
    project = data.parent / "project"
    if not project.exists():
        make_project(project, data)
    return Path(shutil.copytree(project, out))


def make_project(project: Path, data: Path) -> None:
    """Make a project with strokes in two pictures, and teach it."""
    (project / "marks").mkdir(parents=True)
    shutil.copytree(data / "images", project / "pictures")
    classes = [{"value": 1, "name": "first", "color": "#e6194b"}, {"value": 2, "name": "second", "color": "#3cb44b"}]
    (project / "classes.json").write_text(json.dumps({"version": 1, "classes": classes}))
    strokes = [
        {"region": value, "kind": "brush", "radius": 6, "points": [[place, place]]}
        for value, place in ((1, 12), (2, 50))
    ]
    for picture in ("00000", "00001"):
        (project / "marks" / f"{picture}.json").write_text(json.dumps({"version": 1, "strokes": strokes}))
    if start([*CLI, "teach", str(project), "--seed", "1"]).wait():
        raise RuntimeError("a project could not be taught")


def files(folder: Path) -> dict[str, bytes]:
    """Return the files that count: hidden ones are a killed process's; logs, curves and results tell times."""
    kept = (".png", ".csv", ".geojson", ".gif", ".safetensors")
    told = (".log.csv", ".curves.png")
    found = (path for path in folder.rglob("*") if path.suffix in kept and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if not path.name.endswith(told)}


def start(command: list[str], path: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a command without its output, with another folder on Python's path perhaps."""
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(path), environment.get("PYTHONPATH", "")])
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def differences(out: Path, reference: Path) -> str | None:
    """Return which files differ."""
    ours, theirs = files(out), files(reference)
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    return f"files differ: {', '.join(differing)}" if differing or not theirs else None


def killed(name: str, data: Path, folder: Path, kills: int, rng: random.Random) -> str | None:
    """Kill a command so many times, let it end, and compare; return what is wrong."""
    reference, out = (fresh(name, data, folder / f"{name}-{kind}") for kind in ("reference", "killed"))
    begin = time.perf_counter()
    if start(words(name, data, reference)).wait():
        return "the undisturbed run failed"
    seconds = time.perf_counter() - begin
    before, after = files(out), files(reference)
    for _ in range(kills):
        process = start(words(name, data, out))
        try:
            process.wait(rng.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        found = {} if name in CHANGING else files(out)
        partial = [each for each in found if found[each] not in (before.get(each), after.get(each))]
        if partial:
            return f"after a kill these are neither as before nor as they should be: {', '.join(sorted(partial))}"
    if start(words(name, data, out)).wait():
        return "the run after the last kill failed"
    return differences(out, reference)


def together(name: str, data: Path, folder: Path) -> str | None:
    """Let two processes do the same in one folder; return what is wrong."""
    out = fresh(name, data, folder / f"{name}-together")
    status = [process.wait() for process in [start(words(name, data, out)) for _ in range(2)]]
    return f"exit status {status}" if any(status) else differences(out, folder / f"{name}-reference")


def backwards(name: str, data: Path, folder: Path) -> str | None:
    """Let the clock run backwards, from the year 1970; return what is wrong."""
    out, clock = fresh(name, data, folder / f"{name}-backwards"), folder / "clock"
    clock.mkdir(exist_ok=True)
    (clock / "sitecustomize.py").write_text(BACKWARDS)
    if start(words(name, data, out), clock).wait():
        return "the run failed"
    return differences(out, folder / f"{name}-reference")


def served(kills: int) -> str | None:
    """Kill the server so often while strokes are drawn; return what is wrong."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", str(SERVER_TEST)]
    ended = subprocess.run(command, env=os.environ | {"KILLS": str(kills)}, capture_output=True, text=True)
    return ended.stdout[-2000:] if ended.returncode else None


def main() -> int:
    """Run all commands and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=8, help="of each command")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument(
        "--command", choices=[*COMMANDS, "serve"], action="append", help="only this one; may be repeated"
    )
    args = parser.parse_args()
    rng = random.Random(args.seed)
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data"
        options = f"data mosaics --out {data} --count 6 --size 64 --regions 2 --colour"
        subprocess.run([*CLI, *options.split()], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in args.command or [*COMMANDS, "serve"]:
            if command == "serve":
                wrong = served(args.kills)
                print(f"serve, {args.kills} kills: {wrong or 'all strokes that were acknowledged'}", flush=True)
                failures += wrong is not None
                continue
            outcomes = {f"{args.kills} kills": killed(command, data, folder, args.kills, rng)}
            outcomes["a clock that runs backwards"] = backwards(command, data, folder)
            if command in SHARED:
                outcomes["two at once"] = together(command, data, folder)
            for what, wrong in outcomes.items():
                print(f"{command}, {what}: {wrong or 'the same files'}", flush=True)
                failures += wrong is not None
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

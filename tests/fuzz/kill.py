"""Commands killed at random moments and started again: in the end every file is what an undisturbed run writes.

``python tests/fuzz/kill.py``; also two processes at once on one folder.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLI = [sys.executable, "-m", "shapetailor.cli"]
TRAINING = ["--most", "6", "--steps", "6", "--samples", "6", "--resume"]
#: Name → the command's words, with DATA for the dataset and OUT for the folder to write to.
COMMANDS = {
    "segment": "segment DATA/images --out OUT --statistics --polygons --animate",
    "train": f"train --data DATA --out OUT/net.safetensors --batch 2 --validate-every 2 {' '.join(TRAINING)}",
    "sharpen": f"sharpen FIRST --data DATA --out OUT/net.safetensors {' '.join(TRAINING)}",
}


def words(name: str, data: Path, out: Path) -> list[str]:
    """Return a command line."""
    first = str(data.parent / "train-reference" / "net.safetensors")
    text = COMMANDS[name].replace("DATA", str(data)).replace("OUT", str(out)).replace("FIRST", first)
    return [*CLI, *text.split()]


def files(folder: Path) -> dict[str, bytes]:
    """Return the files that count: hidden ones are a killed process's, logs and curves tell times."""
    kept = (".png", ".csv", ".geojson", ".gif", ".safetensors")
    found = (path for path in folder.iterdir() if path.suffix in kept and not path.name.startswith("."))
    return {path.name: path.read_bytes() for path in sorted(found) if not path.name.endswith(".log.csv")}


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command without its output."""
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed(name: str, data: Path, folder: Path, kills: int, rng: random.Random) -> str | None:
    """Kill a command so many times, let it end, and compare; return what is wrong."""
    reference, out = folder / f"{name}-reference", folder / f"{name}-killed"
    reference.mkdir()
    out.mkdir()
    begin = time.perf_counter()
    if start(words(name, data, reference)).wait():
        return "the undisturbed run failed"
    seconds = time.perf_counter() - begin
    for _ in range(kills):
        process = start(words(name, data, out))
        try:
            process.wait(rng.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if start(words(name, data, out)).wait():
        return "the run after the last kill failed"
    return None if files(out) == files(reference) else f"files differ: {sorted(files(out))}, {sorted(files(reference))}"


def together(data: Path, folder: Path) -> str | None:
    """Let two processes segment one folder into one folder; return what is wrong."""
    out = folder / "together"
    status = [process.wait() for process in [start(words("segment", data, out)) for _ in range(2)]]
    if any(status):
        return f"exit status {status}"
    return None if files(out) == files(folder / "segment-reference") else "files differ"


def main() -> int:
    """Run all commands and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=8, help="of each command")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--command", choices=COMMANDS, action="append", help="only this one; may be repeated")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data"
        made = [
            *CLI,
            "data",
            "mosaics",
            "--out",
            str(data),
            "--count",
            "6",
            "--size",
            "64",
            "--regions",
            "2",
            "--colour",
        ]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in args.command or COMMANDS:
            wrong = killed(command, data, folder, args.kills, rng)
            print(f"{command}, {args.kills} kills: {wrong or 'the same files'}", flush=True)
            failures += wrong is not None
        if (folder / "segment-reference").exists():
            wrong = together(data, folder)
            print(f"two at once: {wrong or 'the same files'}", flush=True)
            failures += wrong is not None
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""What workers are given to do in the tests; importable by their processes."""

import os
import signal
import time
from pathlib import Path


class Deed:
    """Writes a line for each time an item is begun; some items fail, and some kill their worker, once or always.

    `stuck` names an item that does not end when it is begun first: the test must kill its worker.
    """

    def __init__(self, folder, pause=0.0, stuck=None):
        self.folder, self.pause, self.stuck = Path(folder), pause, stuck

    def __call__(self, item):
        with (self.folder / f"{item}.begun").open("a") as file:
            file.write(f"{os.getpid()}\n")
        begun = len((self.folder / f"{item}.begun").read_text().splitlines())
        time.sleep(60.0 if item == self.stuck and begun == 1 else self.pause)
        if item == "bad":
            raise ValueError("it is bad")
        if item == "deadly" or (item == "deadly once" and begun == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        temporary = self.folder / f".{item}.{os.getpid()}"
        temporary.write_text(item)
        temporary.replace(self.folder / f"{item}.done")
        return item.upper()

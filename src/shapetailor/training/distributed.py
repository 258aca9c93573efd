"""Several processes, started by `torchrun`, that share the work of one training."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from ..network.device import usable_device


@dataclass(frozen=True)
class Processes:
    """One of several processes: its number, how many there are, and where it works."""

    rank: int
    count: int
    device: torch.device

    def share(self, total: int) -> range:
        """Return which of `total` things are this process's."""
        return range(self.rank, total, self.count)

    def sum(self, values: Tensor) -> Tensor:
        """Add `values` of all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def sum_gradients(self, parameters: Iterable[Parameter]) -> None:
        """Replace every gradient by its sum over the processes, in one message."""
        if self.count == 1:
            return
        gradients = [each.grad for each in parameters if each.grad is not None]
        flat = self.sum(torch.cat([each.flatten() for each in gradients]))
        for each, part in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
            each.copy_(part.view_as(each))

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.count > 1:
            dist.barrier()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the processes that `torchrun` started: by gloo on CPUs, by nccl on GPUs, one GPU each.

    A process that was started otherwise is alone.
    """
    rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    place = usable_device(device)
    if count == 1:
        yield Processes(0, 1, place)
        return
    if place.type == "cuda":
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield Processes(rank, count, place)
        dist.barrier()  # leave together: a process that goes while another still writes can abort on its way out
    finally:
        dist.destroy_process_group()

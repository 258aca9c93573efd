"""Training: killed and resumed, by several at once, on a full disk, without the optional packages."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from threading import Barrier
from typing import ClassVar

import numpy as np
import pytest
import torch

from full_disk import full_disk
from shapetailor.io.images import write_image, write_labels
from shapetailor.network import STDNNConfig
from shapetailor.network.checkpoint import load_model
from shapetailor.training import TrainConfig
from shapetailor.training.augmentation import Batches
from shapetailor.training.corpus import read_corpus
from shapetailor.training.distributed import Processes
from shapetailor.training.loop import gradients
from shapetailor.training.run_state import state_path
from shapetailor.training.sample_bank import fill_bank
from shapetailor.training.train import batch_loss, initial_network, validate, validation_blocks

SIZE = 16

#: Trains on a folder; all tests of this module run it, with one thread so that every process computes alike.
SCRIPT = """
import sys
import torch
from shapetailor.network import STDNNConfig
from shapetailor.training import TrainConfig, train

torch.set_num_threads(1)
network = STDNNConfig(widths=(6, 3), scales=(1.0,), alpha=1.0, resolution=16)
sizes = {"size": 16, "steps": int(sys.argv[3]), "batch": 4, "samples": 12}
config = TrainConfig(network, **sizes, validate_every=2, validation_share=0.3)
train(sys.argv[1], sys.argv[2], config, resume=True, device="cpu", progress=False)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for kind in ("images", "masks"):
        (folder / kind).mkdir()
    rng = np.random.default_rng(0)
    truth = (np.arange(SIZE) >= SIZE // 2).astype(np.int64) * np.ones((SIZE, 1), np.int64)
    for number in range(6):
        image = rng.integers(20, 230, (2, 3))[truth] + rng.integers(-20, 20, (SIZE, SIZE, 3))
        write_image(folder / "images" / f"{number}.png", image.astype(np.uint8))
        write_labels(folder / "masks" / f"{number}.png", truth)
    return folder


def here(data, out, steps, script=SCRIPT):
    """Run a script in this process, as one that trains alone: that spares a start."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["-c", str(data), str(out), str(steps)])
        try:
            exec(script, {"__name__": "__main__"})
        finally:
            torch.set_num_threads(threads)


def start(data, out, steps, *launcher):
    script = out.parent / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, *launcher, str(script), str(data), str(out), str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def finish(process, out):
    """Wait for a launcher, but not for its last word to the other: that one may be gone, and it would wait 300 s."""
    end = time.monotonic() + 120
    while process.poll() is None and not out.exists() and time.monotonic() < end:
        time.sleep(0.05)
    try:
        _, errors = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        assert out.exists(), errors
    else:
        assert process.returncode == 0, errors


def losses(out):
    """The losses of a run, of its steps and of its validations."""
    records = map(json.loads, out.with_suffix(".log.jsonl").read_text().splitlines())
    return [(each["loss"], each["validation_loss"]) for each in records]


def test_killed_by_sigkill_and_resumed_it_ends_with_the_same_bytes(data, tmp_path):
    straight, killed = tmp_path / "straight.safetensors", tmp_path / "killed.safetensors"
    process = start(data, killed, 40)
    log = killed.with_suffix(".log.jsonl")
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") >= 3):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stderr.close()
    assert state_path(killed).exists()
    assert not killed.exists()
    here(data, killed, 40)
    here(data, straight, 40)
    assert killed.read_bytes() == straight.read_bytes()
    assert losses(killed) == losses(straight)


class Member(Processes):
    """One of two threads that stand for processes: what they sum they exchange through `table`."""

    table: ClassVar[list] = [None, None]
    barrier: ClassVar = Barrier(2, timeout=60)

    def sum(self, values):
        self.table[self.rank] = values.clone()
        self.barrier.wait()
        values.copy_(self.table[0] + self.table[1])
        self.barrier.wait()  # nobody writes before both have read
        return values


def test_two_members_have_the_gradients_of_one(data):
    corpus = read_corpus(data, SIZE)
    network = STDNNConfig(widths=(6, 3), scales=(1.0,), alpha=1.0, resolution=SIZE)
    config = TrainConfig(network, size=SIZE, batch=4, samples=12, validation_share=0.3)
    net = initial_network(config, corpus)
    bank = fill_bank(net, Batches(corpus, seed=0), 12, 4)

    def computed(processes):
        own = deepcopy(net)
        loss = gradients(own, partial(batch_loss, own, bank, 3, config, processes), processes)
        held_out = validation_blocks(own, corpus, config, processes)
        validation = torch.tensor(validate(own, held_out, config, processes))
        return {**{name: each.grad for name, each in own.named_parameters()}, "loss": loss, "validation": validation}

    device = torch.device("cpu")
    expected = computed(Processes(0, 1, device))
    assert max(float(each.abs().max()) for each in expected.values()) > 1e-3
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(computed, [Member(rank, 2, device) for rank in (0, 1)]):
            for name, each in expected.items():
                assert torch.allclose(found[name], each, rtol=1e-4, atol=1e-6), name


def test_two_machines_train_the_network_of_one(data, tmp_path, monkeypatch):
    """Two machines, each with its `torchrun` and its address on the loopback device."""
    alone, shared = tmp_path / "alone.safetensors", tmp_path / "shared.safetensors"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun = ["-m", "torch.distributed.run", "--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={port}"]
    nodes = [(f"--node-rank={rank}", f"--local-addr=127.0.0.{rank + 1}", "--nproc-per-node=1") for rank in (0, 1)]
    processes = [start(data, shared, 4, *torchrun, *node) for node in nodes]
    here(data, alone, 4)
    for each in processes:
        finish(each, shared)
    (one, one_data), (two, two_data) = load_model(alone), load_model(shared)
    for (name, expected), found in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.allclose(found, expected, rtol=1e-3, atol=1e-4), name
    assert one_data["training"] == two_data["training"]
    np.testing.assert_allclose(losses(shared), losses(alone), rtol=1e-3)
    assert len(losses(shared)) == 2


def test_a_full_disk_is_reported_before_the_first_step(data, tmp_path):
    with full_disk(2**16), pytest.raises(OSError, match="cannot write"):
        here(data, tmp_path / "model.safetensors", 4)
    assert list(tmp_path.iterdir()) == []


IMPORTS = """
import sys

for name in ("numba", "tifffile", "matplotlib", "skimage", "sklearn", "pyamg"):
    sys.modules[name] = None  # to import it is not there
import shapetailor.cli.sharpen, shapetailor.cli.train
"""


def test_training_on_a_gpu_imports_torch_numpy_scipy_pillow_safetensors_and_tqdm_only():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, timeout=120)


def test_training_without_matplotlib_says_so(data, tmp_path, monkeypatch, capsys):
    for name in {"matplotlib", *(each for each in sys.modules if each.startswith("matplotlib."))}:
        monkeypatch.setitem(sys.modules, name, None)  # to import it is not there
    here(data, tmp_path / "model.safetensors", 4, SCRIPT.replace("progress=False", "progress=True"))
    said = capsys.readouterr().err
    assert "step 4/4: loss" in said  # lines where stderr is no terminal
    assert "no curves drawn: matplotlib is not installed" in said
    assert load_model(tmp_path / "model.safetensors")[0].config.widths == (6, 3)

"""Training in real processes: killed and resumed, several at once, on a full disk, without the optional packages."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import safetensors.torch
import torch

from shapetailor.io.images import write_image, write_labels
from shapetailor.network.checkpoint import load_model
from shapetailor.training.run_state import state_path

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


def start(data, out, steps, *launcher, script=SCRIPT):
    command = [sys.executable, *launcher]
    command += ["-c", script] if not launcher else [str(_saved(out.parent, script))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [*command, str(data), str(out), str(steps)], env=environment, stderr=subprocess.PIPE, text=True
    )


def _saved(folder, script):
    path = folder / "script.py"
    path.write_text(script)
    return path


def finish(process):
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def last_loss(out):
    return json.loads(out.with_suffix(".log.jsonl").read_text().splitlines()[-1])["validation_loss"]


def test_killed_by_sigkill_and_resumed_it_ends_with_the_same_bytes(data, tmp_path):
    straight, killed = tmp_path / "straight.safetensors", tmp_path / "killed.safetensors"
    first = start(data, straight, 40)
    second = start(data, killed, 40)
    log = killed.with_suffix(".log.jsonl")
    while second.poll() is None and not (log.exists() and log.read_text().count("\n") >= 3):
        time.sleep(0.002)
    second.send_signal(signal.SIGKILL)
    assert second.wait() == -signal.SIGKILL
    second.stderr.close()
    assert state_path(killed).exists()
    assert not killed.exists()
    finish(start(data, killed, 40))
    finish(first)
    assert killed.read_bytes() == straight.read_bytes()
    assert last_loss(killed) == last_loss(straight)


GRADIENTS = SCRIPT.replace(
    'train(sys.argv[1], sys.argv[2], config, resume=True, device="cpu", progress=False)',
    """
from functools import partial
from safetensors.torch import save_file
from shapetailor.training.augmentation import Batches
from shapetailor.training.corpus import read_corpus
from shapetailor.training.distributed import joined
from shapetailor.training.loop import gradients
from shapetailor.training.sample_bank import fill_bank
from shapetailor.training.train import batch_loss, initial_network, validate, validation_blocks

with joined("cpu") as processes:
    corpus = read_corpus(sys.argv[1], 16)
    net = initial_network(config, corpus)
    bank = fill_bank(net, Batches(corpus, seed=0), 12, 4)
    loss = gradients(net, partial(batch_loss, net, bank, 3, config, processes), processes)
    found = {name: each.grad for name, each in net.named_parameters()}
    held_out = validation_blocks(net, corpus, config, processes)
    validation = torch.tensor(validate(net, held_out, config, processes))
    save_file({**found, "loss": loss, "validation": validation}, f"{sys.argv[2]}.{processes.rank}")
""",
)


def test_two_processes_have_the_gradients_of_one(data, tmp_path):
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    process = start(data, shared, 2, *torchrun, script=GRADIENTS)
    here(data, alone, 2, script=GRADIENTS)
    finish(process)
    expected = safetensors.torch.load_file(f"{alone}.0")
    assert max(float(each.abs().max()) for each in expected.values()) > 1e-3
    for rank in (0, 1):
        found = safetensors.torch.load_file(f"{shared}.{rank}")
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
        finish(each)
    (one, one_data), (two, two_data) = load_model(alone), load_model(shared)
    for (name, expected), found in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.allclose(found, expected, rtol=1e-3, atol=1e-4), name
    assert one_data["training"] == two_data["training"]
    assert shared.with_suffix(".log.jsonl").read_text().count("\n") == 2


def test_a_full_disk_is_reported_before_the_first_step(data, tmp_path):
    # A limit on file sizes, which the kernel enforces as it does the end of a disk.
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))\n" + SCRIPT
    process = start(data, tmp_path / "model.safetensors", 4, script=limited)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "OSError: cannot write" in errors
    assert list(tmp_path.iterdir()) == []


IMPORTS = """
import sys

for name in ("numba", "tifffile", "matplotlib", "skimage", "sklearn", "pyamg"):
    sys.modules[name] = None  # to import it is not there
import shapetailor.cli.sharpen, shapetailor.cli.train
"""
WITHOUT_PLOTS = """
import sys

sys.modules["matplotlib"] = None
""" + SCRIPT.replace("progress=False", "progress=True")


def test_training_on_a_gpu_imports_torch_numpy_scipy_pillow_safetensors_and_tqdm_only():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, timeout=120)


def test_training_without_matplotlib_says_so(data, tmp_path):
    process = start(data, tmp_path / "model.safetensors", 4, script=WITHOUT_PLOTS)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "step 4/4: loss" in errors  # lines where stderr is no terminal
    assert "no curves drawn: matplotlib is not installed" in errors
    assert load_model(tmp_path / "model.safetensors")[0].config.widths == (6, 3)

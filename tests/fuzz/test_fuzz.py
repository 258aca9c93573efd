"""Spoilt files, a few of each kind on every run; `make fuzz` tries thousands (tests/fuzz/run.py)."""

from __future__ import annotations

import json
import warnings

import pytest
import safetensors.torch
import torch
from fuzz_targets import TARGETS, attempt, classifiers

from shapetailor import Classifier
from shapetailor.network.checkpoint import ENTRY

COUNTS = {"model": 60, "dataset": 40}


@pytest.mark.parametrize("target", TARGETS)
def test_spoilt_files_are_read_or_refused_in_words(target, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoders warn of much that is no fault of ours
        failures = {seed: attempt(target, seed, tmp_path) for seed in range(COUNTS.get(target, 120))}
    assert {seed: reason for seed, reason in failures.items() if reason} == {}


def test_a_classifier_of_one_network_of_no_numbers_or_no_size_is_refused(tmp_path):
    (name, content), *_ = classifiers().items()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][ENTRY])
    tensors = safetensors.torch.load(content)
    alone = {key: each for key, each in tensors.items() if "fine." not in key}
    unsure = {key: torch.full_like(each, torch.nan) for key, each in tensors.items()}
    one_network = {**header, "config": {**header["config"], "fine": None}}
    for weights, changed in ((alone, one_network), (unsure, header), (tensors, {**header, "resolution": 1e400})):
        entry = {ENTRY: json.dumps({**changed, "sha256": ""})}
        (tmp_path / name).write_bytes(safetensors.torch.save(weights, entry))
        with pytest.raises(ValueError, match=rf"{name}: (what it holds does not fit|corrupt, some of its weights)"):
            Classifier.load(tmp_path / name)

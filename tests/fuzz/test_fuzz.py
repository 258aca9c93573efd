"""Spoilt files, a few of each kind on every run; `make fuzz` tries thousands (tests/fuzz/run.py)."""

from __future__ import annotations

import warnings

import pytest
from fuzz_targets import TARGETS, attempt

COUNTS = {"model": 60, "dataset": 40}


@pytest.mark.parametrize("target", TARGETS)
def test_spoilt_files_are_read_or_refused_in_words(target, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoders warn of much that is no fault of ours
        failures = {seed: attempt(target, seed, tmp_path) for seed in range(COUNTS.get(target, 120))}
    assert {seed: reason for seed, reason in failures.items() if reason} == {}

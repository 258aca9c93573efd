"""The page's benchmark says what it lacks, and counts a server's memory."""

import os

import pytest

from shapetailor.bench import page


def test_without_a_browser_it_says_so(monkeypatch):
    pytest.importorskip("playwright")
    monkeypatch.setattr(page, "CHROMIUM", "/nowhere/chromium")
    with pytest.raises(FileNotFoundError, match="needs Debian's chromium"):
        page.run(quick=True)


def test_memory_is_that_of_the_process():
    assert page._status(os.getpid(), "VmHWM") > 2**20

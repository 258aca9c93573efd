from __future__ import annotations

import os
import signal
import time
import warnings
from functools import partial

import numba
import pytest
import torch

from shapetailor.parallel import compiled, in_threads, thread_count, without_torch


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def test_a_forked_child_computes_on_one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    (torch.rand(600, 600) @ torch.rand(600, 600)).exp().sum()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of any fork with threads
            child = os.fork()
        if child == 0:
            (torch.rand(600, 600) @ torch.rand(600, 600)).exp().sum()
            os._exit(torch.get_num_threads())
        for _ in range(300):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.1)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        assert os.waitstatus_to_exitcode(status) == 1
    finally:
        torch.set_num_threads(threads)


def test_results_come_in_the_order_of_the_tasks(threads):
    assert in_threads(partial(pow, number, 2) for number in range(20)) == [number**2 for number in range(20)]
    assert in_threads([]) == []


def test_a_task_that_fails_is_heard_of(threads):
    def fail():
        raise RuntimeError("no")

    for tasks in ([fail], [fail, fail, fail], [int, int, int, fail]):
        with pytest.raises(RuntimeError, match="no"):
            in_threads(tasks)


def test_tasks_may_have_tasks(threads):
    def task(number):
        return sum(in_threads(partial(int, k) for k in range(number)))

    assert in_threads(partial(task, number) for number in (2, 3, 4, 5)) == [1, 3, 6, 10]


def test_torch_is_kept_out_and_let_in_again(threads):
    with without_torch():
        assert torch.get_num_threads() == 1
        assert thread_count() == threads
        assert set(in_threads([torch.get_num_threads] * 6)) == {1}
    assert torch.get_num_threads() == thread_count() == threads
    with pytest.raises(ValueError, match="stop"), without_torch():
        raise ValueError("stop")
    assert torch.get_num_threads() == thread_count() == threads


def test_code_is_compiled_where_no_folder_can_keep_it(monkeypatch):
    class NoFolder:
        @staticmethod
        def from_function(*_):
            return None

    monkeypatch.setattr(numba.core.caching.CompileResultCacheImpl, "_locator_classes", [NoFolder])
    with pytest.raises(RuntimeError, match="no locator"):
        numba.njit(cache=True)(_doubled)
    assert compiled()(_doubled)(21) == 42


def _doubled(number):
    return 2 * number

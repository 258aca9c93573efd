"""A real cluster of two nodes on this machine: workers and nodes are killed, and nothing is lost or double."""

import os
import signal
import threading
import time
from contextlib import suppress

import pytest
from deeds import Deed

from shapetailor.workers import each_done

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Ray leaves files open
]
ITEMS = [f"item {number}" for number in range(12)]


def kill(process):
    """Kill a process, unless its node was killed first."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def when(path, action):
    """Run `action` as soon as a file has its first line."""

    def wait():
        while not path.exists() or "\n" not in path.read_text():
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_nothing_is_lost_or_double_when_a_worker_and_a_node_are_killed(ray_cluster, tmp_path):
    items = [*ITEMS, "bad", "deadly"]
    first, last = tmp_path / "item 2.begun", tmp_path / "item 5.begun"
    threads = [
        when(first, lambda: kill(int(first.read_text().split()[0]))),
        when(last, lambda: ray_cluster.remove_node(ray_cluster.workers[0], allow_graceful=False)),
    ]
    outcomes = list(each_done(Deed(tmp_path, pause=0.3, stuck="item 2"), items, ray=ray_cluster.address))
    for thread in threads:
        thread.join()
    ray_cluster.workers[0] = ray_cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    assert sorted(each.item for each in outcomes) == sorted(items)
    reasons = {each.item: each.reason for each in outcomes if each.result is None}
    assert sorted(reasons) == ["bad", "deadly"]
    assert reasons["bad"] == "it is bad"
    assert "its worker died" in reasons["deadly"]
    assert sorted(path.stem for path in tmp_path.glob("*.done")) == sorted(ITEMS)
    assert len(first.read_text().splitlines()) > 1


def test_an_address_without_a_cluster_is_named():
    ray.shutdown()
    with pytest.raises(ValueError, match=r"--ray 127\.0\.0\.1:1: no Ray cluster answers there"):
        list(each_done(str.upper, ["a"], ray="127.0.0.1:1"))

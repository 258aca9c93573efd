"""A real cluster of two nodes on this machine: workers and nodes are killed, and nothing is lost or double."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from deeds import Deed

from shapetailor.workers import each_done

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # Ray leaves files open
]
ITEMS = [f"item {number}" for number in range(12)]


@pytest.fixture
def cluster(monkeypatch):
    """A head without cores, which survives, and two nodes of one core each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]))
    store = {"object_store_memory": 80 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **store, "include_dashboard": False})
    made.workers = [made.add_node(num_cpus=1, **store) for _ in range(2)]
    yield made
    ray.shutdown()
    made.shutdown()


def results(outcomes):
    return sorted(each.result for each in outcomes)


def when(path, action):
    """Run `action` as soon as a file is there."""

    def wait():
        while not path.exists():
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_every_item_is_done_once_and_failures_are_outcomes(cluster, tmp_path):
    outcomes = {each.item: each for each in each_done(Deed(tmp_path), [*ITEMS, "bad", "deadly"], ray=cluster.address)}
    assert len(outcomes) == len(ITEMS) + 2
    assert outcomes["bad"].reason == "it is bad"
    assert "its worker died" in outcomes["deadly"].reason
    assert all(len((tmp_path / f"{item}.begun").read_text().split("\n")) == 2 for item in ITEMS)
    assert results(each_done(Deed(tmp_path), ITEMS, ray=cluster.address)) == sorted(map(str.upper, ITEMS))


def test_a_killed_worker_and_a_killed_node_lose_nothing(cluster, tmp_path):
    first, last = tmp_path / "item 2.begun", tmp_path / "item 5.begun"
    threads = [
        when(first, lambda: os.kill(int(first.read_text().split()[0]), signal.SIGKILL)),
        when(last, lambda: cluster.remove_node(cluster.workers[0], allow_graceful=False)),
    ]
    outcomes = list(each_done(Deed(tmp_path, pause=0.3), ITEMS, ray=cluster.address))
    for thread in threads:
        thread.join()
    assert results(outcomes) == sorted(map(str.upper, ITEMS))
    assert sorted(path.stem for path in tmp_path.glob("*.done")) == sorted(ITEMS)
    assert sum(len(path.read_text().splitlines()) for path in tmp_path.glob("*.begun")) > len(ITEMS)


def test_an_address_without_a_cluster_is_named(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with pytest.raises(ValueError, match=r"--ray 127\.0\.0\.1:1: no Ray cluster answers there"):
        list(each_done(str.upper, ["a"], ray="127.0.0.1:1"))

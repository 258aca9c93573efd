"""Workers of this machine: every item is done, whatever becomes of a worker."""

import os
import signal
import threading
import time

import pytest
from deeds import Deed

from shapetailor.workers import each_done

ITEMS = [f"item {number}" for number in range(8)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_item_has_one_outcome_and_a_failure_costs_no_other(tmp_path, jobs):
    outcomes = list(each_done(Deed(tmp_path), [*ITEMS, "bad"], jobs))
    assert sorted(each.item for each in outcomes) == sorted([*ITEMS, "bad"])
    assert {each.item: (each.result, each.reason) for each in outcomes} == {
        **{item: (item.upper(), "") for item in ITEMS},
        "bad": (None, "it is bad"),
    }
    processes = {(tmp_path / f"{item}.begun").read_text().strip() for item in ITEMS}
    assert (str(os.getpid()) in processes) == (jobs == 1)


def test_an_item_whose_worker_dies_is_done_again_and_fails_when_it_dies_twice(tmp_path):
    def kill_one():
        while not (tmp_path / "item 3.begun").exists():
            time.sleep(0.01)
        os.kill(int((tmp_path / "item 3.begun").read_text().split()[0]), signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    done = each_done(Deed(tmp_path, pause=0.2), [*ITEMS, "deadly once", "deadly"], 2)
    outcomes = {each.item: each for each in done}
    killer.join()
    assert all(outcomes[item].result == item.upper() for item in [*ITEMS, "deadly once"])
    assert "its worker died twice" in outcomes["deadly"].reason
    begun = {path.stem: len(path.read_text().splitlines()) for path in tmp_path.glob("*.begun")}
    assert (begun["deadly"], begun["deadly once"], begun["item 3"]) == (2, 2, 2)


def test_processes_end_when_the_caller_stops_asking(tmp_path):
    outcomes = each_done(Deed(tmp_path), ITEMS, 2)
    next(outcomes)
    outcomes.close()
    pids = {int(line) for path in tmp_path.glob("*.begun") for line in path.read_text().split()}
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_fewer_than_one_job_is_refused():
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        each_done(str, [], 0)

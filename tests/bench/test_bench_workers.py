"""The benchmark of workers: a row for each way and number, with figures that can be."""

from shapetailor.bench import workers


def test_a_row_has_the_time_of_a_picture_and_the_share_that_workers_are_busy(monkeypatch):
    monkeypatch.setattr(workers, "find_spec", lambda name: None)  # Ray has its own tests
    (row,) = workers.measure(pictures=4, side=64, workers=(1,))
    assert (row["way"], row["workers"]) == ("--jobs", 1)
    assert row["cpu"] > 0
    assert 0.5 < row["busy"] <= 1
    assert "--jobs" in workers.table([row])

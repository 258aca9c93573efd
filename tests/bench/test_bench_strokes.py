from shapetailor.bench import strokes


def test_a_small_run_times_answers_that_are_right():
    outcome = strokes.run([128])
    assert outcome.sound
    assert "128²" in outcome.text
    row = outcome.data["rows"][0]
    assert 0 < row["preview"] <= row["slowest"]
    assert row["open"] > 0

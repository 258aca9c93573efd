"""Strokes on disk: undo, redo, and what a killed server leaves."""

import errno
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.page.history import History
from shapetailor.strokes.files import read_strokes, write_strokes
from shapetailor.strokes.marks import Stroke


def stroke(number):
    return Stroke(1 + number % 3, ((number, 1),))


def reopened(history):
    return History(history.file.parent, history.file.stem)


CHANGES = st.lists(st.sampled_from(["add", "add", "add", "undo", "undo", "redo", "clear", "reopen"]), max_size=25)


@given(changes=CHANGES)
def test_undo_and_redo_go_back_and_forth_among_all_states_across_restarts(changes, tmp_path_factory):
    history, past, future, now = History(tmp_path_factory.mktemp("m"), "p"), [], [], ()
    for number, change in enumerate(changes):
        if change == "reopen":
            history = reopened(history)
        elif change == "add":
            history.add(stroke(number))
            past, future, now = [*past, now], [], (*now, stroke(number))
        elif change == "clear":
            history.clear()
            if now:
                past, future, now = [*past, now], [], ()
        elif change == "undo":
            history.undo()
            if past:
                future, now, past = [*future, now], past[-1], past[:-1]
        else:
            history.redo()
            if future:
                past, now, future = [*past, now], future[-1], future[:-1]
        assert history.strokes == now
        assert (tuple(read_strokes(history.file)) if history.file.exists() else ()) == now


def test_a_journal_cut_anywhere_gives_a_state_that_was(tmp_path):
    history, states = History(tmp_path, "p"), [()]
    for number in range(4):
        history.add(stroke(number))
        states.append(history.strokes)
    history.undo()
    content = history.journal.read_bytes()
    for length in range(len(content)):
        history.journal.write_bytes(content[:length])
        history.file.unlink(missing_ok=True)
        done = content[:length].count(b"\n")
        before = states[min(done, 4)] if done < 5 else states[3]
        if states[max(0, done - 1)]:  # the marks are what they were before the last whole line
            write_strokes(history.file, states[done - 1])
        assert reopened(history).strokes == before


def test_marks_that_are_one_change_behind_are_written_again(tmp_path):
    history = History(tmp_path, "p")
    history.add(stroke(0))
    old = history.file.read_bytes()
    history.add(stroke(1))
    history.file.write_bytes(old)
    assert reopened(history).strokes == (stroke(0), stroke(1))
    assert tuple(read_strokes(history.file)) == (stroke(0), stroke(1))


def test_marks_edited_elsewhere_are_a_change_that_can_be_undone(tmp_path):
    history = History(tmp_path, "p")
    history.add(stroke(0))
    history.add(stroke(1))
    write_strokes(history.file, [stroke(7)])
    again = reopened(history)
    assert again.strokes == (stroke(7),)
    again.undo()
    assert again.strokes == (stroke(0), stroke(1))


def test_marks_without_a_journal_are_where_undoing_ends(tmp_path):
    write_strokes(tmp_path / "p.json", [stroke(5)])
    history = History(tmp_path, "p")
    history.add(stroke(1))
    for _ in range(3):
        history.undo()
    assert reopened(history).strokes == (stroke(5),)


def test_a_change_that_is_sent_again_is_done_once_even_after_a_restart(tmp_path):
    history = History(tmp_path, "p")
    first = history.add(stroke(0), "a")
    assert history.add(stroke(0), "a") == first
    again = reopened(history)
    assert again.add(stroke(0), "a") == first
    assert again.strokes == (stroke(0),)


def test_the_revision_never_goes_back(tmp_path):
    history = History(tmp_path, "p")
    seen = [history.add(stroke(0)), history.undo(), history.redo(), history.clear(), history.undo()]
    assert seen == sorted(set(seen))
    assert reopened(history).revision == seen[-1]


def test_there_is_no_file_of_marks_where_nothing_is_marked(tmp_path):
    history = History(tmp_path, "p")
    history.add(stroke(0))
    history.undo()
    assert not history.file.exists()
    assert reopened(history).strokes == ()


def test_a_journal_of_nonsense_is_refused_by_name(tmp_path):
    history = History(tmp_path, "p")
    history.add(stroke(0))
    history.journal.write_text(json.dumps({"do": "undo"}) + "\n")
    with pytest.raises(ValueError, match=r"\.p\.history\.jsonl: its line 1"):
        reopened(history)


def test_marks_that_cannot_be_read_are_named_and_what_to_do_with_them(tmp_path):
    (tmp_path / "p.json").write_text('{"strokes": 3}')
    with pytest.raises(ValueError, match=r"p\.json: .*; mend the file, or remove it to draw anew"):
        History(tmp_path, "p")


@pytest.mark.parametrize("fails", [1, 2])
def test_a_full_disk_changes_nothing_and_the_next_stroke_is_kept(tmp_path, monkeypatch, fails):
    history = History(tmp_path, "p")
    history.add(stroke(0))
    calls, sync = [], os.fsync

    def full(handle):
        calls.append(handle)
        if len(calls) == fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            history.add(stroke(1))
    assert history.strokes == reopened(history).strokes == (stroke(0),)
    history.add(stroke(2))
    assert history.strokes == reopened(history).strokes == (stroke(0), stroke(2))


def test_it_knows_how_much_can_be_undone_and_done_again(tmp_path):
    history = History(tmp_path / "marks", "a")
    assert history.depth == {"undo": 0, "redo": 0}
    history.add(Stroke(1, ((5, 5),)))
    history.add(Stroke(1, ((6, 5),)))
    history.undo()
    assert history.depth == History(tmp_path / "marks", "a").depth == {"undo": 1, "redo": 1}

"""The command line itself; each command has tests of its own."""

import shlex
import subprocess
import sys
from io import BytesIO, TextIOWrapper

import pytest

import shapetailor
from shapetailor import cli


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"shapetailor {shapetailor.__version__}\n"


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert "usage: shapetailor " + name in capsys.readouterr().out


def test_no_command_is_an_error_that_says_what_there_is(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([])
    assert stop.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_bad_input_is_one_line_and_exit_status_2(tmp_path, capsys):
    assert cli.main(["evaluate", "--pred", str(tmp_path / "nowhere"), "--truth", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("shapetailor evaluate: ")
    assert "Traceback" not in message


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
    ],
)
def test_too_little_memory_is_said_in_our_words(error, capsys, monkeypatch):
    def run(args):
        raise error

    monkeypatch.setattr("shapetailor.cli.bench.run", run)
    assert cli.main(["bench", "poisson"]) == 2
    assert capsys.readouterr().err == "shapetailor bench: there is too little memory for it\n"


def test_a_mistake_of_ours_is_no_sentence(monkeypatch):
    def run(args):
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr("shapetailor.cli.bench.run", run)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        cli.main(["bench", "poisson"])


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "shapetailor.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"shapetailor {shapetailor.__version__}"


def test_a_reader_who_has_had_enough_is_no_error():
    words = shlex.join([sys.executable, "-m", "shapetailor.cli", "experiment", "--list"])
    script = f"{words} | head -n 1; echo ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert found.stderr == ""
    assert found.stdout.splitlines()[-1] in ("0", "141")  # it may have ended before the reader


def test_a_terminal_that_knows_no_such_letter_is_no_reason_to_fail(monkeypatch):
    with TextIOWrapper(BytesIO(), encoding="ascii") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert cli.main(["experiment", "--list"]) == 0
        assert b"\\xd7" in terminal.buffer.getvalue()

"""The documents: examples run, commands parse, links lead somewhere, and there are not too many words."""

import argparse
import contextlib
import io
import os
import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shapetailor.cli import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
#: Pages with examples and commands.
SHOWN = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
MOST_WORDS = 11_000
#: Pages of their own, and most words of each.
APART, MOST_APART = {"strokes.md", "classes.md", "gpu.md", "tried.md", "large.md", "many.md", "page.md"}, 1_200
#: A python block below this comment is compiled and not run.
NOT_RUN = re.compile(r"<!-- not run: .+ -->\n\Z")


def blocks(page, *languages):
    """Fenced blocks of a page as (what precedes it, its text)."""
    text = page.read_text(encoding="utf-8")
    fences = re.finditer(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start()], match[1]) for match in fences]


def prose(page):
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def ids(pages):
    return [page.relative_to(ROOT).as_posix() for page in pages]


EXAMPLES = [page for page in SHOWN if blocks(page, "python")]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder with the files that examples name: two textures side by side."""
    folder = tmp_path_factory.mktemp("docs")
    rng = np.random.default_rng(0)
    row, column = np.indices((96, 128))
    truth = (column > 60).astype(np.uint8)
    stripes = np.where(truth, 120 + 80 * np.sin(row), 100 + 50 * np.sin(column / 2))
    photo = Image.fromarray(np.clip(stripes + rng.normal(0, 5, stripes.shape), 0, 255).astype(np.uint8)).convert("RGB")
    photo.save(folder / "photo.jpg")
    (folder / "mydata" / "images").mkdir(parents=True)
    (folder / "mydata" / "masks").mkdir()
    for name in "ab":
        photo.save(folder / "mydata" / "images" / f"{name}.jpg")
        Image.fromarray(truth).save(folder / "mydata" / "masks" / f"{name}.png")
    (folder / "brodatz").mkdir()
    for name in ("D1", "D2", "D3"):
        Image.fromarray(rng.integers(0, 256, (400, 400), dtype=np.uint8)).save(folder / "brodatz" / f"{name}.png")
    return folder


@pytest.mark.parametrize("page", EXAMPLES, ids=ids(EXAMPLES))
def test_the_examples_of_a_page_run(page, pictures, monkeypatch):
    monkeypatch.chdir(pictures)
    names = {}
    for before, code in blocks(page, "python"):
        program = compile(code, page.name, "exec")
        if not NOT_RUN.search(before):
            exec(program, names)


@cache
def parser(command):
    """The options of a subcommand, as the command line declares them."""
    made = argparse.ArgumentParser(prog=f"shapetailor {command}")
    import_module(f"shapetailor.cli.{command}").add_arguments(made)
    return made


@cache
def options(command):
    """All option names of a subcommand and those below it."""
    below = [made.format_help() for made in subparsers(parser(command))]
    return set(re.findall(r"--[a-z][a-z-]*", " ".join([parser(command).format_help(), *below])))


def subparsers(made):
    actions = [action for action in made._actions if isinstance(action, argparse._SubParsersAction)]
    return [sub for action in actions for sub in action.choices.values()]


def command_lines(page):
    text = "\n".join(text for _, text in blocks(page, "bash", "console")).replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in text.splitlines() if shlex.split(line, comments=True)]


def ours(words):
    """The arguments of `shapetailor` in a command line, or None."""
    if words[0].removeprefix(".venv/bin/") == "shapetailor":
        return words[1:]
    return words[words.index("shapetailor.cli") + 1 :] if "shapetailor.cli" in words else None


LINES = [(page, words) for page in SHOWN for words in command_lines(page)]


@pytest.mark.parametrize("words", [pytest.param(ours(words), id=" ".join(words)) for _, words in LINES if ours(words)])
def test_a_command_line_shown_is_understood(words):
    error = io.StringIO()
    with contextlib.redirect_stderr(error):
        try:
            parser(words[0]).parse_args(words[1:])
        except SystemExit:
            pytest.fail(error.getvalue())


@pytest.mark.parametrize("page", SHOWN, ids=ids(SHOWN))
def test_options_named_in_the_text_exist(page):
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "studies").glob("*.py"))
    known = {"--version", "--help", *re.findall(r'"(--[a-z-]+)"', scripts)}.union(*map(options, COMMANDS))
    code = " ".join(re.findall(r"`([^`\n]+)`", prose(page)))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)) <= known


def test_scripts_that_commands_run_exist():
    scripts = {word for _, words in LINES for word in words if word.endswith(".py")}
    scripts |= {name for page in SHOWN for name in re.findall(r"(?:studies|examples|tests)/[\w/]+\.py", prose(page))}
    assert "studies/model_card.py" in scripts
    assert [name for name in sorted(scripts) if not (ROOT / name).is_file()] == []


def test_modules_that_the_architecture_names_exist():
    source = ROOT / "src" / "shapetailor"
    named = re.findall(r"`((?:\w+/)*\w+(?:\.py|/))`", prose(DOCS / "architecture.md"))
    modules = [name for name in named if not name.startswith(("tests/", "studies/", "examples/"))]
    assert "loss.py" in modules
    assert {name for name in modules if not (source / name).exists()} == set()


def test_the_architecture_describes_every_room():
    rooms = {path.stem for path in (ROOT / "src" / "shapetailor").iterdir() if path.suffix == ".py" or path.is_dir()}
    rooms -= {"__init__", "_version", "__pycache__", "models"}
    (picture,) = [text for _, text in blocks(DOCS / "architecture.md", "text")]
    assert set(re.findall(r"\w+", picture)) == rooms
    assert set(re.findall(r"^\| `(\w+)` \|", prose(DOCS / "architecture.md"), re.MULTILINE)) >= rooms


def anchors(page):
    """The anchors of a page's headings, as mkdocs and GitHub make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-") for heading in headings}


@pytest.mark.parametrize("page", SHOWN, ids=ids(SHOWN))
def test_links_inside_the_documents_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+://", link):
            continue
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / path)) if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_site_has_every_page():
    named = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(named) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_the_documents_stay_short():
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert max(words[name] for name in APART) <= MOST_APART
    assert sum(count for name, count in words.items() if name not in APART) <= MOST_WORDS
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90

"""The rooms of the house and the directions of imports between them, as docs/architecture.md draws them."""

import ast
from itertools import accumulate
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "shapetailor"
ROOMS = sorted(p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists())

#: From the ground up: a room imports only rooms of the floors below its own.
FLOORS = [
    {"_version", "arrays"},
    {"clustering", "io", "labels", "loss", "metrics", "parallel", "workers"},
    {"datasets", "drawing", "evaluate", "poisson", "strokes"},
    {"network"},
    {"evolution"},
    {"segmentation"},
    {"training"},
    {"classes"},
    {"page"},
    {"baselines", "bench"},
    {"experiments"},
    {"cli"},
    {"__init__"},
]
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}
BELOW = [set(), *accumulate(FLOORS, set.union)]


def imports(room: str) -> set[str]:
    """Our rooms that a room imports anywhere, functions included."""
    root = SOURCE / room
    files = sorted(root.rglob("*.py")) if root.is_dir() else [root.with_suffix(".py")]
    found = set()
    for file in files:
        depth = len(file.relative_to(SOURCE).parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            assert not (node.module or "").startswith("shapetailor"), f"{file}: imports of ours are relative"
            if node.level == depth:
                found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return {name for name in found if name in ROOMS} - {room}


def test_every_room_has_a_floor():
    assert set(ROOMS) == set(FLOOR_OF)


@pytest.mark.parametrize("room", sorted(FLOOR_OF))
def test_a_room_leans_only_on_floors_below_its_own(room):
    assert imports(room) <= BELOW[FLOOR_OF[room]]


@pytest.mark.parametrize("room", ["io", "labels", "loss", "metrics"])
def test_ground_rooms_know_nothing_but_array_names(room):
    assert imports(room) <= {"arrays"}


def test_the_evolution_knows_no_files_and_no_training():
    assert not imports("evolution") & {"datasets", "drawing", "io", "loss", "metrics"}


def test_imports_are_seen_at_all():
    assert "poisson" in imports("network")

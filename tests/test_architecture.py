"""The directions of imports that docs/architecture.md draws."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "shapetailor"
PARTS = sorted(p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists())

#: Part → all of our parts that it may import.
ALLOWED = {
    "metrics": set(),
    "loss": set(),
    "regions": set(),
    "images": set(),
    "datasets": {"images", "_version"},
    "poisson": set(),
    "differences": {"poisson"},
    "domain": {"differences", "poisson"},
    "poses": set(),
    "pooling": set(),
    "features": {"domain", "poisson", "pooling"},
    "config": {"features"},
    "layer": {"domain", "poisson"},
    "network": {"config", "domain", "features", "layer", "poisson", "pooling"},
    "checkpoint": {"network", "images", "_version"},
    "packing": set(),
    "shapes": {"regions"},
    "means": set(),
    "levels": {"network", "poisson"},
    "pairs": {"augment", "levels", "means", "network", "shapes"},
    "sharpening": {
        "augment",
        "checkpoint",
        "corpus",
        "images",
        "loss",
        "monitor",
        "network",
        "pairs",
        "resume",
        "segmenter",
        "training",
    },
    "solved": {"regions", "shapes"},
    "tailoring": {"means", "packing", "regions", "shapes", "solved"},
    "motion": {"regions", "tailoring"},
    "likeness": {"poisson", "tailoring"},
    "evolution": {"likeness", "motion", "poisson", "regions", "tailoring"},
    "clustering": set(),
    "merging": {"clustering"},
    "starts": {"regions", "clustering", "merging"},
    "cleaning": {"regions"},
    "overlay": {"regions"},
    "warps": set(),
    "baselines": {
        "checkpoint",
        "config",
        "corpus",
        "datasets",
        "domain",
        "evolution",
        "features",
        "images",
        "network",
        "pictures",
        "resume",
        "segmenter",
        "sharpening",
        "starts",
        "training",
    },
    "experiments": {
        "_version",
        "baselines",
        "cleaning",
        "datasets",
        "evaluate",
        "evolution",
        "images",
        "metrics",
        "overlay",
        "regions",
        "segmenter",
        "training",
        "warps",
    },
}


def imports(part: str) -> set[str]:
    """Our parts that a part imports anywhere, functions included."""
    root = SOURCE / part
    files = sorted(root.rglob("*.py")) if root.is_dir() else [root.with_suffix(".py")]
    found = set()
    for file in files:
        depth = len(file.relative_to(SOURCE).parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == depth:
                found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("shapetailor"):
                found |= (
                    {(node.module or "").split(".")[1]} if "." in (node.module or "") else {a.name for a in node.names}
                )
    return {name for name in found if name in PARTS} - {part}


@pytest.mark.parametrize("part", ALLOWED)
def test_a_part_leans_only_on_those_below_it(part):
    assert imports(part) <= ALLOWED[part]


def test_no_part_leans_on_the_command_line():
    for part in PARTS:
        if part not in ("cli", "commands", "__main__"):
            assert not imports(part) & {"cli", "commands"}, part


def test_imports_are_seen_at_all():
    assert "poisson" in imports("domain")

"""Strokes: what a person draws to say which region is which, and how it spreads over the picture."""

from .files import read_marks, read_scribbles, read_strokes, write_strokes
from .marks import Mark, Stroke, as_mark, rasterise

__all__ = ["Mark", "Stroke", "as_mark", "rasterise", "read_marks", "read_scribbles", "read_strokes", "write_strokes"]

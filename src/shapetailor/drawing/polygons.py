"""Regions as polygons that run exactly along the edges of pixels.

Coordinates are pixels, x to the right and y down; pixel (row r, column c) is the square from (c, r) to (c + 1, r + 1).
So the areas of the polygons are numbers of pixels, and neighbours share their boundaries without gap or overlap.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from skimage.measure import label as connected_components

from ..arrays import Ints

#: Corners, the first one repeated at the end.
Ring = list[tuple[int, int]]
#: An outer ring, then the rings of the holes.
Polygon = list[Ring]

# Sides of a pixel and the direction (row, column) in which its boundary runs along them: the top to the right, the
# right side down, the bottom to the left, the left side up.
_RUNS = ((0, 1), (1, 0), (0, -1), (-1, 0))
_STARTS = ((0, 0), (0, 1), (1, 1), (1, 0))


def trace(labels: Ints) -> dict[int, list[Polygon]]:
    """Return for every region >= 0 the polygons of its 4-connected components.

    Rings do not touch themselves, and touch one another in single corners at most (the OGC's "simple features"). The
    signed area in (x, y) is positive for outer rings and negative for holes, as in GeoJSON.
    """
    pieces = connected_components(np.maximum(labels, -1), background=-1, connectivity=1)
    outer: dict[int, Ring] = {}
    holes: dict[int, list[Ring]] = {}
    for piece, ring in _rings(labels, pieces):
        for simple in _split_at_touches(ring):
            if _doubled_area(simple) > 0:
                outer[piece] = simple
            else:
                holes.setdefault(piece, []).append(simple)
    region = np.full(int(pieces.max()) + 1, -1, dtype=np.int64)
    region[pieces] = labels
    polygons: dict[int, list[Polygon]] = {int(number): [] for number in np.unique(region[1:])}
    for piece in sorted(outer):
        polygons[int(region[piece])].append([outer[piece], *holes.get(piece, [])])
    return polygons


def feature_collection(labels: Ints) -> dict[str, Any]:
    """Return the regions as a GeoJSON FeatureCollection (RFC 7946, but in pixel coordinates), one feature each."""
    area = np.bincount(labels[labels >= 0])
    features = [
        {
            "type": "Feature",
            "id": number,
            "properties": {"region": number, "area": int(area[number])},
            "geometry": {"type": "MultiPolygon", "coordinates": polygons}
            if len(polygons) > 1
            else {"type": "Polygon", "coordinates": polygons[0]},
        }
        for number, polygons in trace(labels).items()
    ]
    return {"type": "FeatureCollection", "features": features}


def _rings(labels: Ints, pieces: Ints) -> list[tuple[int, Ring]]:
    """Chain the boundary sides of pixels to closed rings of corners, each with its component's number."""
    side, row, column, following = _chained_sides(labels)
    x, y = (column + np.array(_STARTS)[side, 1]).tolist(), (row + np.array(_STARTS)[side, 0]).tolist()
    turn = side.tolist()
    next_one = following.tolist()
    piece = pieces[row, column].tolist()
    rings = []
    seen = bytearray(len(turn))
    # Sides are listed tops first, row by row: a ring is met first at the left end of a top, which is a corner.
    for first in range(len(turn)):
        if seen[first]:
            continue
        ring: Ring = []
        current = first
        direction = -1
        while not seen[current]:
            seen[current] = True
            if turn[current] != direction:  # corners only
                ring.append((x[current], y[current]))
                direction = turn[current]
            current = next_one[current]
        rings.append((piece[first], [*ring, ring[0]]))
    return rings


def _chained_sides(labels: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return all boundary sides as (side, row, column), and for each the index of the side that continues it."""
    height, width = labels.shape
    framed = np.pad(np.maximum(labels, -1), 1, constant_values=-1)
    inner = framed[1:-1, 1:-1]
    # The neighbour across a side lies to the left of the run along it.
    across = [
        framed[1 + dr : height + 1 + dr, 1 + dc : width + 1 + dc] for dr, dc in (_RUNS[side - 1] for side in range(4))
    ]
    boundary = np.stack([(inner != other) & (inner >= 0) for other in across])
    side, row, column = np.nonzero(boundary)
    step = np.array(_RUNS)
    ahead_row, ahead_column = row + step[side, 0], column + step[side, 1]
    # Where regions meet at a corner only, turning comes first: components are 4-connected.
    turning = boundary[(side + 1) % 4, row, column]
    straight = np.zeros_like(turning)
    keeps = np.flatnonzero(~turning)
    straight[keeps] = boundary[side[keeps], ahead_row[keeps], ahead_column[keeps]]
    left = step[side - 1]
    new_side = np.where(turning, side + 1, np.where(straight, side, side - 1)) % 4
    new_row = np.where(turning, row, np.where(straight, ahead_row, ahead_row + left[:, 0]))
    new_column = np.where(turning, column, np.where(straight, ahead_column, ahead_column + left[:, 1]))
    key = (side * height + row) * width + column  # ascending, as np.nonzero lists them
    following = np.searchsorted(key, (new_side * height + new_row) * width + new_column)
    return side, row, column, following


def _split_at_touches(ring: Ring) -> list[Ring]:
    """Cut a ring at the corners it passes twice."""
    rings: list[Ring] = []
    path: Ring = []
    place: dict[tuple[int, int], int] = {}
    for corner in ring:
        if corner in place:
            start = place[corner]
            loop = path[start:]
            rings.append([*loop, corner])
            for passed in loop[1:]:
                del place[passed]
            del path[start + 1 :]
        else:
            place[corner] = len(path)
            path.append(corner)
    return rings


def _doubled_area(ring: Ring) -> int:
    return sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in pairwise(ring))

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.reports.surface import Camera, surface


@given(st.floats(-20, 20), st.floats(0.05, 1.5))
def test_one_corner_and_two_sides_have_numbers_from_wherever_it_is_seen(
    turn: float, tilt: float
) -> None:
    camera = Camera(turn, tilt)
    sides = camera.sides()
    assert sorted(map(len, sides)) == [2, 2, 4]
    (corner,) = (side for side in sides if len(side) == 4)
    corners = {f"x{x}y{y}": camera.see((x, y, 0))[0] for x in (0, 1) for y in (0, 1)}
    assert corners[corner] == pytest.approx(min(corners.values()), abs=1e-6)
    (side,) = (side for side in sides if side in ("x0", "x1"))
    other = {"x0": "x1", "x1": "x0"}[side]
    near, far = (camera.nearness([(int(s[1]), 0.5, 0)]) for s in (side, other))
    assert near >= far - 1e-9


def test_what_is_near_is_drawn_last() -> None:
    camera = Camera()
    widths = [1, 2, 3]
    z = [[1, 2, 3]] * 3
    svg = surface(widths, widths, z, [], title="", description="", axis_names=("in", "out"))
    faces = [e for e in ElementTree.fromstring(svg).iter() if e.get("class") == "face"]
    assert len(faces) == 4
    places = [list(map(float, face.get("data-at", "").split())) for face in faces]
    near = [camera.nearness(list(zip(p[::3], p[1::3], p[2::3], strict=True))) for p in places]
    assert near == sorted(near)
    assert math.isclose(max(max(p[2::3]) for p in places), 1.0)


def test_the_script_is_told_the_camera() -> None:
    svg = surface([1, 2], [1, 2], [[1, 2], [2, 3]], [], title="", description="",
                  axis_names=("in", "out"), camera=Camera(turn=0.5, tilt=0.25))  # fmt: skip
    assert ElementTree.fromstring(svg).get("data-camera") == "0.5 0.25 190 0.78 180 163"

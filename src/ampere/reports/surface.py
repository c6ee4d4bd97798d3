"""Surfaces: joules over two widths, as they are seen from a side; static/surface.js turns them.

Everything drawn says where it stands (`data-at`: x y z of each of its corners, 0 to 1) and, if it
is for some sides only, of which (`data-when`: x0 is there when that side is nearer, x0y1 when that
corner is furthest left). So what turns it need not know what it is: it projects the same places.

    x, y      widths, 0 at the smallest and 1 at the largest
    z         joules, 0 at the floor and 1 at the largest
    turn      by which the scene is turned around its upright middle
    tilt      by which it is seen from above: 0 is from the side
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from ampere.core import units
from ampere.reports.scale import Scale
from ampere.reports.svg import WIDTH, Svg, chart, element, group, points, text

TURNING = "Surfaces turn: drag them, or use the arrow keys; Home turns them back."
HEIGHT = 310
RAMP = ("#3b528b", "#2a788e", "#21a585", "#6ccd5a", "#fde725")  # viridis, from its blue on

Place = tuple[float, float, float]


@dataclass(frozen=True)
class Camera:
    """From where a scene is seen, and how large it is on the picture."""

    turn: float = math.radians(215)  # small widths in front: they hide nothing
    tilt: float = math.radians(27)
    size: float = 190.0
    tall: float = 0.78  # of the upright axis, in sizes
    x: float = WIDTH / 2
    y: float = 163.0

    def see(self, place: Place) -> tuple[float, float]:
        """Where a place is on the picture."""
        across, near = self._turned(place)
        up = (place[2] - 0.5) * self.tall
        down = near * math.sin(self.tilt) - up * math.cos(self.tilt)
        return self.x + self.size * across, self.y + self.size * down

    def nearness(self, places: Sequence[Place]) -> float:
        """How near the middle of some places is: what is near is drawn last."""
        return math.fsum(self._turned(place)[1] for place in places) / len(places)

    def sides(self) -> set[str]:
        """Sides that are nearer, `x1` or `x0` and `y1` or `y0`, and the corner furthest left."""
        cos, sin = math.cos(self.turn), math.sin(self.turn)
        near = {f"x{int(sin > 0)}", f"y{int(cos > 0)}"}
        return near | {f"x{int(cos < 0)}y{int(sin > 0)}"}

    def _turned(self, place: Place) -> tuple[float, float]:
        x, y = place[0] - 0.5, place[1] - 0.5
        cos, sin = math.cos(self.turn), math.sin(self.turn)
        return x * cos - y * sin, x * sin + y * cos

    @property
    def data(self) -> str:
        """The camera as surface.js reads it."""
        return " ".join(f"{value:.6g}" for value in astuple(self))


@dataclass(frozen=True)
class Peak:
    """One layer that is known: its widths, its joules."""

    x: float
    y: float
    z: float
    label: str = ""


def surface(
    x_values: Sequence[float],
    y_values: Sequence[float],
    z_values: Sequence[Sequence[float]],
    peaks: Sequence[Peak],
    *,
    title: str,
    description: str,
    axis_names: tuple[str, str],
    camera: Camera | None = None,
) -> Svg:
    """Joules z[i][j] at the widths x[i] and y[j], and the layers that are known, on top of it."""
    camera = camera or Camera()
    heights = [*(value for row in z_values for value in row), *(peak.z for peak in peaks)]
    box = _Box(
        Scale.over([*x_values, *(peak.x for peak in peaks)], 0.0, 1.0).linear(),
        Scale.over([*y_values, *(peak.y for peak in peaks)], 0.0, 1.0).linear(),
        Scale.over(heights, 0.0, 1.0, zero=True),
    )
    corners = [
        [box.place(x, y, z) for y, z in zip(y_values, row, strict=True)]
        for x, row in zip(x_values, z_values, strict=True)
    ]
    faces = [
        [corners[i][j], corners[i + 1][j], corners[i + 1][j + 1], corners[i][j + 1]]
        for i, j in itertools.product(range(len(x_values) - 1), range(len(y_values) - 1))
    ]
    faces.sort(key=camera.nearness)
    scene = _Scene(camera)
    return chart(
        HEIGHT,
        title,
        description,
        *scene.frame(box, axis_names),
        group(*(scene.face(face) for face in faces), class_="faces"),
        *(scene.peak(box.place(peak.x, peak.y, peak.z), peak.label) for peak in peaks),
        class_="chart surface",
        data_camera=camera.data,
    )


@dataclass(frozen=True)
class _Box:
    """What a surface stands in: each side from 0 to 1."""

    x: Scale
    y: Scale
    z: Scale

    def place(self, x: float, y: float, z: float) -> Place:
        return self.x.at(x), self.y.at(y), self.z.at(z)


@dataclass(frozen=True)
class _Scene:
    """Draws what stands at places, with the places in it."""

    camera: Camera

    def face(self, places: Sequence[Place]) -> Svg:
        height = sum(place[2] for place in places) / len(places)
        return element(
            "polygon",
            points=points(map(self.camera.see, places)),
            data_at=_places(places),
            fill=_colour(height),
            class_="face",
        )

    def peak(self, place: Place, label: str) -> Svg:
        x, y = self.camera.see(place)
        title = element("title", label)
        return element("circle", title, cx=x, cy=y, r=3, data_at=_places([place]), class_="dot")

    def frame(self, box: _Box, axis_names: tuple[str, str]) -> list[Svg]:
        """The floor, and the numbers along the sides that are in front."""
        floor = self._line([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 0)])
        sides = [mark for side in (0, 1) for mark in self._side(side, box, axis_names)]
        corners = itertools.product((0, 1), (0, 1))
        uprights = [mark for corner in corners for mark in self._upright(corner, box.z)]
        return [floor, *sides, *uprights]

    def _side(self, side: int, box: _Box, axis_names: tuple[str, str]) -> Iterator[Svg]:
        """Numbers and names of both widths along the sides where the other is 0, or 1."""
        out = 1.12 * side - 0.06  # a little beyond the side
        further = 1.34 * side - 0.17
        for value in box.x.ticks(4):
            yield self._text((box.x.at(value), out, 0), f"{value:g}", "pale middle", f"y{side}")
        for value in box.y.ticks(4):
            yield self._text((out, box.y.at(value), 0), f"{value:g}", "pale middle", f"x{side}")
        x_name, y_name = axis_names
        yield self._text((0.5, further, 0), x_name, "middle", f"y{side}")
        yield self._text((further, 0.5, 0), y_name, "middle", f"x{side}")

    def _upright(self, corner: tuple[int, int], z: Scale) -> Iterator[Svg]:
        """The upright axis at a corner, and its joules."""
        x, y = corner
        when = f"x{x}y{y}"
        yield self._line([(x, y, 0), (x, y, 1)], when)
        x_out, y_out = 1.08 * x - 0.04, 1.08 * y - 0.04
        ticks = z.ticks(4)
        unit, unit_j = units.prefix_of(max(map(abs, ticks)), "J")
        for value in ticks:
            place = (x_out, y_out, z.at(value))
            yield self._text(place, f"{value / unit_j:g}", "pale end", when)
        yield self._text((x_out, y_out, 1.1), unit, "end", when)

    def _line(self, places: Sequence[Place], when: str | None = None) -> Svg:
        return element(
            "polyline",
            points=points(map(self.camera.see, places)),
            class_="floor",
            data_at=_places(places),
            **self._shown(when),
        )

    def _text(self, place: Place, content: str, class_: str, when: str) -> Svg:
        x, y = self.camera.see(place)
        return text(x, y + 4, content, class_=class_, data_at=_places([place]), **self._shown(when))

    def _shown(self, when: str | None) -> dict[str, str]:
        """Attributes of what is seen from some sides only; None is seen from all."""
        if when is None:
            return {}
        hidden = {} if when in self.camera.sides() else {"display": "none"}
        return {"data_when": when, **hidden}


def _places(places: Sequence[Place]) -> str:
    return " ".join(f"{round(value, 3):g}" for place in places for value in place)


def _colour(height: float) -> str:
    """Of the ramp, between its colours."""
    at = min(max(height, 0.0), 1.0) * (len(RAMP) - 1)
    lower = min(int(at), len(RAMP) - 2)
    pairs = (
        (int(RAMP[lower][k : k + 2], 16), int(RAMP[lower + 1][k : k + 2], 16)) for k in (1, 3, 5)
    )
    return "#" + "".join(f"{round(a + (at - lower) * (b - a)):02x}" for a, b in pairs)

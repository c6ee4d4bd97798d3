"""The catalogue: what real architectures are made of, call by call, so that surveys serve them.

    catalogue.json.gz     some hundreds of public architectures, each at one size of batch and input

Names and sizes are facts; `benchmarks/catalogue.py` is the recipe that reads them on the meta
device and writes the file. It is data: nothing in it is ever built or run.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.layers import Layer, Work
from ampere.core.training import MOST_BATCH
from ampere.errors import DataError

FILE = "catalogue.json.gz"
GENRES = ("vision", "mobile", "language", "recurrent")
ENOUGH = 32  # architectures that a survey asks about
MOST = 100_000


@dataclass(frozen=True)
class Architecture:
    """A public architecture at one size, as calls."""

    name: str
    family: str
    genre: str
    calls: tuple[Layer, ...]


@lru_cache(maxsize=1)
def read_catalogue() -> tuple[Architecture, ...]:
    """All of it."""
    data = resources.files("ampere.acquisition").joinpath(FILE).read_bytes()
    listed = Fields(parse_json(gzip.decompress(data)))
    return tuple(
        _architecture(Fields(row, place)) for place, row in listed.items("architectures", most=MOST)
    )


def _architecture(fields: Fields) -> Architecture:
    batch = fields.whole("batch", least=1, most=MOST_BATCH)
    work = (Work.from_json(row, place) for place, row in fields.items("work", most=MOST))
    return Architecture(
        name=fields.text("name"),
        family=fields.text("family"),
        genre=fields.choice("genre", GENRES),
        calls=tuple(each.call(batch) for each in work),
    )


def draw(
    genres: Collection[str], seed: int = 0, without: Collection[str] = (), many: int = ENOUGH
) -> list[Sequence[Layer]]:
    """Some architectures of these genres, of each as many, and of as many families as there are.

    None means all genres: whoever says nothing may ask about any of them.
    """
    for genre in genres:
        if genre not in GENRES:
            raise DataError(
                f"no genre {genre!r} in the catalogue: use {', '.join(GENRES)} or a model"
            )
    wanted = [genre for genre in GENRES if not genres or genre in genres]
    rng = random.Random(f"catalogue {seed}")
    by_genre = [_of_all_families(genre, rng, without) for genre in wanted]
    taken: list[Sequence[Layer]] = []
    for place in range(max(map(len, by_genre))):  # of each genre as many, as long as it has some
        taken += [some[place].calls for some in by_genre if place < len(some)]
    return taken[:many]


def _of_all_families(
    genre: str, rng: random.Random, without: Collection[str]
) -> list[Architecture]:
    """The architectures of a genre in an order by chance: one of each family, then the second."""
    fitting = [
        each for each in read_catalogue() if each.genre == genre and each.family not in without
    ]
    rng.shuffle(fitting)
    seen: dict[str, int] = {}
    rounds = []
    for each in fitting:
        seen[each.family] = seen.get(each.family, 0) + 1
        rounds.append(seen[each.family])
    return [fitting[i] for i in sorted(range(len(fitting)), key=lambda i: rounds[i])]

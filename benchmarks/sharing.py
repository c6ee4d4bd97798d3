"""How far networks follow the reference from one sitting to another, and what that is worth.

    python benchmarks/sharing.py    # from kept journals, a minute; measures nothing

Rows keep their bursts and the reference's around them, so they can be divided anew by any rule. Of
all kept journals these are the ones in which the same networks were metered at two times. The first
table is how far networks had moved when the reference had; the second how well profiles that were
measured between those times say what the networks take, with rows divided by one rule or another.
Tables go to docs/paper/measuring.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from machine import RESULTS, write_section

from ampere.core.arrays import Array
from ampere.estimators.base import usable
from ampere.estimators.fitting import fit_additive
from ampere.records.journal import Header, read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.drift import BOUND, Following, series_of

THEN, OTHERS, NOW = "as reported then", "others", "the present rule"
FIXED = ("0", "0.5", "0.75", "1")  # shares of the reference's movement
RULES = (THEN, *FIXED, OTHERS, NOW)
SEEDS = 3
TOGETHER = ("any_model_1", "any_model_2")  # metered and again, and no family


@dataclass(frozen=True)
class Twice:
    """The same networks at two times, and the profiles that were measured between."""

    name: str
    header: Header
    first: Sequence[Measurement]
    second: Sequence[Measurement]
    profiles: Sequence[Path] = ()

    @property
    def pairs(self) -> list[tuple[Measurement, Measurement]]:
        """Rows that tell the reference's bursts both times."""
        every = zip(self.first, self.second, strict=True)
        return [
            (a, b)
            for a, b in every
            if a.failed is None and b.failed is None and _told(a) and _told(b)
        ]

    @property
    def moved(self) -> tuple[Array, Array]:
        """How far the reference had moved beside each network, and the network; logarithms."""
        reference, own = [], []
        for a, b in self.pairs:
            one, other = series_of(a, "energy_j"), series_of(b, "energy_j")
            assert one is not None and other is not None
            reference.append(math.log(other.level / one.level))
            own.append(math.log(other.steady.mean() / one.steady.mean()))
        return np.array(reference), np.array(own)


def _told(row: Measurement) -> bool:
    return series_of(row, "energy_j") is not None


def journals() -> Iterator[Twice]:
    """Families by torch and by other runtimes, and architectures that were metered again."""
    for path in sorted(RESULTS.glob("*_first.ampere.gz")):
        base = path.name.removesuffix("_first.ampere.gz")
        header, first = read_journal(path)
        second = RESULTS / f"{base}_second.ampere.gz"
        asked = [RESULTS / f"{base}_asked.ampere.gz"]
        asked += [RESULTS / f"{base}_seed{seed}.ampere.gz" for seed in range(SEEDS)]
        if second.exists():
            profiles = [each for each in asked if each.exists()]
            yield Twice(base, header, first, read_journal(second)[1], profiles)
    for base in TOGETHER:
        again = RESULTS / f"{base}_again.ampere.gz"
        if again.exists():
            header, first = read_journal(RESULTS / f"{base}_metered.ampere.gz")
            yield Twice(base, header, first, read_journal(again)[1])


# --- Rules ----------------------------------------------------------------------------------------


def divided(
    rows: Sequence[Measurement], header: Header, rule: str, share: float
) -> list[Measurement]:
    """Rows as they would have been reported by a rule; `share` is that of all other journals."""
    if rule == THEN:
        return list(rows)
    fixed = share if rule == OTHERS else float(rule) if rule in FIXED else None
    known: list[Measurement] = []
    following: dict[str, Following] = {}
    for row in rows:
        series = None if row.failed else series_of(row, "energy_j")
        nominal_j = header.reference_energy_j
        if series is None or nominal_j is None:
            known.append(row)
            continue
        if fixed is None:
            present = following.setdefault(row.sitting, Following.of(known, "energy_j"))
            factor = present.factor(row.stage, row.layers, series, nominal_j)
        else:
            moved = math.log(series.level / nominal_j)
            factor = math.exp(fixed * min(max(moved, -BOUND), BOUND))
        known.append(replace(row, energy_j_per_step=float(series.steady.mean()) / factor))
    return known


def by_rule(twice: Twice, rule: str, share: float) -> Twice:
    first, second = (
        divided(rows, twice.header, rule, share) for rows in (twice.first, twice.second)
    )
    return replace(twice, first=first, second=second)


def apart(twice: Twice) -> float:
    """How far two meterings of a network lie from each other."""
    return fmean(abs(a.energy_j / b.energy_j - 1) for a, b in twice.pairs)


def error(twice: Twice, rule: str, share: float) -> float:
    """Of what profiles say of networks that they have not measured, averaged over profiles."""
    found = []
    for path in twice.profiles:
        header, asked = read_journal(path)
        fit = fit_additive(usable(divided(asked, header, rule, share)))
        measured = {_key(row) for row in asked}
        off = [
            fit.predict(a.layers).total.energy_j / ((a.energy_j + b.energy_j) / 2) - 1
            for a, b in twice.pairs
            if _key(a) not in measured
        ]
        found.append(fmean(map(abs, off)))
    return fmean(found)


def _key(row: Measurement) -> str:
    return repr(sorted((layer.kind.name, repr(layer.widths), layer.count) for layer in row.layers))


# --- Tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What one journal shows: by which share networks moved, and what each rule makes of it."""

    name: str
    when: str
    networks: int
    reference: float
    own: float
    share: float
    apart: dict[str, float]
    error: dict[str, float]


def analyse(twice: Twice, others: Sequence[Twice]) -> Found:
    reference, own = twice.moved
    x, y = (np.concatenate(each) for each in zip(*(one.moved for one in others), strict=True))
    share = float(x @ y / (x @ x))
    seen = {rule: by_rule(twice, rule, share) for rule in RULES}
    return Found(
        twice.name,
        twice.header.created[:10],
        len(own),
        reference=float(np.expm1(reference.mean())),
        own=float(np.expm1(own.mean())),
        share=float(reference @ own / (reference @ reference)),
        apart={rule: apart(each) for rule, each in seen.items()},
        error={rule: error(each, rule, share) for rule, each in seen.items() if twice.profiles},
    )


def table(rows: Sequence[Found]) -> str:
    """Both tables, in Markdown."""
    lines = [
        "How far two meterings of a network lie from each other, in percent; `share`: of what the"
        " reference had moved, how much networks had, by least squares.",
        "",
        "| journal | measured | networks | reference moved | networks moved | share | as read |"
        f" {THEN} | {NOW} |",
        "|---" * 9 + "|",
        *(
            f"| {row.name} | {row.when} | {row.networks} | {100 * row.reference:+.1f} |"
            f" {100 * row.own:+.1f} | {row.share:.2f} |"
            + "".join(f" {100 * row.apart[rule]:.1f} |" for rule in ("0", THEN, NOW))
            for row in rows
        ),
        "",
        "Error of what profiles say of networks that they have not measured, in percent, with rows"
        f" divided by shares of what the reference had moved; `{OTHERS}`: by the share that all"
        " other journals above have together.",
        "",
        "| journal | " + " | ".join(RULES) + " |",
        "|---" * (len(RULES) + 1) + "|",
    ]
    told = {row.name: row.error for row in rows if row.error}
    told["**mean**"] = {rule: fmean(each[rule] for each in told.values()) for rule in RULES}
    for name, by in told.items():
        lines.append(f"| {name} |" + "".join(f" {100 * by[rule]:.1f} |" for rule in RULES))
    return "\n".join(lines)


def main() -> None:
    every = list(journals())
    rows = [analyse(each, [one for one in every if one is not each]) for each in every]
    (RESULTS / "sharing.json").write_text(json.dumps(list(map(asdict, rows)), indent=1) + "\n")
    write_section("measuring.md", "sharing", table(rows))


if __name__ == "__main__":
    main()

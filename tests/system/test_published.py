"""Every headline number of the pages, computed anew from the measurements that are kept.

Nothing is compared with another page. Fits are made by the present code from the raw journals in
docs/paper/journals and benchmarks/results; where that would take long, figures are made of what is
kept of each model. A percentage that no claim here knows of is refused in README and in the summary
of docs/results.md.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

import ampere
from ampere.core.layers import Layer, network_identity
from ampere.estimators.base import Fit
from ampere.estimators.baselines.flops import fit_flops
from ampere.estimators.drift import usual_drift
from ampere.estimators.fitting import fit_additive
from ampere.estimators.paper import fit_paper
from ampere.evaluation.metering import rows_by_network
from ampere.profiles.estimate import estimate
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement

ROOT = Path(__file__).parents[2]
JOURNALS = ROOT / "docs" / "paper" / "journals"
RESULTS = ROOT / "benchmarks" / "results"


def page_text(name: str) -> str:
    """A page with every run of blanks as one."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


README = page_text("README.md")
RESULTS_PAGE = page_text("docs/results.md")
START = page_text("docs/start.md")
SUMMARY = RESULTS_PAGE.split("## In short")[1].split("## ")[0]
PAGES = {
    "README": README,
    "index": page_text("docs/index.md"),
    "results": SUMMARY,
    "pruning": page_text("docs/pruning.md"),
}
SIX = ("lenet5", "cnn5", "har", "lstm", "transformer", "resnet")

WORDS = {"none": 0, "nine": 9, "ten": 10, "five": 5, "six": 6}
NUMBER = rf"(\d[\d,]*(?:\.\d+)?|{'|'.join(WORDS)})"
PERCENTAGE = re.compile(r"\d[\d.,]* ?%")
NUMBERS = re.compile(r"\d[\d,]*(?:\.\d+)?")
NO_RESULTS = ("90 % interval",)  # the level of an interval is no result
# What `make demo` printed: it names its command, and nothing else is kept of these runs.
DEMO = re.compile(r"What `make demo` printed.*?(?=## )")
# What README's example prints: a test below prints it anew.
PRINTED = re.compile(r"``` 2,000 training steps.*?```")


@dataclass(frozen=True)
class Source:
    """Kept data, and what a page says by it: `#` stands for a number, in the order of numbers."""

    page: str
    read: Callable[[], Any]
    says: Mapping[str, Callable[[Any], Sequence[float]]]


def pattern(words: str) -> re.Pattern[str]:
    return re.compile(NUMBER.join(map(re.escape, words.split("#"))))


def value_and_tolerance(printed: str) -> tuple[float, float]:
    """What a number says, and how far the truth may be from it: half of its last digit, and a bit
    for linear algebra that rounds differently elsewhere."""
    if printed in WORDS:
        return WORDS[printed], 0.0
    decimals = len(printed.partition(".")[2])
    return float(printed.replace(",", "")), 0.51 * 10**-decimals


# --- What is kept, and how it is scored -----------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """Relative errors over some networks, and whether each was inside its interval."""

    errors: Sequence[float]
    inside: Sequence[bool]

    @property
    def mape(self) -> float:
        return percent(map(abs, self.errors))


def percent(shares: Iterable[float]) -> float:
    return 100 * fmean(shares)


def span(values: Iterable[float]) -> list[float]:
    every = list(values)
    return [min(every), max(every)]


def score(fit: Fit, metered: Iterable[tuple[Sequence[Layer], float]]) -> Score:
    answers = [(estimate(layers, fit), energy_j) for layers, energy_j in metered]
    return Score(
        [answer.energy_j / energy_j - 1 for answer, energy_j in answers],
        [answer.energy_j_interval[0] <= energy_j <= answer.energy_j_interval[1]
         for answer, energy_j in answers],
    )  # fmt: skip


def unseen(
    pairs: Iterable[Sequence[Measurement]], known: Iterable[Measurement]
) -> list[tuple[Measurement, Measurement]]:
    """Networks that were metered twice, and that no known row is of."""
    seen = {network_identity(row.layers) for row in known}
    return [(a, b) for a, b in pairs if network_identity(a.layers) not in seen]


def means(pairs: Iterable[tuple[Measurement, Measurement]]) -> list[tuple[Sequence[Layer], float]]:
    """Each network with the mean of both meterings: what counts as the truth."""
    return [(a.layers, (a.energy_j + b.energy_j) / 2) for a, b in pairs]


def rows_of(path: Path) -> list[Measurement]:
    return read_journal(path)[1]


def json_of(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Trial:
    """A family on a device of `ampere reproduce`."""

    networks: int
    variants: int
    seconds: float
    additive: Score
    paper: Score
    flops: Score
    floor: float


@cache
def trial(bench: str, family: str) -> Trial:
    members, variants, networks = (
        rows_of(JOURNALS / f"{bench}-{family}-{purpose}.ampere.gz")
        for purpose in ("members", "paper", "additive")
    )
    header = read_journal(JOURNALS / f"{bench}-{family}-additive.ampere.gz")[0]
    pairs = unseen(rows_by_network(members).values(), networks)
    truth = means(pairs)
    return Trial(
        networks=len(networks),
        variants=len(variants),
        seconds=sum(row.cost_s for row in networks),
        additive=score(fit_additive(networks, usual_drift(header.fingerprint)), truth),
        paper=score(fit_paper(variants), truth),
        flops=score(fit_flops(networks), truth),
        floor=percent(abs(a.energy_j / b.energy_j - 1) for a, b in pairs),
    )


@cache
def one_thread() -> list[Trial]:
    return [trial("threads1", family) for family in SIX]


def three_seeds() -> list[list[Score]]:
    """For each family the scores of the first 24 networks that each seed asked for."""
    families = []
    for family in SIX:
        first, second = (
            rows_of(RESULTS / f"additive_{family}_{n}.ampere.gz") for n in ("first", "second")
        )
        pairs = list(zip(first, second, strict=True))
        asked = [rows_of(RESULTS / f"additive_{family}_seed{n}.ampere.gz")[:24] for n in range(3)]
        families.append([score(fit_additive(own), means(unseen(pairs, own))) for own in asked])
    return families


def second_floor() -> list[float]:
    """How the members of those families repeat, some minutes apart."""
    floors = []
    for family in SIX:
        first, second = (
            rows_of(RESULTS / f"additive_{family}_{n}.ampere.gz") for n in ("first", "second")
        )
        pairs = zip(first, second, strict=True)
        floors.append(percent(abs(a.energy_j / b.energy_j - 1) for a, b in pairs))
    return span(floors)


def own_models() -> list[float]:
    """The additive method's mean error for each model, by what is kept of each member."""
    return [
        percent(
            abs(member["estimates_j"]["additive"] / fmean(member["metered_j"]) - 1)
            for member in row["models"]
        )
        for row in json_of("own_additive.json")["models"].values()
    ]


def recorded(case: str, method: str = "additive") -> Any:
    """What is kept of all splits of a case."""
    (row,) = (
        r for r in json_of("recorded.json")["rows"] if (r["case"], r["method"]) == (case, method)
    )
    return row


def recorded_numbers(case: str) -> list[float]:
    """Errors of additive, FLOPs and the roofline, and how far two meterings are apart."""
    errors = [percent(recorded(case, method)["mape_by_split"]) for method in METHODS]
    repeat = recorded(case)["repeat"]
    return errors if repeat is None else [*errors, 100 * repeat]


def known_and_asked(case: str) -> list[float]:
    """How many networks were known, and how many there are of the set."""
    row, sets = recorded(case), json_of("recorded.json")["sets"]
    assert len(set(row["known"])) == 1
    (data,) = (each for each in sets if case.startswith(each["set"]))
    return [row["known"][0], data["networks"]]


def surveyed() -> dict[str, Any]:
    """Public architectures by surveys with one thread and with two: an error each."""
    kept: dict[str, Any] = json_of("any_model.json")
    return kept


def in_ten_minutes(kept: dict[str, Any], *threads: int) -> list[float]:
    """The median and the mean error after ten minutes, in percent."""
    every = [kept[str(each)]["survey, 10 min"]["errors"] for each in threads]
    return [100 * by(map(abs, errors)) for errors in every for by in (median, fmean)]


def budgets_of_gates() -> dict[str, list[float]]:
    """What runs on this machine spent of their budgets, where the validation was told, or not."""
    kept = json.loads(gzip.decompress((RESULTS / "gating.json.gz").read_bytes()))
    own = [row for row in kept["rows"] if row["where"] == "this machine"]
    return {
        name: [each["spent"] for row in own for each in row[name]] for name in ("budgets", "untold")
    }


def cut_in_half() -> dict[str, list[Any]]:
    """5-layer CNNs by what guided the cut to 50 %; those that were not cut are by "none"."""
    rows = [row for row in json_of("pruning.json")["rows"] if row["subject"] == "5-layer CNN"]
    return {
        guide: [row for row in rows if (row["guide"], row["budget"]) == (guide, budget)]
        for guide, budget in (("energy", 50), ("flops", 50), ("none", 100))
    }


METHODS = ("additive", "flops_affine", "roofline")
GPU = "EC-NAS, any 20 of 91"
DEPTHS = "Broadwell MLP, 1/3/7/15 hidden layers at 8 widths"
SHALLOW = "Broadwell MLP, 1/2/3 hidden layers at 8 widths"
CONVOLUTIONS = "Raptorlake conv, any 160 of 1000"
LINEAR = "Raptorlake linear, any 160 of 992"
BOARD = "Board, any 14 of 30 networks"


def within_half(rows: Sequence[Any]) -> int:
    return sum(row["metered"] <= 0.5 for row in rows)


SOURCES = {
    "one thread, in short": Source(
        "README",
        one_thread,
        {
            "# families of the zoo, from # networks measured in a minute: # to # % off,"
            " FLOPs # to # %": lambda each: [
                len(each), each[0].networks, *span(trial.additive.mape for trial in each),
                *span(trial.flops.mape for trial in each),
            ],
        },
    ),
    "one thread": Source(
        "results",
        one_thread,
        {
            "# families of the zoo, from # networks measured in a minute | # to # %": lambda each: [
                len(each), each[0].networks, *span(trial.additive.mape for trial in each)
            ],
            "by the paper's method, from # to # variants | # to # %": lambda each: [
                *span(trial.variants for trial in each), *span(trial.paper.mape for trial in each)
            ],
            "the same by FLOPs | # to # %": lambda each: span(trial.flops.mape for trial in each),
            "metered again: the floor | # to # %": lambda each: span(t.floor for t in each),
        },
    ),
    "two threads": Source(
        "results",
        lambda: trial("threads2", "lstm"),
        {
            "LSTMs with two threads on these shared cores | # %; # of # lie inside": lambda its: [
                its.additive.mape, sum(its.additive.inside), len(its.additive.inside)
            ],
        },
    ),
    "three seeds": Source(
        "results",
        three_seeds,
        {
            "six families from 24 networks, a run in a calm hour, three seeds"
            " (the floor: # to # %) | # to # %; # % lie inside their 90 % interval"
            "": lambda families: [
                *second_floor(),
                *span(fmean(seed.mape for seed in seeds) for seeds in families),
                percent(each for seeds in families for seed in seeds for each in seed.inside),
            ],
        },
    ),
    "three seeds, in README": Source(
        "README",
        three_seeds,
        {
            "from 24 networks in another run, # to # %": lambda families: span(
                fmean(seed.mape for seed in seeds) for seeds in families
            ),
        },
    ),
    "own models": Source(
        "results",
        own_models,
        {
            "# models that are not in the zoo (ViT, MobileNet, GPT, U-Net, image and question)"
            " | # to # %": lambda errors: [len(errors), *span(errors)],
        },
    ),
    "real joules": Source(
        "README",
        lambda: None,
        {
            "CNNs on a GPU | # of # | # % | # % | # % | # %": lambda _: [
                *known_and_asked(GPU), *recorded_numbers(GPU)
            ],
            "from four depths | # of # | # % | # % | # % | # %": lambda _: [
                *known_and_asked(DEPTHS), *recorded_numbers(DEPTHS)
            ],
            "where it falls short | # of # | # % | # % | # % | # %": lambda _: [
                *known_and_asked(SHALLOW), *recorded_numbers(SHALLOW)
            ],
            "convolutions on an Intel CPU | # of # | # % | # % | # % | not known": lambda _: [
                *known_and_asked(CONVOLUTIONS), *recorded_numbers(CONVOLUTIONS)
            ],
            "linear layers on an Intel CPU | # of # | # % | # % | # % | not known": lambda _: [
                *known_and_asked(LINEAR), *recorded_numbers(LINEAR)
            ],
            "networks on a small board, each trained in some eleven ways | 14 of 30 | # % | # %"
            " | # % | # %": lambda _: recorded_numbers(BOARD),
        },
    ),
    "real joules, in short": Source(
        "index",
        lambda: [*recorded_numbers(GPU)[:2], recorded_numbers(CONVOLUTIONS)[0]],
        {
            "# % off on CNNs on a GPU that others metered, where FLOPs with an offset are # % off;"
            " # % on single convolutions of an Intel CPU": lambda errors: errors,
        },
    ),
    "a survey": Source(
        "README",
        surveyed,
        {
            "# public architectures at two sizes, none profiled, from a survey of ten minutes with"
            " two threads: half of them within # %, the mean # %; with one thread # and # %": (
                lambda kept: [kept["2"]["asked"] / 2, *in_ten_minutes(kept, 2, 1)]
            ),
        },
    ),
    "gates": Source(
        "README",
        budgets_of_gates,
        {
            "Of # energy budgets that a gate watched, to stop a run in time, # were exceeded, by at"
            " most # %; where nobody told it of validation #, by up to # %": lambda spent: [
                len(spent["budgets"]),
                *(
                    number
                    for name in ("budgets", "untold")
                    for number in (sum(s > 1 for s in spent[name]), 100 * (max(spent[name]) - 1))
                ),
            ],
        },
    ),
    "pruning": Source(
        "pruning",
        cut_in_half,
        {
            "# of # 5-layer CNNs were inside the budget by the (modelled) meter, at # % on average"
            " and with # % accuracy instead of # %; cut to half their FLOPs #, at # %": lambda by: [
                within_half(by["energy"]), len(by["energy"]),
                percent(row["metered"] for row in by["energy"]),
                *(percent(row["accuracy"] for row in by[guide]) for guide in ("energy", "none")),
                within_half(by["flops"]), percent(row["metered"] for row in by["flops"]),
            ],
        },
    ),
}  # fmt: skip


# As one thread, in another run: eighteen fits more.
LONG = {name: pytest.mark.slow for name in ("three seeds", "three seeds, in README")}


@pytest.mark.parametrize(
    "source",
    [pytest.param(each, id=name, marks=LONG.get(name, ())) for name, each in SOURCES.items()],
)
def test_a_headline_number_is_what_the_kept_data_say(source: Source) -> None:
    data = source.read()
    for words, numbers in source.says.items():
        found = pattern(words).findall(PAGES[source.page])
        assert len(found) == 1, f"{source.page} does not say, once: {words}"
        printed = found[0] if isinstance(found[0], tuple) else (found[0],)
        for text, number in zip(printed, numbers(data), strict=True):
            value, tolerance = value_and_tolerance(text)
            assert abs(number - value) <= tolerance, f"{words}: {text} should be {number:.2f}"


@pytest.mark.parametrize("page", ["README", "index", "results"])
def test_no_percentage_stands_there_without_its_data(page: str) -> None:
    rest = PRINTED.sub("", PAGES[page])
    for source in SOURCES.values():
        for words in source.says if source.page == page else ():
            rest = pattern(words).sub("", rest)
    for phrase in NO_RESULTS:
        rest = rest.replace(phrase, "")
    assert PERCENTAGE.findall(rest) == []


def test_the_estimate_in_readme_is_what_is_printed() -> None:
    """By the present code, from the rows that it names; digits may round differently elsewhere."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (kept,) = re.findall(r"From `(benchmarks/results/[^`]+)`", text)
    (shown,) = re.findall(r"```\n(2,000 training steps.*?)```", text, re.DOTALL)
    (asked,) = re.findall(r'estimate\("(zoo:[^"]+)", steps=2000, battery_wh=15', text)
    profile = ampere.Profile.load(ROOT / kept)
    printed = repr(profile.estimate(asked, steps=2000, battery_wh=15))
    assert NUMBERS.sub("#", shown.strip()) == NUMBERS.sub("#", printed)
    pairs = zip(NUMBERS.findall(shown), NUMBERS.findall(printed), strict=True)
    for ours, theirs in pairs:
        mine, its = (float(each.replace(",", "")) for each in (ours, theirs))
        assert mine == pytest.approx(its, rel=0.02, abs=0.11)


def test_the_real_joules_of_the_results_page_are_those_that_are_kept() -> None:
    rows = {
        "EC-NAS, 20 of 91 CNNs": GPU,
        "Broadwell, MLPs of four depths, 32 of 723": DEPTHS,
        "Raptorlake, 160 of 1,000 convolutions": CONVOLUTIONS,
        "Raptorlake, 160 of 992 linear layers": LINEAR,
        "a small board, 14 of 30 networks": BOARD,
        "six GPUs, 40 linear layers each, seconds": "GPU linear, any 40 of each of 6 GPUs",
        "11 sweeps of one setting, every second value": "11 sweeps of one setting, every second"
        " value",
    }
    for name, case in rows.items():
        (cells,) = re.findall(
            rf"\| {re.escape(name)} \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", RESULTS_PAGE
        )
        for cell, method in zip(cells, ("additive", "roofline", "flops_affine"), strict=True):
            value, tolerance = value_and_tolerance(cell.split()[0].strip("*"))
            assert abs(100 * recorded(case, method)["mape"] - value) <= tolerance, (name, method)


def test_the_means_that_the_demo_printed_are_those_of_its_models() -> None:
    (block,) = DEMO.findall(START)
    errors = re.findall(r"zoo:lenet5\(.*?([-+][\d.]+) %.*?([-+][\d.]+) %", block)
    assert len(errors) == 5
    for method, own in zip(("additive", "flops"), zip(*errors, strict=True), strict=True):
        mape, bias = re.findall(rf"{method} +([\d.]+) +([-+][\d.]+)", block)[0]
        assert float(mape) == pytest.approx(fmean(abs(float(each)) for each in own), abs=0.1)
        assert float(bias) == pytest.approx(fmean(map(float, own)), abs=0.1)


def test_a_hundred_random_cnns_are_told_as_they_were_measured() -> None:
    its = trial("threads1", "cnn5")
    assert len(its.additive.errors) == 100
    told = [
        f"{each:.1f}" for each in (its.additive.mape, its.paper.mape, its.flops.mape, its.floor)
    ]
    (row,) = re.findall(r"\| 100 random 5-layer CNNs of these \| (.*?) \| \[index", RESULTS_PAGE)
    cells = row.split(" | ")
    assert [cells[0], cells[1], cells[4], cells[5]] == told


def test_forty_networks_take_about_a_minute() -> None:
    assert "40 networks measured in a minute" in README and "measured in a minute" in SUMMARY
    names = [JOURNALS / f"threads1-{family}-additive.ampere.gz" for family in SIX]
    seconds = [sum(row.cost_s for row in rows_of(path)) for path in names]
    assert fmean(seconds) == pytest.approx(60, rel=0.1)
    assert max(seconds) < 80


def test_the_present_code_estimates_what_is_kept_of_a_model_that_is_not_in_the_zoo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    kept = json_of("own_additive.json")["models"]["vit_tiny"]["models"]
    fit = fit_additive(rows_of(RESULTS / "own_additive_vit_tiny.ampere.gz"))
    for member in kept[::3]:
        layers = ampere.read_layers(f"benchmarks/models.py:{member['model']}")
        own = estimate(layers, fit).energy_j
        assert own == pytest.approx(member["estimates_j"]["additive"], rel=1e-3)


def test_a_search_looks_at_millions_of_candidates_a_second() -> None:
    assert "millions of candidates a second" in START
    assert json_of("search.json")["candidates_per_s"]["joules"] > 2e6
    rows = rows_of(JOURNALS / "threads1-cnn5-additive.ampere.gz")
    fit, seconds = fit_additive(rows), []
    for _ in range(20):
        start = time.perf_counter()
        estimate(rows[0].layers, fit)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05  # milliseconds, also beside other tests

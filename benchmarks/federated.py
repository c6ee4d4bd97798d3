"""Federated: clients chosen by joules against clients chosen by chance.

    python benchmarks/federated.py               # ten minutes, in an environment with Flower
    python benchmarks/federated.py --tables      # of what is kept
    python benchmarks/federated.py --quick       # one seed, few rounds, to see that it runs

Six clients (federated_app/phones/world.py): simulated devices with batteries, reserves, chargers
and somebody who uses them; digits split unevenly; LeNet-5 is trained for real, joules are
simulated. Three clients train in each of 40 rounds, chosen

    energy      by `EnergyAware` from quotes of the clients' own profiles
    flops       by the same strategy from quotes by FLOPs, calibrated on the same rows
    random      by chance (FedAvg) among those that are there

in this process, through Flower's own messages, `ClientApp` and strategies (a grid that calls the
app at once, tests/integrations/local_grid.py): over a SuperLink each message takes seconds. The
first rounds of one seed are run once more over a real SuperLink and six SuperNodes, and compared.

A phone whose battery falls to its reserve ends the training: a dropout, and its joules are wasted.
It is not there until somebody charges it.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from machine import RESULTS, machine_line, write_section

HERE = Path(__file__).parent
APP = HERE / "federated_app"
sys.path[:0] = [str(APP), str(HERE.parent / "tests")]

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict  # noqa: E402, I001
from flwr.serverapp import Grid  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from integrations.federation import Federation  # type: ignore[import-not-found]  # noqa: E402
from integrations.local_grid import LocalGrid  # type: ignore[import-not-found]  # noqa: E402
from phones import client  # noqa: E402
from phones.server import accuracy, first_arrays, story  # noqa: E402
from phones.world import CHOSEN, DEVICES, ROUNDS, STEPS, phones, spent_j  # noqa: E402

import ampere  # noqa: E402
from ampere.devices.simulated import SimulatedDevice  # noqa: E402
from ampere.integrations.flower import EnergyAware  # noqa: E402

SEEDS = (0, 1, 2)
CHOICES = ("energy", "flops", "random")
LAST = 5  # rounds whose mean accuracy counts
GOAL = 0.9
LINK_ROUNDS = 4
KEPT = RESULTS / "federated.json"
BARS = (
    "every client that can afford a round takes part within a few rounds; dropouts at most a"
    " quarter of random choice; accuracy within one point of it"
)


class ByChance(FedAvg):  # type: ignore[misc]  # Any, where Flower is not installed
    """Three of those that are there; FedAvg's own waits for ever where there are fewer."""

    def __init__(self, seed: int) -> None:
        super().__init__(fraction_evaluate=0.0)
        self._rng = random.Random(f"chance {seed}")
        self.chosen: list[list[int]] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask them for a whole round."""
        here = sorted(grid.get_node_ids())
        self.chosen.append(sorted(self._rng.sample(here, min(CHOSEN, len(here)))))
        config["server-round"] = server_round
        record = RecordDict({"arrays": arrays, "config": config})
        return [Message(record, node, MessageType.TRAIN, ttl=60.0) for node in self.chosen[-1]]


class Watcher:
    """Knows the true batteries: who is there, who could afford a round, who trained."""

    def __init__(self, seed: int, quotes: str, profiles: Path) -> None:
        self.seed, self.round = seed, 1
        nodes = {
            number + 1: {
                "client": number,
                "seed": seed,
                "profiles": str(profiles),
                "quotes": quotes,
            }
            for number in range(len(DEVICES))
        }
        self.grid = LocalGrid(client.app, nodes, self.is_there)
        self.able: list[list[int]] = []
        self.accuracies: list[float] = []
        self.there: list[int] = []

    def body(self, node: int) -> client.Body:
        """A phone as it is in this round."""
        return client.Body(self.grid.contexts[node], self.round)

    def is_there(self, node: int) -> bool:
        """A phone at its reserve has switched itself off."""
        return self.body(node).usable_j > 0

    def judge(self, number: int, arrays: ArrayRecord) -> MetricRecord:
        """After each round, and before the first."""
        self.accuracies.append(accuracy(arrays, self.seed))
        self.round = number + 1
        nodes = self.grid.contexts
        self.able.append([n for n in nodes if self.can_afford(n)])
        self.there.append(sum(map(self.is_there, nodes)))
        return MetricRecord({"accuracy": self.accuracies[-1]})

    def can_afford(self, node: int) -> bool:
        """A whole round, by what such rounds take at most in earnest."""
        body = self.body(node)
        return 1.1 * body.phone.training_j(0, STEPS) <= body.usable_j

    def total_j(self, name: str) -> float:
        """Of all phones."""
        return sum(float(self.body(node).state[name]) for node in self.grid.contexts)


def make_profiles(folder: Path) -> None:
    for name in sorted(set(DEVICES)):
        strategy = ampere.Strategy(max_points=12)
        device = SimulatedDevice(name, seed=3)
        path = folder / f"{name}.ampere"
        ampere.profile("zoo:lenet5", path=path, device=device, strategy=strategy)
        sys.stderr.write(f"profile of {name}\n")


def run_here(choice: str, seed: int, rounds: int, profiles: Path) -> dict[str, Any]:
    quotes = {"energy": "profile", "flops": "flops", "random": "none"}[choice]
    watcher = Watcher(seed, quotes, profiles)
    strategy = ByChance(seed) if choice == "random" else EnergyAware(CHOSEN)
    begin_s = time.perf_counter()
    strategy.start(watcher.grid, first_arrays(seed), num_rounds=rounds, evaluate_fn=watcher.judge)
    if isinstance(strategy, EnergyAware):
        asked = [[each.name for each in done.invitations] for done in strategy.history]
        dropped = sum(len(done.dropped) for done in strategy.history)
        stories = [story(done) for done in strategy.history]
        steps = sum(row["steps"] for rows in stories for row in rows if row["came_back"])
    else:
        asked, stories = strategy.chosen, []
        returned = sum(came_back(watcher.grid))
        dropped, steps = sum(map(len, asked)) - returned, STEPS * returned
    return {
        "choice": choice,
        "seed": seed,
        "asked": asked,
        "dropped": dropped,
        "whole_rounds": steps / STEPS,
        "accuracies": watcher.accuracies,
        "spent_j": watcher.total_j("spent_j"),
        "wasted_j": watcher.total_j("wasted_j"),
        "longest_wait": longest_wait(watcher.able, asked),
        "there": watcher.there,
        "queries": sum(m.metadata.message_type == MessageType.QUERY for m in watcher.grid.sent),
        "stories": stories,
        "seconds": time.perf_counter() - begin_s,
    }


def came_back(grid: LocalGrid) -> list[bool]:
    """Of all that were asked to train, by their replies."""
    return [not reply.has_error() for reply in grid.answered]


def longest_wait(able: Sequence[Sequence[int]], asked: Sequence[Sequence[int]]) -> int:
    """The most rounds in a row in which a client could afford one, and was not asked."""
    longest = 0
    for node in range(1, len(DEVICES) + 1):
        waited = 0
        for could, trained in zip(able, asked, strict=False):
            waited = waited + 1 if node in could and node not in trained else 0
            longest = max(longest, waited)
    return longest


def run_over_superlink(seed: int, rounds: int, profiles: Path) -> dict[str, Any]:
    nodes = [
        {"client": number, "seed": seed, "profiles": str(profiles), "quotes": "profile"}
        for number in range(len(DEVICES))
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "story.json"
        begin_s = time.perf_counter()
        with Federation(Path(folder), nodes) as federation:
            settings = {"seed": seed, "rounds": rounds, "story": str(path)}
            log = federation.run(APP, settings, longest_s=900)
        if not path.exists():
            raise SystemExit(f"{log}\n{federation.logs()}")
        told: dict[str, Any] = json.loads(path.read_text())
    return {**told, "seed": seed, "seconds": time.perf_counter() - begin_s}


def agreement(link: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    """Whether both chose the same clients for the same steps, and how far weights are apart."""
    pairs = list(zip(link["rounds"], here["stories"], strict=False))
    apart = [abs(a - b) for a, b in zip(link["accuracies"], here["accuracies"], strict=False)]
    return {
        "rounds": len(pairs),
        "same_choice": sum(a == b for a, b in pairs),
        "accuracy_apart": max(apart),
        "seconds": link["seconds"],
    }


# ---------------------------------------------------------------------- tables


def reached(row: dict[str, Any]) -> str:
    at = next((i for i, value in enumerate(row["accuracies"]) if value >= GOAL), None)
    return "never" if at is None else str(at)


def tables(kept: dict[str, Any]) -> str:
    lines = [
        f"Machine: {kept['machine']} Wanted: {kept['bars']}.",
        "",
        f"| choice | seed | accuracy, last {LAST} rounds | rounds to {GOAL:.0%} | asked | dropouts"
        " | trained, in whole rounds | joules of work | wasted | longest wait of one that could"
        " | queries |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in kept["rows"]:
        right = fmean(row["accuracies"][-LAST:])
        lines.append(
            f"| {row['choice']} | {row['seed']} | {100 * right:.1f} % | {reached(row)}"
            f" | {sum(map(len, row['asked']))} | {row['dropped']}"
            f" | {row['whole_rounds']:.1f} | {row['spent_j']:.0f} | {row['wasted_j']:.0f}"
            f" | {row['longest_wait']} | {row['queries']} |"
        )
    lines += ["", *means(kept["rows"]), "", *quote_table(kept["quotes"])]
    if kept.get("agreement"):
        same = kept["agreement"]
        lines += [
            "",
            f"Over a real SuperLink and six SuperNodes (Flower {kept['flower']}, seed 0): the same"
            f" clients for the same steps in {same['same_choice']} of {same['rounds']} rounds,"
            f" accuracies at most {100 * same['accuracy_apart']:.2f} points apart;"
            f" {same['seconds']:.0f} s, here {kept['rows'][0]['seconds']:.0f} s for all"
            f" {len(kept['rows'][0]['asked'])} rounds.",
        ]
    return "\n".join(lines)


def quote_table(quotes: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        "| a whole round on | J, ten times | quoted by profile, 90 % | by FLOPs, 90 % |",
        "|---|---|---|---|",
    ]
    for name, row in quotes.items():
        true_j, (low, high) = row["true_j"], row["range_j"]
        told = " | ".join(
            f"{middle:.2f} ({100 * (middle / true_j - 1):+.0f} %), {most:.2f}"
            for middle, most in (row["profile"], row["flops"])
        )
        lines.append(f"| {name} | {true_j:.2f} ({low:.2f} to {high:.2f}) | {told} |")
    return lines


def quotes_of(profiles: Path) -> dict[str, dict[str, Any]]:
    """What clients say that a round takes, radio left out, and what it takes."""
    rows = {}
    for name in sorted(set(DEVICES)):
        path = str(profiles / f"{name}.ampere")
        truth = [spent_j(name, seed, STEPS) for seed in range(10)]
        said = (client.by_profile(path, 0.0), client.by_flops(path, 0.0))
        pairs = [[each.energy_j, each.energy_j_bound] for each in said]
        rows[name] = {
            "true_j": fmean(truth),
            "range_j": [min(truth), max(truth)],
            **dict(zip(("profile", "flops"), pairs, strict=True)),
        }
    return rows


def means(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| mean of seeds | accuracy | dropouts | trained | joules of work | wasted |",
        "|---|---|---|---|---|---|",
    ]
    for choice in CHOICES:
        own = [row for row in rows if row["choice"] == choice]
        right = fmean(fmean(row["accuracies"][-LAST:]) for row in own)
        lines.append(
            f"| {choice} | {100 * right:.1f} % | {fmean(row['dropped'] for row in own):.1f}"
            f" | {fmean(row['whole_rounds'] for row in own):.1f}"
            f" | {fmean(row['spent_j'] for row in own):.0f}"
            f" | {fmean(row['wasted_j'] for row in own):.0f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", action="store_true", help="of what is kept")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-superlink", action="store_true")
    args = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    kept = json.loads(KEPT.read_text()) if args.tables else measure(args)
    text = tables(kept)
    print(text)
    if not args.quick:
        KEPT.write_text(json.dumps(kept, separators=(",", ":")) + "\n")
        write_section("fleet.md", "federated", text)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    import flwr

    seeds, rounds = ((0,), 4) if args.quick else (SEEDS, ROUNDS)
    kept: dict[str, Any] = {
        "bars": BARS,
        "machine": machine_line({}),
        "flower": flwr.__version__,
        "worlds": {seed: [repr(each) for each in phones(seed)] for seed in seeds},
        "rows": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        profiles = Path(folder)
        make_profiles(profiles)
        kept["quotes"] = quotes_of(profiles)
        for choice in CHOICES:
            for seed in seeds:
                kept["rows"].append(run_here(choice, seed, rounds, profiles))
                sys.stderr.write(f"{choice} {seed}: {kept['rows'][-1]['dropped']} dropouts\n")
        if not args.no_superlink:
            link = run_over_superlink(seeds[0], min(rounds, LINK_ROUNDS), profiles)
            kept["agreement"] = agreement(link, kept["rows"][0])
    return kept


if __name__ == "__main__":
    main()

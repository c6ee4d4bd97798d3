"""Strategy: federated averaging with clients that are chosen by joules.

    round 1    every client is asked once: what does a round take of you?   (`@app.query`)
    each       those that can afford it train, as many steps as fit         (`@app.train`)
               their replies bring weights and the next quote
    later      only newcomers, and who had too little some rounds ago, are asked again

Every message starts a process on the client, which takes seconds: so asking is rare. Messages live
for `reply_s`, not for Flower's twelve hours. The reply of a dead node comes from the SuperLink, not
from the node: whoever was asked and did not answer in earnest has dropped out.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from ampere.core import units
from ampere.errors import DataError, JournalError
from ampere.fleet.federation.attendance import Attendance, Round
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.register import Register
from ampere.fleet.federation.rounds import Choice, Terms
from ampere.integrations.flower.quoting import STEPS, read_quote
from ampere.integrations.flower.replies import (
    Shapes,
    alike,
    check_arrays,
    check_metrics,
    shapes_of,
)

log = logging.getLogger("flwr")  # where Flower shows what a run does
LOOK_S = 1.0  # between two looks at who is there
GRACE_S = 15.0  # a reply that is due is on its way


class EnergyAware(FedAvg):  # type: ignore[misc]  # Any, where Flower is not installed
    """Federated averaging over clients that can afford it, the cheapest samples first.

    Args:
        clients: That train in a round, as far as so many can.
        least_share: Of a round's steps that a client must have joules for, to take part.
        patience: Rounds that a client waits at most before it is preferred to cheaper ones; if
            nothing is said, twice as many as it takes to have all of them in turns.
        most_share: Of the rounds, in which one client takes part at most.
        round_s: Seconds that a round may take; slower clients train fewer steps.
        utility: How much it counts that a client's samples are learned badly still.
        quotes_last: Rounds after which a client that could not afford one is asked again.
        ask_s: Seconds that clients have to quote.
        reply_s: Seconds that they have to train and to evaluate.
        aggregation: Another strategy of Flower's whose way to aggregate is used, such as
            `FedMedian()` or `Krum()` against weights that somebody made up; not one that wants to
            send messages itself (`FedAdam`).
        min_available_nodes: That the first round waits for, at most `reply_s`.
        keep: A file that keeps who took part, quotes and batteries: a server that is started again
            with it goes on choosing where it was. None keeps nothing.
        fraction_evaluate: Of the clients that can afford a round, those that evaluate after it. It
            takes joules that no quote has: `evaluate_fn` of `start` does it on the server.
        others: As for `FedAvg`.
    """

    def __init__(
        self,
        clients: int,
        *,
        least_share: float = 0.25,
        patience: int | None = None,
        most_share: float = 1.0,
        round_s: float | None = None,
        utility: float = 0.0,
        quotes_last: int = 5,
        ask_s: float = 120.0,
        reply_s: float = 600.0,
        aggregation: Strategy | None = None,
        min_available_nodes: int = 1,
        keep: str | os.PathLike[str] | None = None,
        fraction_evaluate: float = 0.0,
        **others: Any,
    ) -> None:
        super().__init__(
            fraction_evaluate=fraction_evaluate, min_available_nodes=min_available_nodes, **others
        )
        terms = Terms(clients, least_share, patience, most_share, round_s, utility)
        self.book = Attendance(terms, quotes_last)
        self.register = None if keep is None else Register(keep, self.book)
        self._before = 0  # rounds before this start
        self.ask_s, self.reply_s, self.aggregation = ask_s, reply_s, aggregation
        self._shapes: Shapes = {}
        self._evaluating: set[int] = set()

    @property
    def history(self) -> list[Round]:
        """Who was asked in each round, for how many steps, and who came back."""
        return self.book.history

    def summary(self) -> None:
        """Log how clients are chosen."""
        terms = self.book.terms
        log.info("\t├──> Clients are chosen by joules: %s in a round", terms.clients)
        log.info("\t│\t├──Patience in rounds: %s", terms.patience or "two turns of all")
        log.info("\t│\t├──Least share of a round: %s", terms.least_share)
        log.info("\t│\t└──Most share of the rounds: %s", terms.most_share)
        log.info("\t└──> Replies within %s s, quotes within %s s", self.reply_s, self.ask_s)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """As `FedAvg.start`; a round ends after `reply_s` if nothing else is said.

        A message to a node that has just gone is never answered: Flower waits for all that.
        """
        self._before = self.book.round
        return super().start(
            grid,
            initial_arrays,
            num_rounds,
            self.reply_s + GRACE_S if timeout is None else timeout,
            train_config,
            evaluate_config,
            evaluate_fn,
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask who has not quoted, choose, and say to each how many steps it trains."""
        here = self._wait_for_nodes(server_round, grid)
        self.book.open_round(self._before + server_round, here)
        config["server-round"] = server_round
        self._ask(config, grid)
        choice = self.book.choose()
        self._keep()
        self._tell(server_round, choice)
        self._shapes = shapes_of(arrays)
        return [
            self._message(each.name, MessageType.TRAIN, self.reply_s, config, arrays, each.steps)
            for each in choice.invitations
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average what can be averaged; take quotes from replies; who did not answer rests."""
        usable = self._usable(replies, self.book.awaits, self._check_trained)
        for reply in usable:
            self.book.answered(reply.metadata.src_node_id, self._quote_in(reply))
        done = self.book.close_round()
        self._keep()
        if done.dropped:
            log.warning("round %s: no work came back from %s", server_round, list(done.dropped))
        averaged: tuple[ArrayRecord | None, MetricRecord | None]
        if self.aggregation is not None:
            averaged = self.aggregation.aggregate_train(server_round, usable)
        else:
            averaged = super().aggregate_train(server_round, usable)
        return averaged

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Some of those that could afford another round."""
        self._evaluating = set()
        if self.fraction_evaluate == 0.0:
            return []
        able = self.book.able()
        wanted = max(int(self.fraction_evaluate * len(able)), self.min_evaluate_nodes)
        self._evaluating = set(random.sample(able, min(wanted, len(able))))
        config["server-round"] = server_round
        return [
            self._message(name, MessageType.EVALUATE, self.reply_s, config, arrays)
            for name in sorted(self._evaluating)
        ]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average metrics; replies may bring quotes, too."""
        usable = self._usable(replies, self._evaluating.__contains__, self._check_metrics)
        for reply in usable:
            if (said := self._quote_in(reply)) is not None:
                self.book.told(reply.metadata.src_node_id, said)
        if self.aggregation is not None:
            return self.aggregation.aggregate_evaluate(server_round, usable)
        return super().aggregate_evaluate(server_round, usable)

    def _keep(self) -> None:
        """A disk that is full is no reason to end a federation."""
        if self.register is not None:
            try:
                self.register.keep()
            except JournalError as error:
                log.warning("the book of rounds is not kept: %s", error)

    def _wait_for_nodes(self, server_round: int, grid: Grid) -> list[int]:
        """Who is there; the first round waits for as many as were asked for, later ones for one."""
        wanted = self.min_available_nodes if server_round == 1 else 1
        end_s = time.monotonic() + self.reply_s
        while len(here := list(grid.get_node_ids())) < wanted and time.monotonic() < end_s:
            log.info("waiting for clients: %s of %s are there", len(here), wanted)
            time.sleep(min(LOOK_S, self.reply_s))
        return here

    def _ask(self, config: ConfigRecord, grid: Grid) -> None:
        """Have clients quote; all at once, since each takes seconds to start."""
        asked = self.book.to_ask()
        if not asked:
            return
        messages = [self._message(name, MessageType.QUERY, self.ask_s, config) for name in asked]
        silent = set(asked)
        for reply in grid.send_and_receive(messages, timeout=self.ask_s + GRACE_S):
            name = reply.metadata.src_node_id
            if name in silent and (said := self._quote_in(reply)) is not None:
                silent.discard(name)
                self.book.told(name, said)
        for name in sorted(silent):
            self.book.silent(name)
        log.info("%s of %s clients quoted", len(asked) - len(silent), len(asked))

    def _quote_in(self, reply: Message) -> Quote | None:
        if reply.has_error():
            return None
        try:
            return read_quote(reply.content)
        except DataError as error:
            log.warning("the quote of client %s: %s", reply.metadata.src_node_id, error)
            return None

    def _usable(
        self,
        replies: Iterable[Message],
        awaited: Callable[[int], bool],
        check: Callable[[RecordDict], None],
    ) -> list[Message]:
        """Replies of those that were asked, one each, fit to be averaged; in the nodes' order."""
        good: dict[int, Message] = {}
        for reply in replies:
            name = reply.metadata.src_node_id
            if reply.has_error():
                log.info("an error instead of a reply: %s", reply.error.reason)
            elif awaited(name) and name not in good:
                try:
                    check(reply.content)
                except DataError as error:
                    log.warning("the reply of client %s is left out: %s", name, error)
                else:
                    good[name] = reply
        same, others = alike([good[name] for name in sorted(good)])
        for reply in others:
            name = reply.metadata.src_node_id
            log.warning("the reply of client %s is left out: its records are not those", name)
        return same

    def _check_trained(self, content: RecordDict) -> None:
        check_arrays(content, self._shapes)
        self._check_metrics(content)

    def _check_metrics(self, content: RecordDict) -> None:
        check_metrics(content, self.weighted_by_key)

    def _message(
        self,
        name: int,
        kind: str,
        ttl_s: float,
        config: ConfigRecord,
        arrays: ArrayRecord | None = None,
        steps: int | None = None,
    ) -> Message:
        own = ConfigRecord(dict(config) if steps is None else {**config, STEPS: steps})
        records: dict[str, Any] = {self.configrecord_key: own}
        if arrays is not None:
            records[self.arrayrecord_key] = arrays
        return Message(RecordDict(records), name, kind, ttl=ttl_s)

    def _tell(self, server_round: int, choice: Choice) -> None:
        chosen = [
            str(each.name) + ("" if each.whole else f" ({units.plural(each.steps, 'step')})")
            for each in choice.invitations
        ]
        log.info("round %s: %s train", server_round, ", ".join(chosen) or "no clients")
        for name, reason in choice.refusals.items():
            log.info("\t client %s does not: %s", name, reason)

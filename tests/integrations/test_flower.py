"""EnergyAware over Flower's own messages, in one process: who is asked, trains, is left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="pip install 'ampere-energy[flower]'")

from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedMedian

from ampere.errors import Refused
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.quoting import quote_round
from ampere.fleet.member import Battery
from ampere.integrations.flower import (
    QUOTE,
    STEPS,
    EnergyAware,
    quote,
    steps_now,
)
from fleet.federation.clients import a_quote
from integrations.cases import known_profile
from integrations.local_grid import LocalGrid, enter_task

ROUND_J = 1.1 * 32.0  # the bound of a round of `a_quote()`
Behaviour = Callable[[RecordDict], None]
BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(change: Behaviour) -> Behaviour:
    BEHAVIOURS[change.__name__] = change
    return change


@behaviour
def weights_of_nan(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord([np.full(3, math.nan)])


@behaviour
def other_shape(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord([np.zeros(4)])


@behaviour
def other_type(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord([np.zeros(3, dtype=np.float32)])


@behaviour
def more_layers(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord([np.zeros(3), np.zeros(3)])


@behaviour
def no_weights(content: RecordDict) -> None:
    del content["arrays"]


@behaviour
def two_metric_records(content: RecordDict) -> None:
    content["more"] = MetricRecord({"battery": 3.0})


@behaviour
def no_samples(content: RecordDict) -> None:
    content["metrics"] = MetricRecord({"num-examples": 0, "loss": 1.0})


@behaviour
def endless_samples(content: RecordDict) -> None:
    content["metrics"] = MetricRecord({"num-examples": 1e300, "loss": 1.0})


@behaviour
def loss_of_nan(content: RecordDict) -> None:
    content["metrics"] = MetricRecord({"num-examples": 10, "loss": math.nan})


@behaviour
def other_metrics(content: RecordDict) -> None:
    content["metrics"] = MetricRecord({"num-examples": 10, "mood": 1.0})


@behaviour
def broken_bytes(content: RecordDict) -> None:
    content["arrays"]["0"].__dict__["data"] = b"\x80\x04 no array"


GARBAGE = sorted(BEHAVIOURS)


class Phones:
    """Clients that add their own number to the weights, and count what they were asked."""

    def __init__(self, **quotes: Quote | None) -> None:
        self.quotes = {int(name[1:]): said for name, said in quotes.items()}
        self.behaviours: dict[int, Behaviour] = {}
        self.away: set[int] = set()
        self.trained: list[tuple[int, int]] = []
        self.asked: list[int] = []
        self.evaluated: list[int] = []
        self.app = ClientApp()
        self.app.query()(self._told)
        self.app.train()(self._trained)
        self.app.evaluate()(self._evaluated)
        self.grid = LocalGrid(
            self.app, {name: {} for name in self.quotes}, lambda node: node not in self.away
        )

    def _told(self, message: Message, context: Context) -> Message:
        self.asked.append(context.node_id)
        return Message(RecordDict(self._said(context)), reply_to=message)

    def _said(self, context: Context) -> dict[str, Any]:
        said = self.quotes[context.node_id]
        return {} if said is None else {QUOTE: ConfigRecord(said.to_json())}

    def _trained(self, message: Message, context: Context) -> Message:
        node = context.node_id
        self.trained.append((node, int(message.content["config"][STEPS])))
        (weights,) = message.content["arrays"].to_numpy_ndarrays()
        content = RecordDict(
            {
                "arrays": ArrayRecord([weights + node]),
                "metrics": MetricRecord({"num-examples": 10, "loss": 1.0}),
                **self._said(context),
            }
        )
        if node in self.behaviours:
            self.behaviours[node](content)
        return Message(content, reply_to=message)

    def _evaluated(self, message: Message, context: Context) -> Message:
        self.evaluated.append(context.node_id)
        metrics = MetricRecord({"num-examples": 10, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    def run(self, strategy: EnergyAware, rounds: int = 1) -> Any:
        return strategy.start(self.grid, ArrayRecord([np.zeros(3)]), num_rounds=rounds)


def strategy(clients: int = 2, **settings: Any) -> EnergyAware:
    return EnergyAware(clients, reply_s=2.0, ask_s=1.0, **settings)


def weights(result: Any) -> list[float]:
    (array,) = result.arrays.to_numpy_ndarrays()
    return list(array)


def test_the_cheapest_that_can_afford_it_train_and_are_averaged() -> None:
    phones = Phones(n1=a_quote(0.3), n2=a_quote(0.1), n3=a_quote(0.2), n4=a_quote(0.05, left_j=1.0))
    chosen = strategy()
    result = phones.run(chosen)
    assert sorted(phones.trained) == [(2, 20), (3, 20)]
    assert weights(result) == [2.5, 2.5, 2.5]
    (first,) = chosen.history
    assert first.answered == (2, 3)
    assert list(first.refusals) == [4]


def test_clients_are_asked_once_and_tell_with_their_work_from_then_on() -> None:
    phones = Phones(n1=a_quote(), n2=a_quote())
    phones.run(strategy(quotes_last=10), rounds=5)
    assert sorted(phones.asked) == [1, 2]
    assert len(phones.trained) == 10


def test_a_server_that_is_started_again_knows_its_clients(tmp_path: Path) -> None:
    phones = Phones(n1=a_quote(0.3), n2=a_quote(0.1))
    first = strategy(1, keep=tmp_path / "book.json", quotes_last=10, patience=3)
    phones.run(first, rounds=2)
    assert first.register is not None
    first.register.close()  # as if its process had ended
    again = strategy(1, keep=tmp_path / "book.json", quotes_last=10, patience=3)
    phones.run(again, rounds=2)
    assert again.register is not None
    again.register.close()
    assert sorted(phones.asked) == [1, 2]  # once, by the first
    assert [each.number for each in again.history] == [1, 2, 3, 4]
    assert again.book.entry(2).taken + again.book.entry(1).taken == 4
    assert [name for name, _ in phones.trained] == [2, 2, 2, 1]  # it waited before and after


def test_a_full_disk_does_not_end_a_federation(tmp_path: Path) -> None:
    phones = Phones(n1=a_quote())
    chosen = strategy(1, keep=tmp_path / "book.json")
    (tmp_path / "book.json").mkdir()  # nothing can be put there
    assert weights(phones.run(chosen)) == [1.0, 1.0, 1.0]
    assert chosen.register is not None
    chosen.register.close()


def test_who_does_not_fit_whole_trains_fewer_steps() -> None:
    phones = Phones(n1=a_quote(left_j=0.51 * ROUND_J))
    phones.run(strategy(1))
    assert phones.trained == [(1, 10)]


def test_messages_do_not_live_for_twelve_hours() -> None:
    phones = Phones(n1=a_quote())
    phones.run(strategy(1))
    lives = {each.metadata.message_type: each.metadata.ttl for each in phones.grid.sent}
    assert lives == {MessageType.QUERY: 1.0, MessageType.TRAIN: 2.0}


def test_each_client_has_settings_of_its_own() -> None:
    phones = Phones(n1=a_quote(), n2=a_quote(left_j=0.51 * ROUND_J))
    given = ConfigRecord({"lr": 0.1})
    strategy().start(phones.grid, ArrayRecord([np.zeros(3)]), num_rounds=1, train_config=given)
    assert sorted(phones.trained) == [(1, 20), (2, 10)]
    assert STEPS not in given


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_left_out_and_the_round_goes_on(name: str) -> None:
    phones = Phones(n1=a_quote(), n2=a_quote(), n3=a_quote())
    phones.behaviours[1] = BEHAVIOURS[name]
    chosen = strategy(3)
    result = phones.run(chosen)
    assert weights(result) == [2.5, 2.5, 2.5]
    assert chosen.history[0].dropped == (1,)
    assert chosen.book.entry(1).silences == 1


def test_one_that_sends_garbage_alone_leaves_the_model_as_it_was() -> None:
    phones = Phones(n1=a_quote())
    phones.behaviours[1] = BEHAVIOURS["weights_of_nan"]
    result = phones.run(strategy(1))
    assert not result.train_metrics_clientapp
    assert len(result.arrays) == 0


def test_a_client_that_dies_is_not_asked_for_a_while_and_the_others_go_on() -> None:
    phones = Phones(n1=a_quote(), n2=a_quote())

    def die(content: RecordDict) -> None:
        raise RuntimeError("battery empty")

    phones.behaviours[1] = die
    chosen = strategy()
    result = phones.run(chosen, rounds=3)
    assert [each.dropped for each in chosen.history] == [(1,), (), ()]
    assert [name for name, _ in phones.trained] == [1, 2, 2, 2]
    assert weights(result) == [6.0, 6.0, 6.0]


def test_who_vanishes_is_not_asked_and_who_appears_is() -> None:
    phones = Phones(n1=a_quote(), n2=a_quote(), n3=a_quote())
    phones.away = {3}
    chosen = strategy(3)
    phones.run(chosen)
    phones.away = {1}
    messages = chosen.configure_train(2, ArrayRecord([np.zeros(3)]), ConfigRecord(), phones.grid)
    assert sorted(each.metadata.dst_node_id for each in messages) == [2, 3]
    assert sorted(phones.asked) == [1, 2, 3]


def test_nobody_there_is_a_round_without_work() -> None:
    phones = Phones(n1=a_quote())
    phones.away = {1}
    chosen = EnergyAware(1, reply_s=0.01, ask_s=0.01)
    phones.run(chosen, rounds=2)
    assert [each.invitations for each in chosen.history] == [(), ()]


def test_no_quote_a_wrong_quote_and_no_profile() -> None:
    phones = Phones(
        n1=None, n2=a_quote(), n3=Quote(320, 20), n4=Quote(320, 20, battery=Battery(1e6, 1e6))
    )
    wrong = a_quote().to_json()

    def lie(message: Message, context: Context) -> Message:
        record = ConfigRecord({**wrong, "energy_j": math.nan})
        return Message(RecordDict({QUOTE: record}), reply_to=message)

    phones.quotes[5] = a_quote()
    liars = ClientApp()
    liars.query()(lie)
    grid = LocalGrid(phones.app, {name: {} for name in phones.quotes})
    answer = grid._answer
    grid._answer = lambda message: (  # type: ignore[method-assign]
        liars(message, grid.contexts[5]) if message.metadata.dst_node_id == 5 else answer(message)
    )
    chosen = strategy(5)
    chosen.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=1)
    assert sorted(name for name, _ in phones.trained) == [2, 3]
    assert "no profile" in chosen.history[0].refusals[4]
    assert chosen.book.entry(1).silences == chosen.book.entry(5).silences == 1


def test_a_reply_in_the_name_of_another_does_not_count_twice() -> None:
    phones = Phones(n1=a_quote(), n2=a_quote())
    chosen = strategy()
    arrays = ArrayRecord([np.zeros(3)])
    messages = list(chosen.configure_train(1, arrays, ConfigRecord(), phones.grid))
    replies = list(phones.grid.send_and_receive(messages))
    stranger = Message(replies[0].content, reply_to=messages[0])
    stranger.metadata.__dict__["_src_node_id"] = 99
    averaged, _ = chosen.aggregate_train(1, [*replies, *replies, stranger])
    assert averaged is not None
    assert list(averaged.to_numpy_ndarrays()[0]) == [1.5, 1.5, 1.5]


def test_another_aggregation_takes_what_one_of_them_made_up() -> None:
    phones = Phones(n1=a_quote(), n2=a_quote(), n3=a_quote())

    def make_up(content: RecordDict) -> None:
        content["arrays"] = ArrayRecord([np.full(3, 1e9)])

    phones.behaviours[3] = make_up
    result = phones.run(strategy(3, aggregation=FedMedian()))
    assert weights(result) == [2.0, 2.0, 2.0]


def test_only_those_evaluate_that_could_train() -> None:
    phones = Phones(n1=a_quote(), n2=a_quote(left_j=0.1), n3=a_quote())
    result = phones.run(strategy(1, fraction_evaluate=1.0))
    assert sorted(phones.evaluated) == [1, 3]
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5


def test_a_quote_is_sent_as_a_config_record() -> None:
    battery = Battery(900.0, 4000.0, 800.0)
    said = quote(known_profile(), "zoo:cnn5", steps=20, batch_size=10, battery=battery)
    assert isinstance(said, ConfigRecord)
    own = quote_round(known_profile(), "zoo:cnn5", steps=20, batch_size=10, battery=battery)
    assert Quote.from_json(dict(said)) == own


def test_the_client_has_the_last_word() -> None:
    enter_task()
    config = ConfigRecord({STEPS: 20})
    message = Message(RecordDict({"config": config}), 1, MessageType.TRAIN)

    def now(left_j: float) -> int:
        return steps_now(message, ConfigRecord(a_quote(left_j=left_j).to_json()))

    assert now(2 * ROUND_J) == 20
    assert now(0.51 * ROUND_J) == 10
    with pytest.raises(Refused, match=r"a round may take 35.2 J, 10.0 mJ are left"):
        now(0.01)

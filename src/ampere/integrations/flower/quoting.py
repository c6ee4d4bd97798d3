"""Quoting: what a client tells, and how many steps it is asked for."""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from ampere.core import units
from ampere.errors import Refused
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.quoting import quote_round

QUOTE = "quote"  # the ConfigRecord of a reply that a quote stands in
STEPS = "local-steps"  # in the config of a training message: how many steps to train


def quote(*args: Any, **settings: Any) -> ConfigRecord:
    """What a round takes of this client, to be sent; the arguments are those of `quote_round`.

    A ConfigRecord, since a second MetricRecord in a reply would stop Flower's aggregation.
    """
    return ConfigRecord(quote_round(*args, **settings).to_json())


def steps_now(message: Message, said: ConfigRecord, config_key: str = "config") -> int:
    """How many of the steps that it was asked for a client can afford at this moment.

    The server chose by an older quote, and a phone is used meanwhile: the client has the last word.

    Args:
        message: To train.
        said: The client's quote as of now.
        config_key: Where the message's settings are.

    Raises:
        Refused: Not one step fits any more. Flower sends the error back; the client rests.
    """
    own = Quote.from_json(dict(said), QUOTE)
    asked = int(message.content.config_records[config_key].get(STEPS, own.steps))
    steps = min(asked, own.steps_within(own.usable_j))
    if steps < 1:
        bound_j = own.energy_j_bound
        takes = "what nobody knows" if bound_j is None else units.joules(bound_j)
        left = units.joules(own.usable_j)
        raise Refused(f"a round may take {takes}, {left} are left above the reserve")
    return steps


def read_quote(content: RecordDict) -> Quote | None:
    """The quote in a reply; None if there is none.

    Raises:
        DataError: It has numbers that cannot be.
    """
    record = content.config_records.get(QUOTE)
    return None if record is None else Quote.from_json(dict(record), QUOTE)

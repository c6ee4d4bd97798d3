"""Flower: clients of a federation are chosen by joules.

    # the client's half
    @app.query()
    def told(message, context):
        said = quote("phone.ampere", model, (1, 28, 28), steps=20, battery=battery())
        return Message(RecordDict({QUOTE: said}), reply_to=message)

    # the server's half
    strategy = EnergyAware(clients=3)
    strategy.start(grid, arrays, num_rounds=30)

docs/flower.md has both in full. How clients are chosen is pure, without Flower: `fleet.federation`.
"""

from __future__ import annotations

try:
    import flwr as _flwr
except ModuleNotFoundError as error:
    if error.name != "flwr":
        raise
    raise ModuleNotFoundError(
        "ampere.integrations.flower needs Flower: pip install 'ampere-energy[flower]'"
        " (Python 3.11 or newer)",
        name="flwr",
    ) from None

from ampere.fleet.member import Battery
from ampere.integrations.flower.quoting import QUOTE, STEPS, quote, steps_now
from ampere.integrations.flower.strategy import EnergyAware

__all__ = ["QUOTE", "STEPS", "Battery", "EnergyAware", "quote", "steps_now"]
del _flwr

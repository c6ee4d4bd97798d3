"""What `test_distributed` runs as each of several processes: a loop that averages gradients."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ampere.errors import AmpereError
from ampere.integrations.distributed import SharedGate, share
from integrations.gating import Machine

STEPS = 60


def train(machine: Machine, gate: Any, steps: int) -> tuple[int, list[float]]:
    """How many steps were made, and the weights they left."""
    torch.manual_seed(0)
    weight = torch.zeros(4, requires_grad=True)
    torch.manual_seed(dist.get_rank())
    for step in range(steps):
        machine.work()
        (torch.randn(2, 4) @ weight - 1).square().mean().backward()
        assert weight.grad is not None
        dist.all_reduce(weight.grad)
        with torch.no_grad():
            weight -= 0.01 * weight.grad
        weight.grad = None
        if not gate.step():
            return step + 1, weight.tolist()
    return steps, weight.tolist()


def stopped_and_resumed(folder: Path) -> dict[str, Any]:
    path, rank = folder / "gate.json", dist.get_rank()
    first = Machine()
    gate = share(first.gate(27.0, steps=STEPS))
    with gate:
        made, weights = train(first, gate, STEPS)
    if rank == 0:
        path.write_text(json.dumps(gate.state_dict()))
    dist.barrier()

    second = Machine()
    again = share(second.gate(100.0, steps=STEPS))
    again.load_state_dict(json.loads(path.read_text()))
    with again:
        rest, _ = train(second, again, STEPS - made)
    ends = [end.spent_j for machine in (first, second) for end in machine.heard.ends]
    return {"made": made, "rest": rest, "weights": weights, "ends": ends}


def warned(folder: Path) -> dict[str, Any]:
    gate = share(Machine().gate(10.0, on_exceed="warn"), every=3)
    machine = Machine()
    with gate:
        made, _ = train(machine, gate, 20)
    return {"made": made}


def refused(folder: Path) -> dict[str, Any]:
    """Only one process meters, and it cannot: nobody may wait for it for ever."""
    machine = Machine()
    gate = share(machine.gate(10.0, on_error="stop"))
    assert isinstance(gate, SharedGate)
    del machine.meter
    try:
        gate.start()
    except AmpereError as error:
        return {"error": str(error)}
    return {}


if __name__ == "__main__":
    dist.init_process_group("gloo")
    cases = (stopped_and_resumed, warned, refused)
    seen = {case.__name__: case(Path(sys.argv[1])) for case in cases}
    dist.barrier()
    dist.destroy_process_group()
    print(json.dumps(seen))

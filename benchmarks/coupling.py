"""Which models can be cut at all: ampere's own coupling of channels beside Torch-Pruning's.

    python benchmarks/coupling.py             # a minute

Every reference model of the tests is cut to about half of its free widths by both, Torch-Pruning
with the share that ampere's widths ask of each module. `runs` means that the result trains one step
with outputs of the same shape; `same widths`, that reading it gives the layers that were asked for,
so that what was estimated is what will run.
"""

from __future__ import annotations

import copy
import json
import signal
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch_pruning
from machine import RESULTS, machine_line, write_section
from torch import nn

from ampere.core.choices import choices, resize
from ampere.core.inputs import Inputs, parse_inputs
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.errors import AmpereError
from ampere.pytorch.graph.model_reading import read_model
from ampere.pytorch.pruning.slimmer import Slimmer
from ampere.pytorch.runtime.losses import returned_tensors
from ampere.pytorch.runtime.trainer import synthetic_inputs

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from reference_models import REFERENCES  # type: ignore[import-not-found]

BATCH = 4
PATIENCE_S = 20


def half_of(slimmer: Slimmer) -> dict[str, int]:
    widths = {}
    for choice in choices(slimmer.layers):
        i, width = choice.places[0]
        name = f"{slimmer.layers[i].name}.{width}"
        if not choice.fixed and name not in slimmer.stuck:
            widths[name] = max(1, choice.size // choice.step // 2) * choice.step
    return widths


def trains(model: nn.Module, inputs: Inputs, like: nn.Module) -> bool:
    args, kwargs = synthetic_inputs(inputs, BATCH)
    outputs = list(returned_tensors(model.train()(*args, **kwargs)))
    wanted = list(returned_tensors(like.train()(*args, **kwargs)))
    torch.stack([out.sum() for out in outputs if out.requires_grad]).sum().backward()  # type: ignore[no-untyped-call]
    return [out.shape for out in outputs] == [out.shape for out in wanted]


def by_torch_pruning(slimmer: Slimmer, widths: dict[str, int]) -> nn.Module:
    model = copy.deepcopy(slimmer.model)
    args, kwargs = synthetic_inputs(slimmer.inputs, BATCH)
    ratios = slimmer.ratios(widths)
    modules = dict(model.named_modules())
    weighted = (nn.modules.conv._ConvNd, nn.Linear)
    kept = [m for n, m in modules.items() if isinstance(m, weighted) and not ratios.get(n)]
    pruner = torch_pruning.pruner.BasePruner(
        model,
        (args, kwargs),
        torch_pruning.importance.MagnitudeImportance(p=2),
        pruning_ratio=0.0,
        pruning_ratio_dict={modules[name]: ratio for name, ratio in ratios.items() if ratio},
        ignored_layers=kept,
        forward_fn=lambda model, data: model(*data[0], **data[1]),
    )
    pruner.step()
    return model


def _too_long(*_: object) -> None:
    raise TimeoutError


def verdict(cut: Callable[[], nn.Module], slimmer: Slimmer, wanted: tuple[Layer, ...]) -> str:
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(PATIENCE_S)
    try:
        model = cut()
        if not trains(model, slimmer.inputs, copy.deepcopy(slimmer.model)):
            return "other outputs"
        layers = read_model(model, slimmer.inputs, Training(BATCH)).layers
    except AmpereError:
        return "runs"
    except TimeoutError:
        return "never ends"
    except Exception:
        return "fails"
    finally:
        signal.alarm(0)
    same = [(a.kind.name, a.widths) for a in layers] == [(b.kind.name, b.widths) for b in wanted]
    return "same widths" if same else "runs"


def main() -> None:
    """Cut all, print the table and keep it."""
    warnings.simplefilter("ignore")
    rows: list[tuple[str, str, str]] = []
    for name, reference in REFERENCES.items():
        torch.manual_seed(0)
        inputs = parse_inputs(reference.inputs)
        try:
            slimmer = Slimmer(reference.build(reference.width), inputs, Training(BATCH))
        except AmpereError:
            rows.append((name, "refused", "not tried"))
            continue
        widths = half_of(slimmer)
        if not widths:
            rows.append((name, "refused", "not tried"))
            continue
        wanted = resize(slimmer.layers, widths)
        slim = slimmer.slim(widths)
        own = verdict(partial(getattr, slim, "model"), slimmer, wanted)
        if slim.rebuilt and own == "runs":
            own = "same widths, rebuilt"  # from its layers: these are what was asked for
        theirs = verdict(partial(by_torch_pruning, slimmer, widths), slimmer, wanted)
        rows.append((name, own, theirs))
        print(name, own, theirs, sep="\t")
    version = torch_pruning.__version__
    text = [f"Machine: {machine_line({'torch': torch.__version__})}", ""]
    text += [f"| outcome | ampere | Torch-Pruning {version} |", "|---|---|---|"]
    outcomes = sorted({outcome for row in rows for outcome in row[1:]})
    for outcome in outcomes:
        names = [", ".join(row[0] for row in rows if row[k] == outcome) for k in (1, 2)]
        counts = [sum(row[k] == outcome for row in rows) for k in (1, 2)]
        listed = [
            f"{count} of {len(rows)}" + (f" ({each})" if 0 < count < 9 else "")
            for count, each in zip(counts, names, strict=True)
        ]
        text.append(f"| {outcome} | {listed[0]} | {listed[1]} |")
    print("\n".join(text))
    write_section("pruning.md", "coupling", "\n".join(text))
    (RESULTS / "coupling.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

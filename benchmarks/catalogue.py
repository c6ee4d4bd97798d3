"""The recipe of the catalogue that surveys serve: public architectures, read on the meta device.

    python benchmarks/catalogue.py            # in an environment with timm and transformers

Of every module of timm some models, of transformers the types that people train, and recurrent
networks as tutorials have them; each at one size of batch and input, drawn by a fixed seed. What is
kept is what they are made of, call by call: src/ampere/acquisition/catalogue.json.gz.
"""

from __future__ import annotations

import gzip
import json
import random
import resource
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from torch import Tensor, nn

from ampere.core.layers import LayerIdentity, Work
from ampere.core.training import Training
from ampere.errors import AmpereError
from ampere.pytorch.models import read

TARGET = Path(__file__).parent.parent / "src/ampere/acquisition/catalogue.json.gz"
EACH = 3  # models of one module of timm
MOST_PARAMETERS = 150e6
MOST_MEMORY = 10 << 30  # bytes, for the few that look at values and so are run for real
BATCHES = (1, 2, 4, 8, 16, 32, 64)
SIDES = (64, 96, 128, 160, 192, 224)
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")
MOBILE = ("mobile", "efficientnet", "ghost", "tiny", "fastvit", "repvit", "edge", "shuffle", "lite",
          "mnasnet", "squeeze", "starnet", "efficientformer", "swiftformer", "rexnet")  # fmt: skip
LANGUAGE = (
    "bert", "roberta", "distilbert", "albert", "electra", "mpnet", "gpt2", "gpt_neo", "opt",
    "llama", "mistral", "qwen2", "gemma", "phi", "t5", "bart", "pegasus", "gpt_neox", "bloom",
    "deberta-v2", "xlm-roberta", "camembert", "codegen", "falcon", "stablelm",
)  # fmt: skip
OTHER = ("vit", "deit", "swin", "whisper", "wav2vec2", "hubert", "convnext", "segformer", "resnet")


class Tagger(nn.Module):
    """A recurrent network over tokens: a class for each text, or a token for each position."""

    def __init__(self, cell: str, entries: int, width: int, hidden: int, layers: int, every: bool):
        super().__init__()
        self.every = every
        self.table = nn.Embedding(entries, width)
        self.inner = getattr(nn, cell)(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, entries if every else 5)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        out, _ = self.inner(self.table(x))
        scores: Tensor = self.head(out if self.every else out[:, -1])
        return scores


def recurrent(rng: random.Random) -> Iterator[tuple[str, str, nn.Module, str]]:
    """Language models, classifiers and taggers."""
    for cell in ("LSTM", "GRU", "RNN"):
        for number in range(5):
            entries, hidden = rng.choice((1000, 5000, 10000)), rng.choice((64, 128, 256, 512))
            every, layers = rng.random() < 0.5, rng.choice((1, 2))
            length = rng.choice((16, 32, 64, 128))
            model = Tagger(cell, entries, rng.choice((32, 128, 256)), hidden, layers, every)
            yield f"{cell.lower()} {number}", cell.lower(), model, f"{length}:int64<{entries}"


def merged(work: Iterator[Work]) -> list[Work]:
    """Equal calls of all layers together."""
    counts: defaultdict[LayerIdentity, float] = defaultdict(float)
    first: dict[LayerIdentity, Work] = {}
    for each in work:
        identity = each.call().identity
        first.setdefault(identity, each)
        counts[identity] += each.count
    return [replace(each, count=counts[key]) for key, each in first.items()]


def architecture(name: str, family: str, genre: str, model: nn.Module | str, input: str | None,
                 rng: random.Random) -> dict[str, object] | None:  # fmt: skip
    """One row of the catalogue; None for what cannot be read or is too large."""
    training = Training(rng.choice(BATCHES), rng.choice(OPTIMIZERS))
    try:
        layers = read(model, input, training)
    except (AmpereError, RuntimeError, ValueError, AssertionError) as error:
        print(f"  left out: {name} ({str(error)[:80]})", file=sys.stderr)
        return None
    if sum(layer.params or 0 for layer in layers) > MOST_PARAMETERS:
        return None
    work = merged(
        replace(each, count=each.count * layer.count) for layer in layers for each in layer.work
    )
    print(f"{name} {input or ''} batch {training.batch_size}: {len(work)} calls", flush=True)
    return {
        "name": f"{name}, batch {training.batch_size}, {training.optimizer}",
        "family": family,
        "genre": genre,
        "batch": training.batch_size,
        "work": [each.to_json() for each in work],
    }


def vision(rng: random.Random) -> Iterator[tuple[str, str, str, str, str | None]]:
    """Some models of every module of timm, and the side of their images."""
    from ampere.pytorch.public.timm_models import TIMM

    timm = TIMM.load("the catalogue")
    registry = import_module("timm.models._registry")
    by_module: defaultdict[str, list[str]] = defaultdict(list)
    for name in timm.list_models():
        by_module[registry._model_to_module[name]].append(name)
    for module, names in sorted(by_module.items()):
        for name in sorted(rng.sample(names, min(EACH, len(names)))):
            mobile = any(word in name or word in module for word in MOBILE)
            settings = timm.get_pretrained_cfg(name, allow_unregistered=True)
            fixed = settings is None or settings.fixed_input_size or "vit" in module
            side = None if fixed else rng.choice(SIDES)
            shape = None if side is None else f"3x{side}x{side}"
            yield (
                f"timm:{name}",
                f"timm {module}",
                "mobile" if mobile else "vision",
                f"timm:{name}",
                shape,
            )


def spare_the_machine() -> None:
    """What would take more memory is left out, as what cannot be read."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main() -> None:
    """Read them all, and write the file."""
    spare_the_machine()
    rng = random.Random("catalogue")
    rows = []
    for name, family, genre, model, input in vision(rng):
        rows.append(architecture(name, family, genre, model, input, rng))
    for kind in (*LANGUAGE, *OTHER):
        genre = "language" if kind in LANGUAGE else "vision"
        for sequence in rng.sample((32, 64, 128, 256, 512), 2) if genre == "language" else (None,):
            name = f"hf:{kind}" if sequence is None else f"hf:{kind}(sequence={sequence})"
            rows.append(architecture(name, f"hf {kind}", genre, name, None, rng))
    for name, family, module, shape in recurrent(rng):
        rows.append(architecture(name, family, "recurrent", module, shape, rng))
    kept = [row for row in rows if row is not None]
    text = json.dumps({"architectures": kept}, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(kept)} architectures, {TARGET.stat().st_size / 1e3:.0f} kB in {TARGET}")


if __name__ == "__main__":
    main()

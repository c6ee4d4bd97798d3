"""Models of transformers: `hf:gpt2(n_layer=6, task="causal-lm", sequence=128)`, `hf:./folder`.

A type of model has its default configuration, a folder the one in its `config.json`; arguments
change it, but for `task` and `sequence`, which say what is trained. Weights are by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from ampere.core.boundary.model_names import ModelName, absolute, is_folder
from ampere.core.types import Json
from ampere.errors import ModelError
from ampere.pytorch.public.configurations import read_configuration, refuse_code
from ampere.pytorch.public.feeding import feed
from ampere.pytorch.public.packages import Package, offline
from ampere.pytorch.public.recipe import Recipe, alike
from ampere.pytorch.public.tasks import TASKS, Task, find_task

TRANSFORMERS = Package("transformers", "transformers")
ATTENTION = ("eager", "sdpa")  # what torch has itself; others are fetched or compiled
_USUAL_LOSS = "ForCausalLM"  # which transformers takes anyhow, with a warning
# A step shall be like the next: no layer or frame is left out by lot.
_STEADY = {
    "layerdrop": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "apply_spec_augment": False,
}


def find_transformers_model(named: ModelName) -> Recipe:
    """How a model of transformers is made, and what it is fed with its labels.

    Raises:
        ModelError: transformers is not there, or there is no such type, folder, task or setting.
    """
    label = f"hf:{named.name}"
    settings = dict(named.arguments)
    asked, sequence = settings.pop("task", None), settings.pop("sequence", None)
    said = None if asked is None else find_task(asked)
    data = read_configuration(named.path) if named.path is not None else {}
    transformers: Any = TRANSFORMERS.load(label)
    with _quiet(transformers):
        config = _configuration(transformers, label, named.name, data, settings)
        heads = _heads(transformers, config)
        task = said or _usual_task(heads, data)
        if task is None or task.name not in heads:
            raise ModelError(_no_task(label, task, heads))
        _prepare(config, task, settings)
        entry = heads[task.name].main_input_name
        inputs = feed(task, entry, config, sequence)

    def make() -> nn.Module:
        with _quiet(transformers):
            auto = getattr(transformers, task.auto)
            model: nn.Module = auto.from_config(config, trust_remote_code=False)
        if getattr(model, "loss_type", "") is None:
            model.loss_type = _USUAL_LOSS  # type: ignore[assignment]
        return model

    return Recipe(make, inputs)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Offline, and without advice that is for those who load weights."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with offline():
            yield
    finally:
        transformers.logging.set_verbosity(level)


def _configuration(
    transformers: Any, label: str, name: str, data: Mapping[str, Json], settings: Mapping[str, Any]
) -> Any:
    """The configuration, with what the user changes of it."""
    types = transformers.CONFIG_MAPPING
    kind = str(data.get("model_type", name))
    if kind not in types:
        hint = alike(kind, types.keys(), "use a type such as bert, gpt2 or vit")
        if not is_folder(name) and absolute(name).is_dir():
            hint = f"the folder of this name is hf:./{name}"
        raise ModelError(f"transformers has no type of model {kind!r}: {hint}")
    for setting, value in {"model_type": kind, **settings}.items():
        refuse_code(setting, value, label)
    if settings.get("attn_implementation", ATTENTION[0]) not in ATTENTION:
        raise ModelError(f"{label}: attn_implementation is one of {', '.join(ATTENTION)}")
    try:
        usual = types[kind]()
        for setting in settings:
            _refuse_unknown(setting, usual, label)
        return types[kind].from_dict({**data, **settings})
    except ModelError:
        raise
    except Exception as error:  # each type checks its own settings in its own way
        raise ModelError(
            f"{label} has a configuration that does not work: {_line(error)}"
        ) from error


def _refuse_unknown(setting: str, usual: Any, label: str) -> None:
    """Any other name would be taken, and forgotten."""
    known = setting == "attn_implementation" or hasattr(usual, setting)
    if not known or setting.startswith("_") or callable(getattr(usual, setting, None)):
        names = [name for name in usual.to_dict() if not name.startswith("_")]
        hint = alike(setting, [*names, "task", "sequence"], f"it has {', '.join(names[:12])}, ...")
        raise ModelError(f"{label} has no setting {setting!r}: {hint}")


def _heads(transformers: Any, config: Any) -> dict[str, Any]:
    """The classes of a type of model, by the task that each is for."""
    heads = {}
    for task in TASKS.values():
        mapping = getattr(getattr(transformers, task.auto, None), "_model_mapping", {})
        if type(config) in mapping:
            found = mapping[type(config)]
            heads[task.name] = found[0] if isinstance(found, (tuple, list)) else found
    return heads


def _usual_task(heads: Mapping[str, Any], data: Mapping[str, Json]) -> Task | None:
    """What the folder says that its model is for, or else what its type is usually for."""
    stated = data.get("architectures") or ()
    for name, head in heads.items():
        if isinstance(stated, list) and head.__name__ in stated:
            return TASKS[name]
    return next((TASKS[name] for name in heads), None)


def _no_task(label: str, task: Task | None, heads: Mapping[str, Any]) -> str:
    if not heads:
        return f"{label} has no task that ampere knows: {', '.join(TASKS)}"
    wanted = task.name if task else "any"
    return f"{label} has no head for {wanted}; it has {', '.join(heads)}"


def _prepare(config: Any, task: Task, settings: Mapping[str, Any]) -> None:
    """Set what training needs and a default configuration leaves open."""
    parts = [config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", ()))]
    for part in parts:
        for name, value in _STEADY.items():
            if part is not None and name not in settings and hasattr(part, name):
                setattr(part, name, value)
    if getattr(config, "pad_token_id", None) is None and task.name == "classification":
        config.pad_token_id = 0  # where a text ends is found by it
    if getattr(config, "is_encoder_decoder", False):
        for name in ("pad_token_id", "decoder_start_token_id"):
            if getattr(config, name, None) is None:
                setattr(config, name, 0)  # what the decoder begins with


def _line(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text:.200}"

"""`jobs.toml`: what shall be trained by a fleet, as people write it.

    [[job]]
    name = "digits"
    model = "zoo:lenet5(channels=[6, 12])"   # zoo:, timm:, hf:TYPE; or layers = "model.jsonl"
    input = "3x32x32"                        # where the model does not say
    steps = 20000                            # or epochs and samples (and validation_samples)
    batch_size = 32
    optimizer = "adam"
    earliest = "30min"
    deadline = "6h"                          # or 2026-11-19T06:00:00+01:00
    members = ["pi", "laptop"]               # all if that is left out
    chunk_steps = 500                        # it may be run in parts of so many steps
    priority = 2                             # where not all fit, those with more come first
    shrink = "50%"                           # pruning may leave as little of its joules

Times count from the moment that the plan begins at. A model that is code (`net.py:Net`) runs when
it is loaded: a file may name one only if the user says so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ampere.core.boundary.files import below
from ampere.core.boundary.model_names import (
    TIMM,
    TRANSFORMERS,
    ZOO,
    ModelName,
    is_folder,
    parse_name,
    source_path,
)
from ampere.core.boundary.trust import ForeignText, model_of_file
from ampere.core.budget import parse_budget
from ampere.core.inputs import Inputs, parse_inputs
from ampere.core.layers import Layer
from ampere.core.training import DTYPES, LOSSES, MOST_BATCH, Training
from ampere.errors import DataError
from ampere.fleet.files.entries import Entry, read_entries
from ampere.fleet.member import Fleet, refuse_twins
from ampere.fleet.task import Task
from ampere.profiles.jobs.job import MOST, MOST_J, MOST_S, Job, Loading
from ampere.records.rows import read_layer_file
from ampere.zoo.families import find_family

JOB = "job"
COUNTS = ("steps", "epochs", "samples", "validation_samples", "validations")
LOADING = ("data_s_per_batch", "data_j_per_batch")
TRAINING = ("batch_size", "optimizer", "loss", "dtype", "amp")
PLACING = ("earliest", "deadline", "members", "chunk_steps", "priority", "shrink")
KNOWN = ("model", "layers", "input", *COUNTS, "accumulate", *LOADING, *TRAINING, *PLACING)
INSTEAD = {
    "model": ("layers",),
    "layers": ("model", "input", *TRAINING),
    "steps": ("epochs", "samples"),
    "epochs": ("steps",),
    "samples": ("steps",),
}
MOST_MEMBERS = 10_000


def read_jobs(
    path: str | os.PathLike[str],
    fleet: Fleet,
    *,
    load_models: bool = False,
    begins: str | None = None,
) -> list[Task]:
    """The jobs that stand in a file.

    Args:
        path: Where it is.
        fleet: Who may run them. What a job does not say of its training is as in its members'
            profiles.
        load_models: Whether the file may name models that are code. Loading one runs it.
        begins: When the plan begins, ISO 8601, for dates and times of day; now if nothing is said.

    Raises:
        DataError: The file cannot be read, or says something else: one line names the place.
    """
    name, entries = read_entries(path, JOB, KNOWN, INSTEAD, begins)
    tasks = [_task(entry, fleet, load_models) for entry in entries]
    try:
        refuse_twins([task.name for task in tasks], JOB)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return tasks


def _task(entry: Entry, fleet: Fleet, load_models: bool) -> Task:
    fields = entry.fields
    with entry.told(JOB):
        members = _members(entry, fleet)
        return Task(
            name=entry.name,
            model=_model(entry, load_models),
            job=_job(entry),
            input=_input(entry),
            training=_training(entry, fleet, members),
            earliest_s=max(0.0, entry.time("earliest", passed=True) or 0.0),
            deadline_s=entry.time("deadline"),
            members=members,
            chunk_steps=fields.whole("chunk_steps", None, least=1, most=MOST),
            priority=fields.number("priority", 1.0, above=0, most=1e6),
            shrink=_share(entry, "shrink"),
        )


def _members(entry: Entry, fleet: Fleet) -> tuple[str, ...]:
    names = []
    for place, name in entry.fields.items("members", most=MOST_MEMBERS):
        if not isinstance(name, str):
            raise DataError(f"{place} must be the name of a member, not {name!r:.80}")
        names.append(fleet.find(name).name)
    if not names and "members" in entry.fields:
        entry.fields.refuse("members", "a list of those that may run it; leave it out for all")
    return tuple(dict.fromkeys(names))


def _model(entry: Entry, load_models: bool) -> str | Sequence[Layer]:
    fields = entry.fields
    if "layers" in fields:
        if "model" in fields:
            raise DataError("it has a model and layers: give one of them")
        return entry.file("layers", read_layer_file) or ()
    if "model" not in fields:
        fields.refuse("model", "what is trained, such as zoo:lenet5 or timm:resnet18")

    def read(text: str) -> str:
        name = parse_name(text)
        if name.source == ZOO:
            find_family(name.name).check(name.arguments)
        if _runs_nothing(name, text):
            return text
        if not load_models:
            does = "builds what a file may not ask for" if name.source == ZOO else "runs code"
            raise DataError(f"loading {text} {does}: give --load-models if you trust this file")
        return str(_beside(name, entry))

    return entry.parsed("model", read, "a model such as zoo:lenet5 or timm:resnet18") or ""


def _runs_nothing(name: ModelName, text: str) -> bool:
    """Whether a model is built by ampere, or by a package with such a name, of data alone."""
    if name.source in (TIMM, TRANSFORMERS):
        return not is_folder(name.name)
    return not isinstance(model_of_file(text), ForeignText)


def _beside(name: ModelName, entry: Entry) -> ModelName:
    """Files that a file names are looked for beside it."""
    if name.source == TRANSFORMERS:
        return replace(name, name=str(below(entry.folder, name.name).absolute()))
    if source_path(name.source) is None:
        return name
    return replace(name, source=str(entry.beside(name.source).absolute()))


def _job(entry: Entry) -> Job:
    fields = entry.fields
    steps, epochs, samples, validation_samples, validations = (
        fields.whole(name, None, least=1, most=MOST) for name in COUNTS
    )
    if steps is None and epochs is None:
        raise DataError("how long is it trained? give steps, or epochs and samples")
    loading = None
    if any(name in fields for name in LOADING):
        loading = Loading(
            fields.number("data_s_per_batch", above=0, most=MOST_S),
            fields.number("data_j_per_batch", None, above=0, most=MOST_J),
        )
    accumulate = fields.whole("accumulate", 1, least=1, most=MOST)
    return Job(steps, epochs, samples, accumulate, validation_samples, validations, loading=loading)


def _input(entry: Entry) -> Inputs | None:
    if "layers" in entry.fields and "input" in entry.fields:
        raise DataError("layers say themselves what they are fed: leave input out")
    return entry.parsed("input", parse_inputs, "a shape such as 3x32x32")


def _training(entry: Entry, fleet: Fleet, members: Sequence[str]) -> Training | None:
    """How it is trained: what it says itself, and the rest as its members' profiles were."""
    fields = entry.fields
    said = [name for name in TRAINING if name in fields]
    if not said:
        return None
    if "layers" in fields:
        for name in (name for name in said if name != "batch_size"):
            raise DataError(f"layers say themselves how they are trained: leave {name} out")
    usual = [each.profile.training for each in fleet if not members or each.name in members]
    alike = all(each == usual[0] for each in usual)
    if not alike and not {"batch_size", "optimizer"} <= set(said) and "layers" not in fields:
        raise DataError(
            "profiles of its members were trained in different ways: say both batch_size and"
            " optimizer, or none of them to train as each profile was"
        )
    return (usual[0] if alike else Training()).but(
        batch_size=fields.whole("batch_size", None, least=1, most=MOST_BATCH),
        optimizer=fields.text("optimizer", None, most=50),
        loss=fields.choice("loss", LOSSES) if "loss" in fields else None,
        dtype=fields.choice("dtype", DTYPES) if "dtype" in fields else None,
        amp=fields.flag("amp") if "amp" in fields else None,
    )


def _share(entry: Entry, key: str) -> float | None:
    """A share such as 50% or 0.5."""
    wanted = "a share such as 50% or 0.5"
    if key not in entry.fields:
        return None
    if not isinstance(entry.fields.row[key], str):
        return entry.fields.number(key, above=0, most=1)
    try:
        amount = parse_budget(entry.fields.text(key, most=100))
    except DataError:
        entry.fields.refuse(key, wanted)
    if not amount.is_share:
        entry.fields.refuse(key, wanted)
    return amount.joules(full_j=1.0)

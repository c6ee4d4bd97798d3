"""Frameworks as callbacks see them: the order of hooks in which each of them trains, no more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from .gating import Machine

BATCHES, EPOCHS = 10, 5


class Base:
    """A callback that is called and does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *args, **settings: None


@contextmanager
def framework(name: str, modules: dict[str, dict[str, Any]]) -> Iterator[ModuleType]:
    """The callback's module, which takes these modules for the framework."""
    ours = f"ampere.integrations.{name}"
    kept = {each: sys.modules.pop(each, None) for each in (*modules, ours)}
    for each, contents in modules.items():
        sys.modules[each] = ModuleType(each)
        vars(sys.modules[each]).update(contents)
    try:
        yield import_module(ours)
    finally:
        for each, module in kept.items():
            sys.modules.pop(each, None)
            if module is not None:
                sys.modules[each] = module


class Lightning:
    """`Trainer.fit`: validation and saving after a stop are what the callback has to prevent."""

    MODULES: ClassVar[dict[str, dict[str, Any]]] = {
        "lightning": {},
        "lightning.pytorch": {"Callback": object, "LightningModule": object, "Trainer": object},
    }

    def __init__(self, machine: Machine, folder: Any, start: int = 0) -> None:
        self.machine = machine
        self.global_step = start
        self.estimated_stepping_batches = BATCHES * EPOCHS
        self.limit_val_batches: float = 1.0
        self.fit_loop = SimpleNamespace(min_epochs=2, epoch_loop=SimpleNamespace(min_steps=30))
        self.should_stop = False
        self.checkpoint_callback = None
        self.default_root_dir = folder
        self.loggers = [self]
        self.logged: list[dict[str, float]] = []
        self.saved: list[str] = []
        self.validated = self.ended = 0

    def log_metrics(self, figures: dict[str, float], step: int) -> None:
        self.logged.append(figures)

    def save_checkpoint(self, path: Any) -> None:
        self.saved.append(path.name)

    def fit(self, callback: Any) -> None:
        module = SimpleNamespace(automatic_optimization=True)
        callback.on_fit_start(self, module)
        callback.on_train_start(self, module)
        try:
            while self.global_step < self.estimated_stepping_batches and not self.should_stop:
                self._epoch(callback, module)
        except StopIteration:
            pass
        callback.teardown(self, module, "fit")

    def _epoch(self, callback: Any, module: Any) -> None:
        while not self.should_stop:
            self.machine.work()
            self.global_step += 1
            callback.on_train_batch_end(self, module, None, None, 0)
            last = self.global_step % BATCHES == 0
            if (last or self.should_stop) and self.limit_val_batches:
                self.validated += 1
            if last:
                break
        callback.on_train_epoch_end(self, module)
        self.ended += 1


class HuggingFace:
    """`Trainer.train`: flags of `control` are set by its own callback before ours is called."""

    MODULES: ClassVar[dict[str, dict[str, Any]]] = {
        "transformers": {
            "TrainerCallback": Base,
            "TrainerControl": object,
            "TrainerState": object,
            "TrainingArguments": object,
        },
        "transformers.trainer_callback": {"ExportableState": type("ExportableState", (), {})},
    }

    def __init__(self, machine: Machine, folder: Any, saved: Any = None, start: int = 0) -> None:
        self.machine = machine
        self.args = SimpleNamespace(output_dir=str(folder))
        self.state = SimpleNamespace(
            global_step=start, max_steps=BATCHES * EPOCHS, stateful_callbacks=saved or {}
        )
        self.control = SimpleNamespace()
        self.saved: list[int] = []
        self.logged: list[dict[str, float]] = []
        self.evaluated = 0

    def log(self, figures: dict[str, float]) -> None:
        self.control.should_log = False
        self.logged.append(figures)

    def train(self, callback: Any) -> None:
        def tell(hook: str) -> None:
            getattr(callback, hook)(self.args, self.state, self.control, model=None)

        def act() -> None:
            if self.control.should_evaluate:
                self.evaluated += 1
                tell("on_evaluate")
            if self.control.should_save:
                self.saved.append(self.state.global_step)
                self.state.stateful_callbacks[type(callback).__name__] = callback.state()
                tell("on_save")
            vars(self.control).update(should_evaluate=False, should_save=False)

        self.control.should_training_stop = False
        tell("on_train_begin")
        while self.state.global_step < self.state.max_steps:
            self.machine.work()
            self.state.global_step += 1
            vars(self.control).update(should_log=True, should_evaluate=False, should_save=False)
            self.control.should_training_stop = self.state.global_step == self.state.max_steps
            tell("on_step_end")
            assert self.control.should_log
            act()
            if self.state.global_step % BATCHES == 0 or self.control.should_training_stop:
                vars(self.control).update(should_evaluate=True, should_save=True)
                tell("on_epoch_end")
                act()
            if self.control.should_training_stop:
                break
        tell("on_train_end")


class Skorch:
    """`net.partial_fit`: a KeyboardInterrupt ends it."""

    class History(list[Any]):
        def to_file(self, path: str) -> None:
            self.path = path

        def record(self, name: str, value: float) -> None:
            self[-1][name] = value

    MODULES: ClassVar[dict[str, dict[str, Any]]] = {
        "skorch": {},
        "skorch.callbacks": {"Callback": Base},
        "skorch.history": {"History": History},
    }

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.initialized_ = False
        self.max_epochs = EPOCHS
        self.history = self.History()
        self.loaded = self.saved = False
        self.optimizer_ = self
        self._hook: Any = None

    def initialize(self) -> None:
        self.initialized_ = True

    def register_step_post_hook(self, hook: Any) -> Any:
        self._hook = hook
        return SimpleNamespace(remove=lambda: setattr(self, "_hook", None))

    def get_iterator(self, dataset: Any, training: bool) -> range:
        return range(BATCHES)

    def save_params(self, **files: str) -> None:
        self.saved = True

    def load_params(self, **files: str) -> None:
        self.loaded = True

    def partial_fit(self, callback: Any, epochs: int) -> None:
        callback.on_train_begin(self)
        try:
            for _ in range(epochs):
                self.history.append({})
                callback.on_epoch_begin(self, dataset_train=None)
                for _ in range(BATCHES):
                    self.machine.work()
                    self._hook(self, (), {})
                    callback.on_batch_end(self, training=True)
                callback.on_batch_end(self, training=False)
                callback.on_epoch_end(self)
        except KeyboardInterrupt:
            pass
        callback.on_train_end(self)


class Keras:
    """`model.fit`: it stops, and validates once more."""

    class Callback:
        params: dict[str, Any]
        model: Any
        _model: Any

    MODULES: ClassVar[dict[str, dict[str, Any]]] = {
        "keras": {"callbacks": SimpleNamespace(Callback=Callback), "Model": object}
    }

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.optimizer = SimpleNamespace(built=False, build=lambda variables: None)
        self.trainable_variables: list[Any] = []
        self.stop_training = False
        self.validated = 0
        self.history: list[dict[str, float]] = []
        self.loaded = False

    def _should_eval(self, epoch: int, frequency: int) -> bool:
        return True

    def save_weights(self, path: Any, overwrite: bool) -> None:
        path.write_text("weights")

    def load_weights(self, path: Any) -> None:
        self.loaded = path.read_text() == "weights"

    def fit(self, callback: Any, initial_epoch: int) -> None:
        callback.params = {"epochs": EPOCHS, "steps": BATCHES}
        callback.model = callback._model = self
        callback.on_train_begin()
        for epoch in range(initial_epoch, EPOCHS):
            callback.on_epoch_begin(epoch)
            for batch in range(BATCHES):
                self.machine.work()
                callback.on_train_batch_end(batch)
                if self.stop_training:
                    break
            self.validated += self._should_eval(epoch, 1)
            self.history.append({})
            callback.on_epoch_end(epoch, self.history[-1])
            if self.stop_training:
                break
        callback.on_train_end()


class Accelerate:
    """An accelerator that gathers two batches for a step."""

    MODULES: ClassVar[dict[str, dict[str, Any]]] = {"accelerate": {"Accelerator": object}}

    def __init__(self, machine: Machine, saved: Any = None) -> None:
        self.machine = machine
        self.sync_gradients = True
        self.saved = saved
        self.logged: list[dict[str, float]] = []

    def register_for_checkpointing(self, owner: Any) -> None:
        self.owner = owner
        if self.saved:
            owner.load_state_dict(self.saved)

    def log(self, figures: dict[str, float], step: int) -> None:
        self.logged.append(figures)

    def save_state(self, folder: str) -> None:
        self.saved = self.owner.state_dict()

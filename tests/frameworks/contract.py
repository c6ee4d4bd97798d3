"""What every runtime must do. The tests of a runtime inherit `RuntimeContract`.

class TestMyRuntime(RuntimeContract):
    name = "mine"
    models = ("zoo:lenet5", "zoo:lstm")

One whose library is not installed skips by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from ampere.core.layers import Layer, structure_of
from ampere.core.program.structure import TORCH
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.core.variants import isolate
from ampere.core.workloads import OPTIONS_OF_TORCH, REFERENCE, Settings, Workload
from ampere.errors import DeviceError, ModelError
from ampere.frameworks.models import plan_variants, read
from ampere.frameworks.runtimes import RUNTIMES, Runtime, find_runtime, refuse_foreign, stages_of

SMALL = Training(batch_size=2)


def as_dialect(layer: Layer, dialect: str) -> Layer:
    """The same layer as if another framework's reader had written it."""
    structure = replace(structure_of(layer.kind), dialect=dialect)
    return replace(layer, kind=replace(layer.kind, structure=structure))


class RuntimeContract:
    name: ClassVar[str]
    models: ClassVar[tuple[str, ...]] = ("zoo:lenet5",)  # that it must train
    untrainable: ClassVar[tuple[Layer, str] | None] = None  # a layer, and what of it is refused

    @property
    def settings(self) -> Settings:
        return Settings(runtime=self.name, threads=1)

    @pytest.fixture(autouse=True)
    def runtime(self) -> Runtime:
        """The runtime, with its settings in force."""
        entry = RUNTIMES[self.name]
        if self.name != "fake" and entry.version is None:
            pytest.skip(f"needs {entry.packages[0]}")
        found = find_runtime(self.name)
        found.apply(self.settings)
        return found

    def test_the_table_says_what_it_says_of_itself(self, runtime: Runtime) -> None:
        entry = RUNTIMES[self.name]
        assert (runtime.name, tuple(runtime.stages)) == (entry.name, entry.stages)
        assert runtime.stages[0] == "step"
        assert stages_of(self.name) == entry.stages
        assert TORCH in entry.dialects  # whatever else it trains

    def test_its_version_begins_with_its_name_and_threads_are_as_asked(
        self, runtime: Runtime
    ) -> None:
        version, threads = runtime.apply(self.settings)
        assert version.split()[0] == self.name
        assert len(version.split()) == 2
        assert threads == 1

    def test_a_processor_that_is_not_there_is_one_line(self, runtime: Runtime) -> None:
        with pytest.raises(DeviceError) as caught:
            runtime.apply(Settings(runtime=self.name, accelerator="mps"))
        assert "\n" not in str(caught.value)

    def test_it_trains_the_reference(self, runtime: Runtime) -> None:
        trainer = runtime.trainer(REFERENCE, self.settings)
        trainer.step()
        step = trainer.stage("step")
        step(), step()
        runtime.synchronise(self.settings)

    def test_it_trains_models_that_torch_reads(self, runtime: Runtime) -> None:
        for model in self.models:
            layers = read(model, training=SMALL)
            runtime.trainer(Workload(layers), self.settings).step()
        runtime.synchronise(self.settings)

    def test_it_trains_the_variants_of_a_model(self, runtime: Runtime) -> None:
        """Their ends take and give gradients from outside, and may be frozen."""
        for isolation in plan_variants(read(self.models[0], training=SMALL)).isolations:
            widths = Widths({name: isolation.steps[name] * 2 for name in isolation.bounds})
            variant = isolate(isolation, widths)
            runtime.trainer(Workload(variant.layers), self.settings).step()

    def test_each_stage_runs_again_and_again(self, runtime: Runtime) -> None:
        for stage in runtime.stages:
            run = runtime.trainer(REFERENCE, self.settings).stage(stage)
            run(), run()

    def test_what_it_cannot_train_is_named_with_its_layer(self, runtime: Runtime) -> None:
        if self.untrainable is None:
            pytest.skip("it trains whatever can be read")
        layer, what = self.untrainable
        with pytest.raises(ModelError) as caught:
            runtime.trainer(Workload((layer,)), self.settings)
        assert what in str(caught.value)
        assert layer.name in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_layers_of_a_dialect_that_is_not_translated_are_refused(self) -> None:
        (layer, *_) = REFERENCE.layers
        refuse_foreign([layer], self.name)
        with pytest.raises(ModelError, match=r"convolution is a layer of nobody.*runtime nobody"):
            refuse_foreign([as_dialect(layer, "nobody")], self.name)

    def test_options_of_torch_are_said_of_torch_only(self) -> None:
        told = self.settings.told()
        said = [name for name in OPTIONS_OF_TORCH if name in told]
        assert said == (list(OPTIONS_OF_TORCH) if self.name == TORCH else [])
        assert told.get("runtime", TORCH) == self.name
        if self.name != TORCH:
            with pytest.raises(DeviceError, match=f"only torch has compile.*{self.name}"):
                replace(self.settings, compile=True)

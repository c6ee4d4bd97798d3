"""`ampere fleet join`: what a worker is told of the machine that it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from ampere.core.fingerprint import Fingerprint
from ampere.core.workloads import Settings
from ampere.devices import local
from ampere.integrations import dask, purses
from ampere.integrations.purses import MeteredPurse
from ampere.integrations.station import Station
from ampere.meters import registry
from cli.runner import run
from gates.worlds import HandMeter


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), Settings(threads=1)),
        (("--threads", 4), Settings(threads=4)),
        (("--threads", 2, "--accelerator", "cuda"), Settings(threads=2, accelerator="cuda")),
    ],
)
def test_threads_and_accelerator_are_those_of_the_purse_and_the_station(
    options: tuple[object, ...],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Settings] = []

    def open_purse(device: str, meter: str, settings: Settings) -> MeteredPurse:
        asked.append(settings)
        return MeteredPurse(HandMeter(), Fingerprint({}))

    def serve(station: Station, *_: object, **__: object) -> None:
        asked.append(station._settings)

    monkeypatch.setattr(purses, "open_purse", open_purse)
    monkeypatch.setattr(dask, "serve_station", serve)
    result = run("fleet", "join", "pi", "--keep", tmp_path / "pi", *options)
    assert result.exit_code == 0, result.output
    assert asked == [settings, settings]


def test_a_purse_of_this_machine_has_the_fingerprint_of_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Here:
        meter: ClassVar[dict[str, str]] = {"name": "fake"}

        def __init__(self, settings: Settings, *_: object) -> None:
            self.fingerprint = Fingerprint({"threads": str(settings.threads)})

        def __enter__(self) -> Here:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(local, "LocalDevice", Here)
    monkeypatch.setattr(registry, "open_meter", lambda name, **settings: HandMeter())
    purse = purses.open_purse("local", "auto", Settings(threads=4))
    assert purse.fingerprint.identity == {"threads": "4"}

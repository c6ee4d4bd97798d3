from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import energy_between
from ampere.meters.drivers import shelly as shelly_module
from ampere.meters.drivers.shelly import ShellyMeter
from ampere.meters.registry import open_meter, parse_meter

from .contract import MeterContract
from .plugs import GEN1, GEN2, PM1, Plug, gen1, gen2
from .windows import window_of


@pytest.fixture
def plug() -> Iterator[Plug]:
    plug = Plug()
    plug.answers[GEN2] = gen2(8.9)
    yield plug
    plug.stop()


class TestShelly(MeterContract):
    driver = ShellyMeter

    @pytest.fixture(autouse=True)
    def url(self, plug: Plug) -> None:
        self.plug = plug

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"url": self.plug.url, "period_s": 0.02}


@pytest.mark.parametrize(
    ("path", "answer"), [(GEN2, gen2(8.9)), (PM1, {"id": 0, "apower": 8.9}), (GEN1, gen1(8.9))]
)
def test_every_generation_is_asked_in_its_way(plug: Plug, path: str, answer: Any) -> None:
    plug.answers = {path: answer}
    meter = ShellyMeter(plug.url + "/", period_s=0.02)
    opened = len(plug.requests)

    def wait_for_its_thread() -> None:
        asked = len(plug.requests)
        while len(plug.requests) < asked + 3:
            time.sleep(0.005)

    window = window_of(meter, wait_for_its_thread)
    meter.close()
    assert window.energy_j == pytest.approx(8.9 * window.time_s)
    assert set(plug.requests[opened:]) == {path}


def test_switch_is_the_one_that_was_named(plug: Plug) -> None:
    plug.answers["/rpc/Switch.GetStatus?id=2"] = gen2(40, switch=2)
    meter = open_meter("shelly", url=plug.url, switch=2.0, period_s=0.02)
    assert isinstance(meter, ShellyMeter)
    assert meter.power_w() == 40
    meter.close()


def test_idle_power_is_subtracted(plug: Plug) -> None:
    meter = ShellyMeter(plug.url, period_s=0.02, idle_w=8.0)
    window = window_of(meter, 0.05)
    meter.close()
    assert window.energy_j == pytest.approx(0.9 * window.time_s)


@pytest.mark.parametrize("answer", [gen1(50.0, valid=False), gen1(None), gen1(0.0), gen1(-3.0)])
def test_plug_that_does_not_know_is_a_fault_after_a_while(plug: Plug, answer: Any) -> None:
    plug.answers = {GEN1: gen1(50.0)}
    meter = ShellyMeter(plug.url, period_s=0.005)
    plug.answers[GEN1] = answer
    time.sleep(0.15)
    with pytest.raises(MeterFault, match="nothing usable"):
        meter.read()
    meter.close()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"hello", b'"8.9"', b"\xff\xfe\x00", b"{" * 5, b"[" * 60_000, b"1" * 400]
)
def test_what_is_no_object_is_refused(plug: Plug, body: bytes) -> None:
    plug.answers[GEN2] = body
    with pytest.raises(MeterError, match=r"http://127.0.0.1:\d+ answers .* is it a Shelly\?"):
        ShellyMeter(plug.url)


@pytest.mark.parametrize("watts", ["8.9", True, [8.9], {}])
def test_field_that_is_no_number_is_refused(plug: Plug, watts: Any) -> None:
    plug.answers[GEN2] = gen2(watts)
    meter = ShellyMeter(plug.url, period_s=60.0)
    with pytest.raises(MeterError, match=r"Switch.GetStatus\?id=0 shows .*, not watts"):
        meter.read()
    plug.answers[GEN2] = gen2(5)
    assert 0 <= meter.read().energy_j < 1
    meter.close()


def test_plug_without_a_power_meter_is_refused(plug: Plug) -> None:
    plug.answers = {GEN2: {"id": 0, "source": "init", "output": False}}
    with pytest.raises(MeterError, match="no Shelly that measures the power of switch 0"):
        ShellyMeter(plug.url)


def test_switch_that_is_not_there_is_told_in_the_words_of_the_plug(plug: Plug) -> None:
    plug.status = 500
    plug.answers["/rpc/Switch.GetStatus?id=3"] = {
        "code": -105,
        "message": "Argument 'id', value 3 not found!",
    }
    with pytest.raises(MeterError, match=r"switch 3 .*value 3 not found!.*check url and switch"):
        ShellyMeter(plug.url, switch=3)


def test_password_is_told_to_be_turned_off(plug: Plug) -> None:
    plug.status = 401
    with pytest.raises(MeterError, match="wants a password; turn its authentication off"):
        ShellyMeter(plug.url)


def test_plug_that_went_away_is_told_and_recovers(plug: Plug) -> None:
    meter = ShellyMeter(plug.url, period_s=60.0)
    meter.read()
    plug.status, plug.answers[GEN2] = 503, {"code": 503, "message": "Resource unavailable"}
    with pytest.raises(MeterError, match="shows 'nothing', not watts"):
        meter.read()
    plug.status, plug.answers[GEN2] = 200, gen2(8.9)
    assert meter.read().energy_j > 0
    meter.close()


def test_nobody_there_is_one_clear_line(plug: Plug) -> None:
    plug.stop()
    with pytest.raises(MeterError, match=r"cannot be reached \(.*refused.*\); check url"):
        ShellyMeter(plug.url)


def test_slow_plug_is_a_fault(plug: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelly_module, "TIMEOUT_S", 0.05)
    plug.delay_s = 0.3
    with pytest.raises(MeterFault, match=r"did not answer within 0\.05 s"):
        ShellyMeter(plug.url)


DRIPS = {
    "a body that never comes": (b"HTTP/1.0 500 No\r\nContent-Length: 9\r\n\r\n", b""),
    "an error's body": (b"HTTP/1.0 500 No\r\n\r\n{", b" "),
    "a body": (b'HTTP/1.0 200 OK\r\n\r\n{"id": 0,', b" "),
    "a body whose end looks whole": (b'HTTP/1.0 200 OK\r\n\r\n{"id": 0, "apower": 1.5}', b" "),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "headers": (b"HTTP/1.0 200 OK\r\nServer: s", b"h"),
    "many headers": (b"HTTP/1.0 200 OK\r\n", b"a: b\r\n"),
    "status": (b"HTTP/1.0 20", b"0"),
    "wait a little": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("what", DRIPS)
def test_answer_that_drips_for_ever_is_given_up(
    plug: Plug, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The timeout of a socket begins anew with every byte."""
    monkeypatch.setattr(shelly_module, "TIMEOUT_S", 0.3)
    plug.drip = DRIPS[what]
    begin_s = time.perf_counter()
    with pytest.raises(MeterFault, match=r"did not answer within 0\.3 s"):
        ShellyMeter(plug.url)
    assert time.perf_counter() - begin_s < 1.5


def test_slow_error_does_not_end_the_sampling(plug: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    """The looks see a machine at rest; only the thread sees that it worked in between."""
    monkeypatch.setattr(shelly_module, "TIMEOUT_S", 0.1)
    meter = ShellyMeter(plug.url, period_s=0.05)
    plug.drip = DRIPS["a body that never comes"]
    asked = len(plug.requests)
    while len(plug.requests) < asked + 2:
        time.sleep(0.005)
    plug.drip, plug.answers[GEN2] = None, gen2(10.0)
    time.sleep(0.2)  # until the last of those is over
    with suppress(MeterFault):
        meter.read()

    def work() -> None:
        plug.answers[GEN2] = gen2(180.0)
        time.sleep(0.4)
        plug.answers[GEN2] = gen2(10.0)

    window = window_of(meter, work)
    meter.close()
    assert window.samples is not None
    assert window.samples >= 3
    assert window.power_w > 100


def test_plug_that_sends_elsewhere_is_not_followed(plug: Plug) -> None:
    other = Plug()
    other.answers[GEN2] = gen2(1.0)
    plug.status, plug.headers = 302, {"Location": other.url + GEN2}
    with pytest.raises(MeterError, match=r"sends us elsewhere \(302\); give that address"):
        ShellyMeter(plug.url)
    other.stop()
    assert other.requests == []


def test_endless_body_is_read_up_to_a_limit(plug: Plug) -> None:
    plug.answers[GEN2] = b'{"apower": 8.9, "more": "' + b"x" * 10_000_000
    with pytest.raises(MeterError, match="is it a Shelly"):
        ShellyMeter(plug.url)


def test_plug_behind_a_path_is_asked_there(plug: Plug) -> None:
    plug.answers = {"/plugs/3" + GEN2: gen2(8.9)}
    meter = ShellyMeter(plug.url + "/plugs/3/", period_s=60.0)
    assert meter.power_w() == 8.9
    assert set(plug.requests) == {"/plugs/3" + GEN2}
    meter.close()


def test_port_that_never_shakes_hands_is_a_fault(
    plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelly_module, "TIMEOUT_S", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(MeterFault, match=r"did not answer within 0\.2 s"),
    ):
        ShellyMeter(f"https://127.0.0.1:{silent.getsockname()[1]}")
    with pytest.raises(MeterError, match=r"cannot be reached \(.*SSL"):
        ShellyMeter(plug.url.replace("http://", "https://"))


def test_single_silence_is_bridged(plug: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = ShellyMeter(plug.url, period_s=60.0)
    before = meter.read()
    monkeypatch.setattr(shelly_module, "TIMEOUT_S", 0.05)
    plug.delay_s = 0.3
    window = energy_between(before, meter.read())
    meter.close()
    assert window.energy_j == pytest.approx(8.9 * window.time_s)


def test_proxies_are_not_asked(plug: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    meter = ShellyMeter(plug.url)
    assert meter.power_w() == 8.9
    meter.close()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"url": "10.0.0.2"}, "url=10.0.0.2 must begin with http://"),
        ({"url": 10.0}, "must begin with http://"),
        ({"url": "http://10.0.0.2:plug"}, "cannot be reached"),
        ({"url": "http://bad host/"}, "cannot be reached"),
        ({"url": "http://"}, "must begin with http://"),
        ({"url": "https:///plug"}, "must begin with http://"),
        ({"url": "http://user:secret@10.0.0.2"}, "cannot be reached"),
        ({"url": "http://plüg\0"}, "cannot be reached"),
        ({"url": "http://127.0.0.1:1/a b"}, "cannot be reached"),
        ({"switch": -1.0}, "switch=-1.0 must be 0, 1, 2"),
        ({"switch": 0.5}, "switch=0.5 must be 0, 1, 2"),
        ({"switch": "left"}, "switch=left must be 0, 1, 2"),
        ({"period_s": 0.0}, "period_s=0.0 must be above 0"),
        ({"idle_w": "two"}, "does not take"),
        ({"password": "secret"}, "its settings are: url, switch, period_s, idle_w"),
    ],
)
def test_wrong_settings_are_explained(
    plug: Plug, settings: dict[str, float | str], complaint: str
) -> None:
    with pytest.raises(MeterError, match=complaint):
        open_meter("shelly", **{"url": plug.url, **settings})


@pytest.mark.parametrize("url", ["http://10.0.0.2", "https://plug.lan:8443/a=b"])
def test_address_can_stand_on_the_command_line(url: str) -> None:
    name, options = parse_meter(f"shelly:url={url},switch=1")
    assert (name, options) == ("shelly", {"url": url, "switch": 1.0})


def test_obstacle_says_how_to_name_the_plug() -> None:
    advice = ShellyMeter.obstacle()
    assert advice is not None
    name, options = parse_meter(advice.rpartition(" ")[2])
    assert (name, list(options)) == ("shelly", ["url"])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.one_of(
        st.binary(max_size=40),
        json_values,
        json_values.map(gen2),
        st.dictionaries(st.sampled_from(["apower", "power", "is_valid", "message"]), json_values),
    ),
    st.sampled_from([GEN2, PM1, GEN1]),
    st.sampled_from([200, 404, 500]),
)
def test_any_answer_is_joules_or_one_clear_line(
    plug: Plug, answer: Any, path: str, status: int
) -> None:
    plug.answers, plug.status = {path: answer}, status
    try:
        meter = ShellyMeter(plug.url, period_s=60.0)
    except MeterError as error:
        assert "\n" not in str(error)
        return
    try:
        assert meter.read().energy_j >= 0
    except MeterError as error:
        assert "\n" not in str(error)
    finally:
        meter.close()

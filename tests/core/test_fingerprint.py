import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.fingerprint import (
    Fingerprint,
    changed_conditions,
    crowding,
    describe_device,
    local_fingerprint,
    refuse_to_mix,
)
from ampere.errors import DataError, FingerprintError

identities = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4)


def tree(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def here(tmp_path):
    def read(files=(), **settings):
        tree(tmp_path, dict(files))
        return local_fingerprint(settings, tmp_path / "proc", tmp_path / "sys")

    return read


@given(identities, identities)
def test_round_trip(identity, conditions):
    fingerprint = Fingerprint(identity, conditions)
    back = Fingerprint.from_json(fingerprint.to_json())
    assert (back, back.conditions, back.id) == (fingerprint, conditions, fingerprint.id)


@given(identities, identities)
def test_the_id_depends_on_the_identity_alone(one, other):
    assert (Fingerprint(one).id == Fingerprint(other).id) == (one == other)
    reordered = dict(reversed(one.items()))
    assert Fingerprint(one, {"host": "a"}).id == Fingerprint(reordered, {"host": "b"}).id
    assert re.fullmatch("[0-9a-f]{8}", Fingerprint(one).id)


def test_the_id_is_stable_between_versions():
    assert Fingerprint({"cores": "2", "machine": "x86_64"}).id == "86c92f9d"


@pytest.mark.parametrize("row", [None, 3, {}, {"identity": "x"}, {"identity": {}, "conditions": 1}])
def test_what_is_no_fingerprint_is_refused(row):
    with pytest.raises(DataError, match="must be an object"):
        Fingerprint.from_json(row)


@given(identities, identities)
def test_mixing_names_every_difference_and_nothing_else(ours, theirs):
    if ours == theirs:
        refuse_to_mix(Fingerprint(ours, {"host": "a"}), Fingerprint(theirs, {"host": "b"}))
        return
    with pytest.raises(FingerprintError) as caught:
        refuse_to_mix(Fingerprint(ours), Fingerprint(theirs))
    text = str(caught.value)
    for key in {*ours, *theirs}:
        here, there = ours.get(key, "not set"), theirs.get(key, "not set")
        assert (f"{key} is {here} here, {there} there" in text) or here == there
    assert text.count(" here, ") >= sum(ours.get(k) != theirs.get(k) for k in {*ours, *theirs})


def test_the_refusal_reads_well():
    ours = Fingerprint({"cores": "2", "memory": "4 GiB", "threads": "2"})
    theirs = Fingerprint({"cores": "8", "memory": "4 GiB", "amp": "on"})
    with pytest.raises(FingerprintError) as caught:
        refuse_to_mix(ours, theirs)
    assert str(caught.value) == (
        "measurements of different devices do not mix: cores is 2 here, 8 there;"
        " amp is not set here, on there; threads is 2 here, not set there:"
        " profile each device into a file of its own; --any-device (in Python"
        " any_device=True) mixes them all the same"
    )


@pytest.mark.parametrize(
    ("key", "before", "now", "text"),
    [
        ("clock_mhz", "2400", "1200", "the clock was 2400 MHz, now it is 1200 MHz"),
        ("clock_mhz", "2400", "2300", None),
        ("clock_mhz", "unknown", "2300", None),
        ("temperature_c", "40", "75", "the device was at 40 °C, now it is at 75 °C"),
        ("temperature_c", "40", "45", None),
        ("power_source", "mains", "battery", "the device ran on mains, now it runs on battery"),
        ("power_source", "unknown", "battery", None),
        ("host", "a", "b", None),
    ],
)
def test_changed_conditions(key, before, now, text):
    found = changed_conditions(Fingerprint({}, {key: before}), Fingerprint({}, {key: now}))
    assert found == ([text] if text else [])
    assert changed_conditions(Fingerprint({}), Fingerprint({}, {key: now})) == []


def test_all_changes_are_told():
    before = Fingerprint({}, {"clock_mhz": "3000", "temperature_c": "30", "power_source": "mains"})
    now = Fingerprint({}, {"clock_mhz": "1000", "temperature_c": "90", "power_source": "battery"})
    assert len(changed_conditions(before, now)) == 3
    assert changed_conditions(before, before) == []


def test_a_laptop(here):
    laptop = here(
        {
            "proc/cpuinfo": "processor : 0\nmodel name\t: Fast 9000\ncpu MHz\t: 1.0\n",
            "proc/meminfo": "MemTotal:       16211016 kB\nMemFree: 1 kB\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2000000\n",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3000400\n",
            "sys/firmware/acpi/platform_profile": "balanced\n",
            "sys/class/thermal/thermal_zone0/temp": "45600\n",
            "sys/class/thermal/thermal_zone1/temp": "-274000\n",
            "sys/class/power_supply/AC/type": "Mains\n",
            "sys/class/power_supply/AC/online": "1\n",
            "sys/class/power_supply/BAT0/type": "Battery\n",
            "sys/class/power_supply/BAT0/status": "Discharging\n",
        },
        threads="4",
    )
    assert laptop.identity["processor"] == "Fast 9000"
    assert laptop.identity["memory"] == "16 GiB"
    assert laptop.identity["power_mode"] == "powersave, balanced"
    assert laptop.identity["threads"] == "4"
    assert laptop.conditions["clock_mhz"] == "2500"
    assert laptop.conditions["temperature_c"] == "46"
    assert laptop.conditions["power_source"] == "mains"


def test_boards_that_share_a_processor_name_differ(here):
    board = here(
        {
            "proc/cpuinfo": "model name : ARMv7 Processor rev 3 (v7l)\n",
            "proc/device-tree/model": b"Raspberry Pi 4 Model B Rev 1.4\0",
        }
    )
    assert board.identity["processor"] == (
        "ARMv7 Processor rev 3 (v7l), Raspberry Pi 4 Model B Rev 1.4"
    )


def supply(name, **files):
    return {f"sys/class/power_supply/{name}/{key}": f"{value}\n" for key, value in files.items()}


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({}, "unknown"),
        (supply("AC", type="Mains", online=0), "unknown"),
        (supply("BAT0", type="Battery", status="Discharging"), "battery"),
        (supply("BAT0", type="Battery", status="Full"), "mains"),
        (supply("mouse", type="Battery", status="Discharging", scope="Device"), "unknown"),
        (
            {
                **supply("AC", type="Mains", online=0),
                **supply("BAT0", type="Battery", status="Discharging"),
            },
            "battery",
        ),
        (
            {
                **supply("battery", type="Battery", status="Charging"),
                **supply("usb", type="USB", online=1),
            },
            "mains",
        ),
    ],
)
def test_power_source(here, files, source):
    assert here(files).conditions["power_source"] == source


def test_clock_of_proc_where_sysfs_has_none(here):
    assert here({"proc/cpuinfo": "cpu MHz : 2445.4\ncpu MHz : 2444.6\n"}).conditions[
        "clock_mhz"
    ] == ("2445")


def test_an_empty_tree_is_described_all_the_same(here):
    fingerprint = here()
    assert fingerprint.identity["power_mode"] == "unknown"
    assert int(fingerprint.identity["cores"]) >= 1
    assert all(fingerprint.identity.values())
    unknown = {"clock_mhz", "temperature_c", "power_source", "physical_cores"}
    assert fingerprint.conditions.keys() == {*unknown, "host"}
    assert {fingerprint.conditions[name] for name in unknown} == {"unknown"}


@pytest.mark.parametrize(
    ("threads", "cores", "physical", "told"),
    [
        ("2", "1", "1", "2 threads share 1 core:"),
        ("4", "4", "2", "4 threads share 2 physical cores:"),
        ("2", "2", "2", None),
        ("1", "1", "1", None),
        ("2", "2", "unknown", None),
        ("many", "1", "1", None),
    ],
)
def test_threads_that_share_cores_are_told(threads, cores, physical, told):
    identity = {"threads": threads, "cores": cores}
    texts = crowding(Fingerprint(identity, {"physical_cores": physical}))
    assert [text.startswith(told or "-") for text in texts] == [True] * (told is not None)


def test_hyper_threads_are_one_core(here, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    topology = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    siblings = {topology.format(core): text for core, text in enumerate(["0,2", "1,3", "0,2"])}
    assert here(siblings).conditions["physical_cores"] == "2"


@given(noise=st.binary(max_size=40))
def test_odd_files_never_fail(tmp_path_factory, noise):
    root = tmp_path_factory.mktemp("odd")
    cpu = "sys/devices/system/cpu/cpu0/cpufreq"
    names = ["proc/cpuinfo", "proc/meminfo", f"{cpu}/scaling_governor", f"{cpu}/scaling_cur_freq"]
    names += ["sys/class/thermal/thermal_zone0/temp", "sys/class/power_supply/BAT0/type"]
    prefixes = {"proc/meminfo": b"MemTotal: ", "proc/cpuinfo": b"model name :\ncpu MHz : "}
    tree(root, {name: prefixes.get(name, b"") + noise for name in names})
    (root / "sys/class/power_supply/BAT0/status").mkdir()
    fingerprint = local_fingerprint({}, root / "proc", root / "sys")
    assert Fingerprint.from_json(fingerprint.to_json()) == fingerprint


def test_this_machine_is_the_same_twice():
    one, two = local_fingerprint({"threads": "2"}), local_fingerprint({"threads": "2"})
    refuse_to_mix(one, two)
    assert one.id == two.id != local_fingerprint({"threads": "1"}).id
    assert set(one.identity) == {
        *("machine", "processor", "cores", "memory", "system", "power_mode", "threads")
    }


def test_a_jetson_has_the_power_mode_of_nvpmodel(tmp_path):
    status = tmp_path / "lib" / "nvpmodel" / "status"
    status.parent.mkdir(parents=True)
    status.write_text("pmode:0002 fmode:quiet\n")
    found = local_fingerprint({}, proc=tmp_path, sysfs=tmp_path, var=tmp_path)
    assert found.identity["power_mode"] == "pmode:0002 fmode:quiet"


def test_a_device_in_a_few_words() -> None:
    identity = {"processor": "AMD EPYC", "cores": "2", "threads": "1", "framework": "torch 2.13.0"}
    here = Fingerprint(identity, {"host": "vm"})
    assert describe_device(here) == "vm, AMD EPYC, 2 cores, 1 thread, torch 2.13.0"
    assert describe_device(Fingerprint({**identity, "threads": "4"})).count("4 threads") == 1
    assert describe_device(Fingerprint({**identity, "device": "a phone"})) == "a phone"
    assert describe_device(Fingerprint({})) == "? cores, ? threads"

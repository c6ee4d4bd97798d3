"""Everything that ampere raises on purpose.

AmpereError                 anything below; the CLI prints it as one line and exits with 1
├── ModelError              a model that cannot be found, built, read or resized
├── MeterError              a meter that is absent, forbidden or talks nonsense
│   └── MeterFault          one reading that cannot be true; it is taken again
├── DeviceError             a device that cannot be reached or started
│   └── Busy                one that other work kept busy for too long to be measured
├── MeasurementFailed       one network could not be measured; profiling goes on
│   ├── OutOfMemory         it did not fit into the device's memory
│   ├── Crashed             the process that ran it ended
│   └── Hung                it did not answer in time
├── DataError               rows that cannot be read: missing fields, wrong types
│   ├── FaultyReading       numbers that cannot be true: zero or negative energy
│   └── ContradictoryRows   rows that together make joules which cannot be
├── JournalError            a profile file that is damaged, locked or from a newer version
├── FingerprintError        measurements of different devices are about to mix
├── MissingLibrary          a library that one of ampere's extras brings is not installed
├── NotCovered              a question that the profile's measurements cannot answer
└── Refused                 a job that will not fit into its budget, before it began
"""

from __future__ import annotations

LONGEST = 1000  # characters of a message; it may quote what a stranger wrote


class AmpereError(Exception):
    """Base of every error that ampere raises on purpose; its text is written for the user."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) <= LONGEST:
            return text
        half = LONGEST // 2 - 3
        return f"{text[:half]} ... {text[-half:]}"  # what to do stands at the end


class ModelError(AmpereError):
    """A model cannot be found, built, read or resized."""


class MeterError(AmpereError):
    """A meter is absent, forbidden, or returns readings that cannot be true."""


class MeterFault(MeterError):
    """One reading cannot be true (zero, negative, frozen, a gap): it is taken again."""


class DeviceError(AmpereError):
    """A device cannot be reached or started."""


class Busy(DeviceError):
    """A device does other work, and went on with it for longer than anybody waits."""


class MeasurementFailed(AmpereError):
    """One network could not be measured; the reason is told, profiling goes on."""


class OutOfMemory(MeasurementFailed):
    """A network did not fit into the device's memory, alone or beside others."""


class Crashed(MeasurementFailed):
    """The process that ran a network ended."""


class Hung(MeasurementFailed):
    """The process that ran a network did not answer in time."""


class DataError(AmpereError):
    """Rows cannot be read: missing fields, wrong types, unknown names."""


class FaultyReading(DataError):
    """A meter's number cannot be true: zero, negative or infinite energy or time."""


class ContradictoryRows(DataError):
    """Rows contradict each other: what they make of a network is negative, zero or no number."""


class JournalError(AmpereError):
    """A profile file is damaged, locked by another process, or from a newer version."""


class FingerprintError(AmpereError):
    """Measurements of different devices are about to mix."""


class MissingLibrary(AmpereError, ModuleNotFoundError):
    """A library is not installed; the message names the extra that brings it."""


class NotCovered(AmpereError):
    """The profile's measurements cannot answer this question."""


class Refused(AmpereError):
    """A job will not fit into its budget, as far as is known before it."""

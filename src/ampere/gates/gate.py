"""Gate: the watch over one training run, from its first step to its budget.

    gate = ampere.gate(model, (3, 32, 32), steps=2000, budget="2Wh", profile=profile)
    with gate:
        for batch in gate.steps(loader):
            train(batch)

       start            step step step ...                         finish
         │                │     look ─▶ ledger ─▶ judge              │
         ▼                ▼                         ▼                ▼
      outlook          a comparison             status ─▶ sinks     end

A step costs a comparison of two numbers; the meter is read at its own pace, more often only where
the budget comes near. The run ends while the next step, and saving it, still fit. Whatever goes
wrong in here is told once, and never ends the training by itself.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ampere.core import units
from ampere.core.boundary.fields import Fields
from ampere.core.types import Json
from ampere.errors import DataError, MeterError
from ampere.gates.forecast import Forecaster, Prior
from ampere.gates.judge import Judge
from ampere.gates.ledger import Ledger
from ampere.gates.odometer import Odometer
from ampere.gates.outlook import Outlook
from ampere.gates.sinks.base import Sink
from ampere.gates.story import End, Reason, Start, Status, Verdict, Watching, last_event, last_run
from ampere.gates.telling import Teller, say
from ampere.gates.terms import STOP, WARN, Terms
from ampere.meters.base import Meter, Provenance
from ampere.records.measurement import utc_now

TELL_S = 1.0
TELLINGS = 200.0  # statuses in as long as the run has lasted
LONGEST_TELL_S = 60.0
PATIENCE_S = 60.0  # with a meter that fails, where that shall end the run
AHEAD = 1.2  # times the seconds to the next look

T = TypeVar("T")


class Gate(Watching):
    """Counts the joules of a training run, forecasts them, and stops it inside its budget.

    Args:
        terms: What it may take.
        open_meter: Opens the meter when the run starts.
        prior: What a step was estimated to take.
        outlook: What was said before the run, if anything could be.
        start: What the story tells first: names, device, estimate by layer.
        sinks: Who is told.
        story: The file of the run, to hear of joules that a checkpoint does not know of.
        watch: Called with each line that a person should read.
        clock: Seconds while awake.
    """

    def __init__(
        self,
        terms: Terms,
        open_meter: Callable[[], Meter],
        *,
        prior: Prior | None = None,
        outlook: Outlook | None = None,
        start: Start | None = None,
        sinks: Sequence[Sink] = (),
        story: Path | None = None,
        watch: Callable[[str], None] = say,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.terms = terms
        self.outlook = outlook
        self.total_steps = terms.steps
        self.should_stop = False
        self.metered = False  # whether any joules were
        self.status: Status | None = None
        self.error: str | None = None
        self._open_meter = open_meter
        self._clock = clock
        self._ledger = Ledger(Forecaster(prior), terms.reserve_j)
        self._judge = Judge(terms, self._ledger)
        self._first = start or Start("", "", Provenance.MODELLED)
        self._provenance = self._first.provenance
        self._story = story
        self._teller = Teller(sinks, watch)
        self._run = self._first.run or secrets.token_hex(8)
        self._state = "new"
        self._verdict: Verdict | None = None
        self._exceeded = False
        self._outside: int | None = None  # the first step that was told from outside
        self._next_look_s = self._next_tell_s = -math.inf

    def start(self) -> None:
        """Open the meter and begin to count; after an end it goes on from there.

        Raises:
            Refused: The job will not fit, as far as is known before it.
            MeterError: There is no meter, and `on_error` is "stop".
            DataError: The budget is spent, or less than the meter can tell; or the folder has
                the story of another run.
        """
        if self._state == "running":
            return
        self._claim_story()
        if self.outlook is not None and not self.step_count:
            self.outlook.enforce(self.terms.on_refusal == WARN, self.note)
        try:
            odometer = Odometer(self._open_meter(), self._clock)
        except Exception as error:  # a driver may fail in any way
            if self.terms.on_error == STOP:
                raise MeterError(f"the run is not started: {error}") from error
            self._fail(f"there is no meter ({error})")
        else:
            self._refuse_coarse(odometer)
            self._provenance = odometer.provenance
            self._ledger.open(odometer, self._clock())
            self.metered = True
        self._state = "running"
        self._teller.start(self._begin())

    def step(self, count: int = 1) -> bool:
        """Count optimiser steps that have ended; False as soon as the run must stop."""
        if self._state != "running":
            self.start()
        now_s = self._clock()
        pause_s = self._ledger.step(now_s, count)
        if (now_s >= self._next_look_s or pause_s) and self._state == "running":
            self._guarded(lambda: self._watch(pause_s))
        return not self.should_stop

    def reach(self, step: int) -> None:
        """A training that is watched from outside, by `tick`, is at this step by its own count."""
        if self._outside is None:
            self._outside = step
            self._guarded(lambda: self._ledger.begin_at(step, self._clock()))
        elif step > self.step_count:
            self._ledger.step(self._clock(), step - self.step_count)

    def tick(self, ahead_s: float) -> bool:
        """Look at the meter between steps; False if the next seconds could exceed the budget."""
        self.start()
        if self._state == "running":
            self._guarded(lambda: self._watch(0.0, AHEAD * ahead_s))
        return not self.should_stop

    def steps(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches of an epoch; each counts as a step once it is done with."""
        self.start()
        with contextlib.suppress(TypeError):
            self._ledger.epoch_steps = len(batches)  # type: ignore[arg-type]
            if self.total_steps is None and self.terms.epochs is not None:
                self.set_steps(self._ledger.epoch_steps * self.terms.epochs)
        for batch in batches:
            if self.should_stop:
                return
            yield batch
            if not self.step():
                return

    @contextlib.contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Around saving: what it takes is kept in reserve for the next time."""
        with self._ledger.aside(self._clock):
            yield

    def finish(self, reason: Reason | None = None) -> None:
        """Tell the end and let go of the meter; may be called again."""
        if self._state != "running":
            return
        self._guarded(self._ledger.look)
        self._state = "ended"
        ended = reason or self._reason()
        if ended is Reason.BUDGET:
            self.note(self.resume_hint)
        self._guarded(self._tell)
        self._ledger.close()
        self._teller.end(
            End(
                time=utc_now(),
                reason=ended,
                step=self.step_count,
                spent_j=self.spent_j,
                provenance=self._provenance,
                elapsed_s=self._ledger.elapsed_s,
            )
        )

    def set_steps(self, steps: int) -> None:
        """How many steps the whole run has, where that is known only now."""
        self.total_steps = max(steps, self.step_count, 1)

    @property
    def provenance(self) -> Provenance:
        """Where its joules come from."""
        return self._provenance

    @property
    def power_w(self) -> float | None:
        """Watts at the last look."""
        return self._ledger.power_w

    @property
    def running(self) -> bool:
        """Whether it has been started, and not finished."""
        return self._state == "running"

    @property
    def spent_j(self) -> float:
        """Joules so far, those of earlier parts of a resumed run among them."""
        return self._ledger.spent_j

    @property
    def step_count(self) -> int:
        """Steps so far, those of earlier parts among them."""
        return self._ledger.step_count

    @property
    def resume_hint(self) -> str:
        """How to go on after a stop."""
        of = f" of {units.number(self.total_steps)}" if self.total_steps else ""
        at = f" at step {units.number(self.step_count)}{of}" if self.step_count else ""
        over_j = self.spent_j - (self.terms.budget_j or math.inf)
        over = f", {units.joules(over_j)} over" if over_j > 0 else ""
        return (
            f"stopped{at} with {units.joules(self.spent_j)} spent of"
            f" {self.terms.budget_text}{over}: to go on, give a larger budget and resume from the"
            " last checkpoint (its joules count on)"
        )

    def state_dict(self) -> dict[str, Json]:
        """What a checkpoint needs to hold, as plain data: joules that are spent stay spent."""
        if self._state == "running":
            self._guarded(self._ledger.look)
        return {
            **self._ledger.state(),
            "run": self._run,
            "provenance": self._provenance.value,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, before or after the start; what this very run spent stays.

        Raises:
            DataError: It is not what `state_dict` tells.
        """
        fields = Fields(state, "the gate's state")
        run = fields.text("run", most=100)
        spent_j, elapsed_s = self.spent_j, self._ledger.elapsed_s
        self._ledger.restore(fields, self._provenance)
        last = None if self._story is None else last_event(self._story, run)
        if run == self._run:  # back to an earlier step, in the same process or after `resume`
            self._ledger.keep(spent_j, elapsed_s)
        elif last is not None:
            self._ledger.count_lost(last.spent_j)
        self._run = run
        if self._state == "running":
            self._teller.start(self._begin())

    def resume(self) -> None:
        """Go on with the story in the run's folder, if there is one, where no checkpoint has it.

        Raises:
            DataError: There is no folder.
        """
        if self._story is None:
            raise DataError("nothing to resume: give the folder of the run")
        last = last_event(self._story)
        if last is None:
            self.note(f"nothing to resume, so it begins anew: there is no {self._story}")
            return
        self._run = last_run(self._story)
        self._ledger.count_before(last.step, last.spent_j)
        self.note(f"goes on at step {units.number(last.step)}, {units.joules(last.spent_j)} spent")

    def _claim_story(self) -> None:
        """Refuse to mix two runs in one file, and to begin what is spent already."""
        if self._story is not None:
            last_event(self._story, self._run)
        if self.terms.budget_j is not None and self.spent_j >= self.terms.budget_j:
            raise DataError(
                f"{units.joules(self.spent_j)} of this run are spent already, its budget is"
                f" {self.terms.budget_text}: give a larger one"
            )

    def _watch(self, pause_s: float, ahead_s: float | None = None) -> None:
        """One look at the meter: judge what comes next, tell, decide when to look again."""
        self._ledger.look(pause_s)
        for note in self._ledger.notes:
            self.note(note)
        self._ledger.notes.clear()
        if self.terms.on_error == STOP and self._ledger.failing_s > PATIENCE_S:
            self._fail(f"the meter has failed for {units.seconds(self._ledger.failing_s)}")
        if not self._exceeded and self._judge.must_stop(self._steps_left(), ahead_s):
            self._exceed()
        now_s = self._clock()
        self._next_look_s = now_s + self._judge.next_look_s()
        if now_s >= self._next_tell_s or self._teller.waiting or self.should_stop:
            self._tell()

    def _exceed(self) -> None:
        """The next step could exceed the budget."""
        self._exceeded = True
        exceed = self.terms.on_exceed
        if exceed == WARN:
            self.note(f"{self._spent_text}; training goes on, as configured")
            return
        self.should_stop = True
        if callable(exceed):
            try:
                self.should_stop = exceed(self) is not False
            except Exception as error:  # whatever a user's function does
                self.note(f"on_exceed failed ({error!r}): training stops")
        if not self.should_stop:
            self.note(f"{self._spent_text}; training goes on, as on_exceed has decided")

    @property
    def _spent_text(self) -> str:
        at = units.number(self.step_count)
        return f"the budget of {self.terms.budget_text} is spent at step {at}"

    def _steps_left(self) -> int | None:
        return None if self.total_steps is None else max(0, self.total_steps - self.step_count)

    def _begin(self) -> Start:
        return replace(
            self._first,
            run=self._run,
            time=utc_now(),
            provenance=self._provenance,
            steps=self.total_steps,
            budget=self.terms.budget,
            budget_j=self.terms.budget_j,
            confidence=self.terms.confidence,
            step=self.step_count,
            spent_j=self.spent_j,
        )

    def _tell(self) -> None:
        status = self._judge.status(self._first, self.total_steps, self._exceeded)
        if status.verdict is Verdict.OVER and self._verdict is not status.verdict:
            self._say_how_far(status)
        self._verdict = status.verdict
        provenance, notes = self._provenance, self._teller.taken()
        self.status = replace(status, provenance=provenance, notes=notes)
        self._teller.status(self.status)
        pause_s = min(LONGEST_TELL_S, max(TELL_S, self._ledger.elapsed_s / TELLINGS))
        self._next_tell_s = self._clock() + pause_s

    def _say_how_far(self, status: Status) -> None:
        if status.stops_at is not None:
            self.note(
                f"it will not fit: the budget of {self.terms.budget_text} lasts to about step"
                f" {units.number(status.stops_at)} of"
                f" {units.number(self.total_steps or status.stops_at)}"
            )

    def _reason(self) -> Reason:
        if self._exceeded and self.should_stop:
            return Reason.BUDGET
        if self.error is not None and self.should_stop:
            return Reason.FAILED
        return Reason.LEFT if self._steps_left() else Reason.FINISHED

    def note(self, text: str) -> None:
        """A line for people: said, and told with the next status."""
        self._teller.note(text)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Our own mistake is no reason to lose a day of training."""
        try:
            work()
        except Exception as error:
            self._fail(f"watching failed ({error!r})")

    def _fail(self, reason: str) -> None:
        """Metering is over; training goes on unless it was asked to stop then."""
        if self.error is not None:
            return
        self.error = reason
        self._ledger.close()
        stops = self.terms.on_error == STOP
        self.note(f"{reason}: training {'stops' if stops else 'goes on, and nobody watches it'}")
        self.should_stop = self.should_stop or stops

    def _refuse_coarse(self, odometer: Odometer) -> None:
        """A budget below what the meter can tell cannot be held."""
        if self.terms.budget_j is None or self.terms.budget_j >= 2 * odometer.least_j:
            return
        odometer.close()
        raise DataError(
            f"a budget of {self.terms.budget_text} is less than the meter {odometer.meter} can tell"
            f" (steps of {units.joules(odometer.least_j)}): give a larger one, or another meter"
        )

"""Attendance: the book of a federation's rounds: who is there, what they quoted, who took part.

    met ──ask──▶ quoted ──invite──▶ answered ──▶ quoted anew
     ▲  no answer │                 │ no answer
     └─── rests ◀─┴─────────────────┘    2, 4, 8, ... rounds: each silence doubles it

Clients come and go between rounds; whoever comes back under the same name is known still. What a
client may have spent since its last quote is taken off its battery until it quotes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.rounds import Candidate, Choice, Invitation, Terms, choose
from ampere.profiles.jobs.job import MOST_J

LONGEST_REST = 64  # rounds
FORGOTTEN_AFTER = 200  # rounds without a sign


@dataclass(frozen=True)
class Round:
    """What became of one round: who was asked, and whose work came back."""

    number: int
    invitations: tuple[Invitation, ...]
    answered: tuple[int, ...]
    refusals: Mapping[int, str]

    @property
    def dropped(self) -> tuple[int, ...]:
        """Who was asked and did not come back."""
        invited = (each.name for each in self.invitations)
        return tuple(name for name in invited if name not in self.answered)


@dataclass
class Entry:
    """What is known of one client."""

    came: int  # in this round
    seen: int
    last: int  # round in which it took part, or before which it came
    quote: Quote | None = None
    quoted: int = 0  # in this round
    owed_j: float = 0.0  # what it may have spent since
    taken: int = 0
    silences: int = 0  # one after the other
    rests_until: int = 0


class Attendance:
    """Who is there, and who took part.

    Args:
        terms: How clients are chosen.
        quotes_last: Rounds after which a client that could not afford one is asked again. All
            others tell by themselves, since their turn comes.
    """

    def __init__(self, terms: Terms, quotes_last: int = 5) -> None:
        self.terms = terms
        self.quotes_last = quotes_last
        self.round = 0
        self.spent_j = 0.0  # what clients said that their rounds took
        self.entries: dict[int, Entry] = {}
        self._here: frozenset[int] = frozenset()
        self.history: list[Round] = []
        self._choice = Choice(())
        self._awaited: set[int] = set()

    def open_round(self, number: int, here: Iterable[int]) -> None:
        """These clients are there now."""
        self.round, self._here = number, frozenset(here)
        for name in self._here:
            entry = self.entries.setdefault(name, Entry(number, number, number - 1))
            entry.seen = number
        for name in [n for n, e in self.entries.items() if number - e.seen > FORGOTTEN_AFTER]:
            del self.entries[name]

    def to_ask(self) -> list[int]:
        """Who is there, does not rest, and has told nothing, or that it had too little."""
        refused = choose(self.candidates(), self.terms).refusals
        return [
            name
            for name in sorted(self._here)
            if not self._rests(name) and self._is_stale(self.entries[name], name in refused)
        ]

    def _is_stale(self, entry: Entry, refused: bool) -> bool:
        return entry.quote is None or (refused and self.round - entry.quoted >= self.quotes_last)

    def _rests(self, name: int) -> bool:
        return self.entries[name].rests_until > self.round

    def told(self, name: int, quote: Quote) -> None:
        """A client quoted: from now on that counts."""
        entry = self.entries[name]
        entry.quote, entry.quoted, entry.owed_j = quote, self.round, 0.0
        entry.silences = entry.rests_until = 0

    def silent(self, name: int) -> None:
        """A client did not answer, or not in earnest: it rests, each time twice as long."""
        entry = self.entries[name]
        entry.silences += 1
        entry.rests_until = self.round + 1 + min(2**entry.silences, LONGEST_REST)

    def candidates(self) -> list[Candidate]:
        """Who could train in this round."""
        return [
            self._candidate(name, entry, entry.quote)
            for name in sorted(self._here)
            if (entry := self.entries[name]).quote is not None and not self._rests(name)
        ]

    def _candidate(self, name: int, entry: Entry, quote: Quote) -> Candidate:
        return Candidate(
            name,
            quote,
            quote.usable_j - entry.owed_j,
            waited=self.round - 1 - entry.last,
            taken=entry.taken,
            known=self.round - entry.came + 1,
        )

    def able(self) -> list[int]:
        """Who could train in this round, whoever is chosen."""
        candidates = self.candidates()
        refusals = choose(candidates, self.terms).refusals
        return [each.name for each in candidates if each.name not in refusals]

    def choose(self) -> Choice:
        """Who trains in this round; it is noted."""
        choice = choose(self.candidates(), self.terms)
        self._choice = choice
        self._awaited = {each.name for each in choice.invitations}
        for invitation in choice.invitations:
            entry = self.entries[invitation.name]
            entry.last, entry.taken = self.round, entry.taken + 1
            entry.owed_j = _sum_j(entry.owed_j, invitation.energy_j_bound)
        return choice

    def awaits(self, name: int) -> bool:
        """Whether a client was asked to train in this round, and has not answered yet."""
        return name in self._awaited

    def answered(self, name: int, quote: Quote | None) -> None:
        """The work of a client came back, with a quote if it has told anew."""
        self._awaited.remove(name)
        self.entries[name].silences = 0
        if quote is not None:
            self.told(name, quote)
            self.spent_j = _sum_j(self.spent_j, quote.spent_j)

    def close_round(self) -> Round:
        """Whoever has not answered by now is silent."""
        silent = sorted(self._awaited)
        for name in silent:
            self.silent(name)
        self._awaited = set()
        invitations = self._choice.invitations
        answered = tuple(each.name for each in invitations if each.name not in silent)
        done = Round(self.round, invitations, answered, self._choice.refusals)
        self._choice = Choice(())
        self.history.append(done)
        return done

    def entry(self, name: int) -> Entry:
        """What is known of a client."""
        return self.entries[name]


def _sum_j(before_j: float, more_j: float | None) -> float:
    """No more than a register takes: each client may say that much by itself."""
    return min(MOST_J, before_j + (more_j or 0.0))

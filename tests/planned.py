"""A plan that has something of everything: batteries that are charged, rates, jobs at once."""

from __future__ import annotations

from ampere.fleet.plan import Assignment, Charge, Level, Plan, Standing, Unplaced
from ampere.meters.base import Provenance

HOUR_S = 3600.0


def an_assignment(
    job: str, member: str, start_h: float, end_h: float, energy_j: float, share: float = 1.0
) -> Assignment:
    return Assignment(
        job,
        member,
        start_h * HOUR_S,
        end_h * HOUR_S,
        steps=round(1000 * (end_h - start_h)),
        energy_j=energy_j,
        energy_j_interval=(0.9 * energy_j, 1.12 * energy_j),
        p_battery=0.974,
        p_deadline=0.938,
        share=share,
    )


def some_charges() -> tuple[Charge, ...]:
    """Of a battery that is charged between two jobs; what is not known grows."""
    rows = ((0.0, 57.6), (1.7, 33.0), (2.0, 33.0), (4.0, 70.0), (5.2, 70.0), (6.0, 58.0))
    return tuple(
        Charge(hour * HOUR_S, 1e3 * level, 1e3 * (level - hour), 1e3 * (level + hour))
        for hour, level in rows
    )


def made_up_plan(suffix: str = "") -> Plan:
    """Four devices, of which one has nothing to do; `suffix` is added to every text."""
    pi, box, phone, tablet = (f"{name}{suffix}" for name in ("pi", "server", "phone", "tablet"))
    carbon = tuple(Level(hour * HOUR_S, 40.0 + 31 * (hour % 3)) for hour in range(6))
    assignments = (
        an_assignment(f"digits{suffix}", pi, 0, 1.7, 24_600),
        an_assignment(f"speech{suffix}", box, 0, 3.2, 310_000),
        an_assignment(f"faces{suffix}", box, 0.5, 2.1, 190_000),
        an_assignment(f"keyboard{suffix}", phone, 1.0, 1.5, 3_100, share=0.62),
        an_assignment(f"gestures{suffix}", box, 2.2, 2.25, 4_000),
        an_assignment(f"birds, a model with a long name{suffix}", pi, 5.2, 6.0, 12_000),
    )
    standings = (
        Standing(
            pi,
            f"Raspberry Pi 5, 4 cores{suffix}",
            Provenance.SENSOR,
            36_600,
            (31_000, 42_500),
            p_battery=0.974,
            capacity_j=72_000,
            reserve_j=7_200,
            charges=some_charges(),
            carbon=carbon,
        ),
        Standing(
            box,
            f"EPYC, 2 threads{suffix}",
            Provenance.MODELLED,
            504_000,
            (450_000, 560_000),
            carbon=(Level(0.0, 56.0),),
            price=tuple(Level(hour * HOUR_S, 0.1 * (hour % 4) - 0.05) for hour in range(6)),
            currency="EUR",
        ),
        Standing(
            phone,
            f"simulated oppo{suffix}",
            Provenance.SIMULATED,
            3_100,
            (2_800, 3_500),
            p_battery=0.921,
            capacity_j=40_000,
            reserve_j=4_000,
            charges=(Charge(0, 9e3, 9e3, 9e3), Charge(5400, 5e3, 4.5e3, 5.5e3)),
            carbon=(Level(0.0, 56.0),),
        ),
        Standing(tablet, f"simulated tx2{suffix}", None, 0.0, (0.0, 0.0)),
    )
    unplaced = Unplaced(
        f"translate{suffix}",
        f"it takes 61.0 kJ on phone, of which 1.0 kJ are left above the reserve{suffix}",
        f"2,100 steps instead of 20,000 fit on phone{suffix}",
    )
    return Plan(
        begins="2026-11-18T05:00:00+00:00",
        assignments=assignments,
        unplaced=(unplaced,),
        standings=standings,
        objective=f"energy{suffix}",
        cost=543_700.0,
        bound=539_000.0,
        energy_j=543_700.0,
        bound_j=539_000.0,
        confidence=0.9,
        warnings=(f"pi: its profile is 210 days old{suffix}",),
    )

"""A profile, results and data of a stranger: an attack stands wherever a text may stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Layer, LayerKind
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.failure import Cause, Failure
from ampere.records.journal import Header
from ampere.records.measurement import Measurement
from fakes import HIDDEN, LAST, exact, plain_layer, plain_model

RUN = "document.title='run';window.ran=1"
NOWHERE = "http://127.0.0.1:9"
ATTACKS = (
    f"<script>{RUN}</script>",
    f"\"'><img src=x onerror={RUN}>",
    f"'\"><svg onload={RUN}><a xlink:href='javascript:{RUN}'>x</a></svg>",
    f"</title></style></script></svg><script>{RUN}</script>",
    f'<a href="javascript:{RUN}" onmouseover={RUN} style=position:fixed;inset:0>x</a>',
    f"]]><script>{RUN}</script><![CDATA[ --><!-- <!DOCTYPE x>",
    "{{7*7}} {% raw %} ${7*7} #{7*7} <%= 7*7 %> `7*7`",
    f"<meta http-equiv=refresh content=0;url={NOWHERE}><base href={NOWHERE}>",
    f"<link rel=stylesheet href={NOWHERE}><style>@import '{NOWHERE}';body{{display:none}}</style>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe><object data={NOWHERE}></object>",
    f"<form action={NOWHERE}><input autofocus onfocus={RUN}><button></form>",
    "\u202eright to left\u2066\x00\x1b[31m\r\n\t\u0085\u2028",
    "&lt;script&gt; &amp; &#60;b&#62;",
    "W" * 300,
)
TEXT = " ".join(ATTACKS)


def attack(field: str) -> str:
    """A text that names its field, and then attacks in every way."""
    return f"{field}§{TEXT}"


def hostile_layer(layer: Layer) -> Layer:
    kind = layer.kind
    named = LayerKind(
        name=f"{kind.name} {attack('kind')}",
        role=kind.role,
        operation=f"{kind.operation} {attack('operation')}",
        attributes={
            "batch": 10,
            "optimizer": attack("optimizer"),
            "loss": attack("loss"),
            attack("attribute"): attack("value"),
        },
    )
    return replace(layer, name=f"{layer.name} {attack('layer')}", kind=named)


def hostile_rows() -> Iterator[Measurement]:
    """Networks, single stages, a failure; enough of them to draw everything."""
    models = [plain_model(*widths) for widths in ((8, 16), (16, 8), (32, 32, 8), (5, 40))]
    models += [(plain_layer(LAST, in_=width),) for width in (1, 20, 40, 64)]
    models += [plain_model(width) for width in (1, 20, 40, 64)]
    models += [plain_model(a, b) for a in (1, 32, 64) for b in (1, 32, 64)]
    stage = exact((plain_layer(HIDDEN, in_=32, out=32),))
    rows = [exact(layers) for layers in models]
    rows += [replace(stage, stage=name) for name in ("forward", "backward", "update")]
    rows.append(
        replace(
            rows[0],
            energy_j_per_step=None,
            time_s_per_step=None,
            failed=Failure(attack("failed"), Cause.MEMORY),
        )
    )
    for row in rows:
        yield replace(
            row,
            layers=tuple(map(hostile_layer, row.layers)),
            provenance=Provenance.SIMULATED,
            when=attack("when"),
            device=attack("told"),
            cost_s=0.5,
        )


def hostile_profile() -> Profile:
    """What a stranger's file may say."""
    identity = {name: attack(name) for name in ("device", "host", "meter", "torch", "threads")}
    header = Header(
        Fingerprint(identity, {"governor": attack("governor")}),
        {"name": attack("meter"), "settings": {attack("setting"): attack("set")}},
        Provenance.SIMULATED,
        created=attack("created"),
        idle_w=1.5,
        model=attack("model"),
        note=attack("note"),
    )
    return Profile(tuple(hostile_rows()), header, notes=(attack("notes"),))


def with_texts(tree: Any, names: frozenset[str]) -> Any:
    """Plain data in which every text of one of these names attacks."""
    if isinstance(tree, dict):
        return {
            name: attack(name) if name in names and part else with_texts(part, names)
            for name, part in tree.items()
        }
    return [with_texts(part, names) for part in tree] if isinstance(tree, list) else tree

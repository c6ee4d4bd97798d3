"""History: what older journals say otherwise, put as it is said today.

Up to version 0.6 mixed precision was a setting of the device, so it stood in the fingerprint's
identity and not in the kinds of layers. Now it belongs to the training, and to the kind's name; the
device, which rows name by its identity's digest, has another name for that.

Up to version 0.16 FLOPs were those of torch's counter, which counts too many of grouped and
depthwise convolutions, and all calls of a layer had their part of the surplus. Sizes of calls tell
what is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Features, Layer, Work
from ampere.core.training import PLAIN, Training
from ampere.core.types import Json

AMP = "amp"
GROUPED = ("depthwise", "grouped convolution")
CONVOLUTIONS = ("convolution", *GROUPED)
SURPLUS = 1.02  # of FLOPs; less than that is how sizes of odd maps are rounded


def present_header(header: Json) -> Json:
    """A journal's first line with training settings no longer in the device's identity."""
    identity = _identity(header)
    if AMP not in identity:
        return header
    rest = {key: value for key, value in identity.items() if key != AMP}
    present = {**header, "device": {**header["device"], "identity": rest}}
    # The reference workload ran with mixed precision then, and does not now: another scale.
    return {**present, "reference": None} if identity[AMP] == "True" else present


def row_reader(header: Json) -> Callable[[Json], Json]:
    """What puts the rows below a journal's first line as they are said today.

    Those of the journal's own device name it by what its identity is now, and kinds of layers say
    whether they had mixed precision.
    """
    identity = _identity(header)
    if AMP not in identity:
        return lambda row: row
    was, is_now = (
        Fingerprint.from_json(each["device"]).id for each in (header, present_header(header))
    )

    def present(row: Json) -> Json:
        if not isinstance(row, Mapping) or not isinstance(row.get("layers"), list):
            return row
        row = {**row, "device": is_now} if row.get("device") == was else row
        if identity[AMP] != "True":
            return row
        return {**row, "layers": [_present_layer(layer) for layer in row["layers"]]}

    return present


def _present_layer(layer: Json) -> Json:
    if not isinstance(layer, Mapping) or not isinstance(layer.get("kind"), str):
        return layer
    now = f" {Training(amp=True).precision} "
    attributes = layer.get("attributes") or {}
    if not isinstance(attributes, Mapping):
        return layer  # whoever reads it will say so
    attributes = {**attributes, AMP: True}
    return {**layer, "kind": layer["kind"].replace(f" {PLAIN} ", now, 1), "attributes": attributes}


def recounted(layer: Layer) -> Layer:
    """A layer with the FLOPs that it has, where its calls show that too many were counted."""
    if not any(work.operation in GROUPED for work in layer.work):
        return layer
    sized = [(work, _flops_by_size(work)) for work in layer.work]
    told = math.fsum(work.count * (work.features.flops or 0.0) for work, flops in sized if flops)
    true = math.fsum(work.count * flops for work, flops in sized)
    if true <= 0 or told <= SURPLUS * true:
        return layer

    def right(features: Features) -> Features:
        flops = features.flops
        return features if flops is None else replace(features, flops=flops * true / told)

    work = tuple(replace(work, features=right(work.features)) for work in layer.work)
    return replace(layer, features=right(layer.features), work=work)


def _flops_by_size(work: Work) -> float:
    """What a call takes by its sizes; 0 of operations whose sizes do not say it."""
    usual = {"rows": 1, "kernel": 1, "stride": 1, "groups": 1, "passes": 0}
    told = [work.attributes.get(name, value) for name, value in usual.items()]
    numbers = [float(each) for each in told if isinstance(each, (int, float))]
    if work.operation not in (*CONVOLUTIONS, "linear") or len(numbers) < len(usual):
        return 0.0
    rows, kernel, stride, groups, passes = numbers
    widths = work.widths.get("in", 1) * work.widths.get("out", 1)
    return 2.0 * rows / max(stride, 1.0) * kernel * groups * widths * passes


def _identity(header: Json) -> Mapping[str, Any]:
    """What a header says of its device; nothing where it is damaged: its reader will say so."""
    device = header.get("device") if isinstance(header, Mapping) else None
    identity = device.get("identity") if isinstance(device, Mapping) else None
    return identity if isinstance(identity, Mapping) else {}

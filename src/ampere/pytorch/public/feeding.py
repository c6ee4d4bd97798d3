"""What a model of transformers is fed: its input and its labels, of sizes that it says itself.

Labels go in with the sample, so that the loss which trains the model is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ampere.core.inputs import Inputs, InputSpec
from ampere.errors import ModelError
from ampere.pytorch.public import tasks
from ampere.pytorch.public.tasks import Task

SEQUENCE = 128  # tokens, unless the model holds fewer
WAVE = 16_000  # samples of sound: a second of speech
FRAMES = 1000  # of a spectrogram: ten seconds
MOST_SEQUENCE = 10**9
_POSITIONS = ("max_position_embeddings", "max_target_positions")


def feed(task: Task, entry: str, config: Any, sequence: object) -> Inputs | None:
    """The inputs of a model, by name; None if nothing is known of what it takes.

    Args:
        task: What it is trained for: that decides over its labels.
        entry: What its first input is called, such as `input_ids`.
        config: Its configuration.
        sequence: How many tokens, or samples of sound, were asked for; None leaves that to it.

    Raises:
        ModelError: It cannot take so many.
    """
    if sequence is not None and (type(sequence) is not int or not 1 <= sequence <= MOST_SEQUENCE):
        raise ModelError(f"a sequence of {sequence!r:.100} cannot be trained: use 1 or more tokens")
    entered = _entry(entry, config, sequence)
    if entered is None:
        return None
    if sequence is not None and entry == "pixel_values":
        raise ModelError("a model of images has no sequence: leave it out, or say its image_size")
    named = {entry: entered}
    named.update(_labels(task, config, sequence))
    return Inputs((), tuple(named.items()))


def _entry(entry: str, config: Any, sequence: int | None) -> InputSpec | None:
    if entry == "input_ids":
        return _tokens(config, sequence)
    if entry == "pixel_values":
        size = _said(config, "image_size") or 224
        sides = (size, size) if isinstance(size, int) else tuple(_sides(size))
        return InputSpec((_said(config, "num_channels") or 3, *sides))
    bins, positions = _said(config, "num_mel_bins"), _said(config, "max_source_positions")
    if entry == "input_features" and bins and positions:  # Whisper: two frames a position
        return InputSpec((bins, 2 * positions))
    bins = bins or _said(config, "input_feat_per_channel")
    if bins:
        return InputSpec((sequence or _said(config, "max_length") or FRAMES, bins))
    return InputSpec((sequence or WAVE,)) if entry == "input_values" else None


def _sides(size: Any) -> list[int]:
    return list(size.values()) if isinstance(size, Mapping) else list(size)


def _labels(task: Task, config: Any, sequence: int | None) -> Iterator[tuple[str, InputSpec]]:
    classes = getattr(config, "num_labels", 0)
    if task.labels == tasks.TOKENS:
        yield "labels", _tokens(config, sequence)
    elif task.labels == tasks.A_CLASS and classes > 1:  # of one, they would be no classes
        yield "labels", InputSpec((1,), "int64", classes)
    elif task.labels == tasks.A_CLASS_EACH and classes > 1:
        yield "labels", InputSpec(_tokens(config, sequence).shape, "int64", classes)
    elif task.labels == tasks.A_SPAN:
        (length,) = _tokens(config, sequence).shape
        yield "start_positions", InputSpec((1,), "int64", length)
        yield "end_positions", InputSpec((1,), "int64", length)
    elif task.labels == tasks.NOTHING and getattr(config, "is_encoder_decoder", False):
        yield "decoder_input_ids", _tokens(config, sequence)


def _tokens(config: Any, sequence: int | None) -> InputSpec:
    text = config.get_text_config()
    vocabulary = _said(text, "vocab_size") or _said(config, "vocab_size")
    if not isinstance(vocabulary, int):
        raise ModelError(
            f"{config.model_type} does not say how many tokens it knows: give its input,"
            " e.g. 'input_ids=128:int64<1000'"
        )
    limits = [(name, getattr(text, name, None)) for name in _POSITIONS]
    for name, limit in limits:
        if isinstance(limit, int) and 0 < limit < (sequence or 0):
            raise ModelError(
                f"{config.model_type} takes {limit} tokens at most, not {sequence}: use a shorter"
                f" sequence, or a model with more, hf:{config.model_type}({name}={sequence})"
            )
    known = [limit for _, limit in limits if isinstance(limit, int) and limit > 0]
    return InputSpec((sequence or min([SEQUENCE, *known]),), "int64", vocabulary)


def _said(config: Any, name: str) -> Any:
    """What a configuration says, or else that of its eyes or ears."""
    parts = (config, *(getattr(config, part, None) for part in ("vision_config", "audio_config")))
    return next((found for part in parts if (found := getattr(part, name, None)) is not None), None)

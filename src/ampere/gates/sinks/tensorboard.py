"""TensorBoard: the numbers of a run as scalars, beside those of its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ampere.gates.sinks.base import facts, in_run, numbers, seconds
from ampere.gates.story import End, Start, Status


class TensorBoardSink:
    """RUN/tensorboard, or a folder of one's own: `tensorboard:dir=logs/a`."""

    name: ClassVar[str] = "tensorboard"
    library: ClassVar[str] = "TensorBoard"

    def __init__(self, run: Path | None, dir: str = "") -> None:
        import tensorboard  # noqa: F401  what is missing is said now

        self._folder = dir or str(in_run(run, "tensorboard"))
        self._writer: Any = None

    def start(self, start: Start) -> None:
        """The facts, as a text: what kind of joules they are, of which device and meter."""
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(self._folder)
        lines = [f"{name}: {value}" for name, value in facts(start).items() if value]
        self._write_text("ampere/run", "  \n".join(lines), start.step, start.time)

    def status(self, status: Status) -> None:
        """Scalars, at the step."""
        self._write(numbers(status), status.step, status.time)

    def end(self, end: End) -> None:
        """The last scalar, and why it ended."""
        try:
            self._write({"spent_j": end.spent_j}, end.step, end.time)
            self._write_text("ampere/end", end.reason.value, end.step, end.time)
        finally:
            self._writer.close()

    def _write(self, values: dict[str, float], step: int, time: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [
            Summary.Value(tag=f"ampere/{name}", simple_value=value)
            for name, value in values.items()
        ]
        event = Event(wall_time=seconds(time), step=step, summary=Summary(value=scalars))
        self._writer.add_event(event)
        self._writer.flush()  # a full disk is told here, not in a thread

    def _write_text(self, tag: str, text: str, step: int, time: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        plugin = SummaryMetadata.PluginData(plugin_name="text")
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype=DT_STRING, tensor_shape=shape, string_val=[text.encode()])
        value = Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor)
        summary = Summary(value=[value])
        self._writer.add_event(Event(wall_time=seconds(time), step=step, summary=summary))

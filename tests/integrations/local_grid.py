"""A grid in this process: an app's nodes one after the other, without SuperLink and SuperNodes.

    grid = LocalGrid(app, {1: {"partition-id": 0}, 2: {"partition-id": 1}})
    strategy.start(grid, arrays, num_rounds=3)

The same messages go to the same functions, in milliseconds instead of seconds. What an app raises
comes back as an error of node 1, as Flower has it for nodes that are dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

RUN = 1
SUPERLINK = 1  # the node that speaks for those that cannot
UNKNOWN = 0  # what went wrong


class LocalGrid(Grid):
    """Nodes of one app.

    Args:
        app: What all of them run.
        nodes: The number of each, and its `node_config`.
        online: Whether a node is there at present.
        run_config: Of the run.
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: Mapping[int, Mapping[str, Any]],
        online: Callable[[int], bool] = lambda node: True,
        run_config: Mapping[str, Any] | None = None,
    ) -> None:
        enter_task()
        self._app, self._online = app, online
        self.contexts = {
            node: Context(RUN, node, dict(settings), RecordDict(), dict(run_config or {}))
            for node, settings in nodes.items()
        }
        self.sent: list[Message] = []
        self.answered: list[Message] = []
        self._replies: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """There is one only."""

    @property
    def run(self) -> Any:
        """There is nothing to say of it."""
        raise NotImplementedError("a local grid has no run")

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """As Flower's."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Who is there."""
        return [node for node in self.contexts if self._online(node)]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Each is answered at once."""
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """What was answered, once."""
        return [self._replies.pop(each) for each in message_ids if each in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Replies to all of them."""
        return self.pull_messages(self.push_messages(messages))

    def _push(self, message: Message) -> str:
        self.sent.append(message)
        name = str(len(self.sent))
        message.metadata.__dict__["_run_id"] = RUN
        message.metadata.__dict__["_src_node_id"] = SUPERLINK
        message.metadata.__dict__["_message_id"] = name
        self._replies[name] = reply = self._answer(message)
        self.answered.append(reply)
        return name

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        try:
            if not self._online(node):
                raise ConnectionError(f"node {node} is not there")
            return self._app(message, self.contexts[node])
        except Exception as error:
            reply = Message(Error(UNKNOWN, repr(error)), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = SUPERLINK
            return reply


def enter_task() -> None:
    """Newer Flowers make messages only in a process that was told which task it is."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, RUN, SUPERLINK

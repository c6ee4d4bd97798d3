"""Tasks: what a model of transformers is trained for decides over its head and its labels.

Listed without torch. The order is that of preference: the first that a type of model has a head for
is what it is trained for, unless something else is said.
"""

from __future__ import annotations

from dataclasses import dataclass

from ampere.errors import ModelError

TOKENS, A_CLASS, A_CLASS_EACH, A_SPAN, NOTHING = "tokens", "class", "classes", "span", ""


@dataclass(frozen=True)
class Task:
    """One task: the class of transformers that has its heads, and what it takes as labels.

    Without labels there is no loss of the model's own, and ampere's loss trains what comes out.
    """

    name: str
    auto: str
    labels: str = NOTHING


TASKS = {
    task.name: task
    for task in (
        Task("speech-to-text", "AutoModelForSpeechSeq2Seq", TOKENS),
        Task("seq2seq", "AutoModelForSeq2SeqLM", TOKENS),
        Task("ctc", "AutoModelForCTC"),  # its own loss looks at the values of labels
        Task("masked-lm", "AutoModelForMaskedLM", TOKENS),
        Task("causal-lm", "AutoModelForCausalLM", TOKENS),
        Task("image-classification", "AutoModelForImageClassification", A_CLASS),
        Task("audio-classification", "AutoModelForAudioClassification", A_CLASS),
        Task("classification", "AutoModelForSequenceClassification", A_CLASS),
        Task("token-classification", "AutoModelForTokenClassification", A_CLASS_EACH),
        Task("question-answering", "AutoModelForQuestionAnswering", A_SPAN),
        Task("features", "AutoModel"),
    )
}


def find_task(name: object) -> Task:
    """The task of this name."""
    if not isinstance(name, str) or name not in TASKS:
        raise ModelError(f"there is no task {name!r:.100}: use one of {', '.join(TASKS)}")
    return TASKS[name]

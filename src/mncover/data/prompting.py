"""How texts become prompts for a language model, and how its answer is taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from mncover.errors import SettingsError
from mncover.types import Text, brief

Normalise = Literal["none", "length"]
Read = Literal["prompt", "answer", "both"]
NORMALISE: tuple[Normalise, ...] = get_args(Normalise)
READ: tuple[Read, ...] = get_args(Read)
MOST_TOKENS = 100_000  # of an answer
Judge = Callable[[Text, str, Any], bool | None]  # of a text, the answer to it, the case's label

_FIELD = re.compile(r"\{(text|text_a|text_b)\}")
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
_ESCAPED = re.compile(r"\\[nt\\]")


@dataclass(frozen=True, slots=True)
class Prompting:
    """How a language model is asked, and how it answers.

    - `template` has `{text}` where the text goes, or `{text_a}` and `{text_b}` for the two sides
      of a pair. Without it the text is the prompt.
    - `chat` makes it the user's message in the tokenizer's chat template.
    - `choices` are what the model may answer; it then classifies by their probabilities.
    - `normalise` "length" divides a choice's log-probability by its number of tokens.
    - `generate` lets the model answer with up to so many tokens, until one of `stop` comes.
    - `read` says where the inside is read when it answers: prompt, answer, or both.
    - `judge` is called with a text, the answer and the case's label, and returns whether that is
      right (None: no verdict), for tests whose expectation is `judge`. No file keeps it.

        Prompting(choices=["positive", "negative"], template="Review: {text} Sentiment:")
    """

    choices: Sequence[str] = ()
    template: str = ""
    chat: bool = False
    normalise: Normalise = "none"
    generate: int = 0
    stop: Sequence[str] = ()
    read: Read = "prompt"
    chat_digest: str = ""  # of the chat template, once the tokenizer is known
    judge: Judge | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("choices", "stop"):
            given: Any = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(one, str) for one in given):
                raise SettingsError(f"`{name}` must be a list of strings, got {brief(given)}.")
            object.__setattr__(self, name, tuple(given))
        if mistake := next(_mistakes(self), None):
            raise SettingsError(mistake)

    @property
    def plain(self) -> bool:
        """Whether texts are run as they are."""
        return self == Prompting()

    def filled(self, text: Text) -> str:
        """Return the template with a text in it, without the chat template."""
        pair = () if isinstance(text, str) else text
        if not self.template:
            return "\n".join(pair) if pair else str(text)
        given = {"text_a": pair[0], "text_b": pair[1]} if pair else {"text": str(text)}
        lacking = [name for name in _FIELD.findall(self.template) if name not in given]
        if lacking:
            has, needs = ("a pair", "{text_a} and {text_b}") if pair else ("one text", "{text}")
            raise SettingsError(
                f"the template has {{{lacking[0]}}}, but there is {has}: it needs {needs}."
            )
        return _FIELD.sub(lambda found: given[found[1]], self.template)

    def in_words(self) -> str:
        """Return what a report says of it; nothing if texts are run as they are."""
        chat = " in its chat template" * self.chat
        if self.choices:
            by = ", by tokens" * (self.normalise == "length")
            return f"classified by the choices {', '.join(self.choices)}{by}{chat}"
        if self.generate:
            return f"answers of up to {self.generate} tokens{chat}; inside of {_INSIDE[self.read]}"
        return "" if self.plain else f"prompts made by a template{chat}"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.compare}
        return {name: list(v) if type(v) is tuple else v for name, v in kept.items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Prompting:
        """Make it from what `to_json` returned; the value may come from a stranger."""
        if unknown := set(value) - {one.name for one in fields(cls) if one.compare}:
            raise SettingsError(f"prompts have no {brief(sorted(unknown)[0])}.")
        return cls(**value)


_INSIDE = {"prompt": "prompts", "answer": "answers", "both": "prompts and answers"}


def unescaped(text: str) -> str:
    r"""Return a text with line ends and tabs where `\n` and `\t` were typed.

    >>> unescaped(r"Review: {text}\nSentiment:").splitlines()
    ['Review: {text}', 'Sentiment:']
    """
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)


def _mistakes(p: Prompting) -> Iterator[str]:
    """Yield what is wrong; a check may rely on those before it."""
    if not isinstance(p.template, str) or type(p.chat) is not bool:
        yield f"`template` must be text and `chat` true or false, got {brief(p)}."
    if p.normalise not in NORMALISE:
        yield f"`normalise` must be one of {', '.join(NORMALISE)}, got {brief(p.normalise)}."
    if p.read not in READ:
        yield f"`read` must be one of {', '.join(READ)}, got {brief(p.read)}."
    if type(p.generate) is not int or not 0 <= p.generate <= MOST_TOKENS:
        yield f"`generate` must be a whole number up to {MOST_TOKENS}, got {brief(p.generate)}."
    yield from _template_mistakes(p.template)
    yield from _choice_mistakes(p.choices)
    yield from _needless(p)


def _template_mistakes(template: str) -> Iterator[str]:
    names = set(_FIELD.findall(template))
    if template and not names:
        yield "the template has no {text} (or {text_a} and {text_b} for pairs) to put a text in."
    if names and names != {"text"} and names != {"text_a", "text_b"}:
        yield "a template has either {text}, or both {text_a} and {text_b}."


def _choice_mistakes(choices: Sequence[str]) -> Iterator[str]:
    if any(not choice.strip() for choice in choices):
        yield "a choice is empty: give names with commas between them, such as positive,negative."
    if len(choices) == 1:
        yield f"there is only the choice {choices[0]!r}: give at least two."
    folded = [choice.strip().casefold() for choice in choices]
    if twice := [one for one, name in zip(choices, folded, strict=True) if folded.count(name) > 1]:
        yield f"the choice {twice[0]!r} is there twice; classes must differ in more than case."


def _needless(p: Prompting) -> Iterator[str]:
    """Yield settings that would do nothing."""
    if p.choices and p.generate:
        yield "`choices` and `generate` exclude each other: a model either chooses or answers."
    if p.normalise != "none" and not p.choices:
        yield "`normalise` is for `choices`, and there are none."
    if (p.stop or p.read != "prompt") and not p.generate:
        yield "`stop` and `read` are for answers: give `generate`, the most tokens of one."
    if p.judge is not None and not p.generate:
        yield "`judge` is for answers: give `generate`, the most tokens of one."
    if any(not one for one in p.stop):
        yield "a stop string is empty."

"""Reads logged samples of the lm-evaluation-harness, and JSON Lines of prompts with answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mncover.errors import TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.expectations import Expectation
from mncover.suites.formats.collecting import Collected
from mncover.suites.formats.jsonlines import read_json_lines

PROMPTS = ("prompt", "question", "input", "instruction", "text")
ANSWERS = ("answer", "expected", "ideal", "target", "reference", "output", "completion", "label")
_FINAL = re.compile(r"####\s*(-?[\d,.]+)\s*$")  # how GSM8K ends a solution
_PLAIN = re.compile(r"-?\d{0,100}\.?\d{1,100}", re.ASCII)


def is_samples(row: Any) -> bool:
    """Return whether a line is a logged sample of the harness."""
    return isinstance(row, dict) and {"doc_id", "arguments", "target"} <= row.keys()


def is_prompt(row: Any) -> bool:
    """Return whether a line is a prompt with the answer that is expected."""
    return isinstance(row, dict) and _first(row, PROMPTS) is not None


def collect_lines(path: Path) -> Collected:
    """Read samples or prompts, and name what does not map."""
    found = Collected()
    seen: set[str] = set()
    for number, row in read_json_lines(path):
        try:
            _add_line(row, found, seen)
        except TextError as error:
            raise TextError(f"{path}, line {number}: {error}") from None
    return found


def _add_line(row: Any, found: Collected, seen: set[str]) -> None:
    if is_samples(row):
        if (key := json.dumps([row["doc_id"], row["arguments"]])) not in seen:
            seen.add(key)  # a sample is logged once for each filter
            _add_sample(row, found)
    elif is_prompt(row):
        _add_prompt(row, found)
    else:
        raise TextError(f"no prompt in it; known fields are {', '.join(PROMPTS)}.")


def _add_sample(row: dict[str, Any], found: Collected) -> None:
    requests = list(_requests(row["arguments"]))
    prompt = requests[0][0] if requests else None
    if not isinstance(prompt, str) or any(one != prompt for one, _ in requests):
        found.leave_out("samples without one prompt")
        return
    behind = [more for _, more in requests]
    if all(isinstance(more, str) for more in behind) and len(behind) > 1:
        _add_choice(prompt, [more.strip() for more in behind], row["target"], found)
    elif isinstance(behind[0], dict) and len(behind) == 1:
        _add_answer(prompt, row["target"], found)
        if behind[0].get("until"):
            found.leave_out("texts to stop at, which `mncover run --stop` takes")
    else:
        found.leave_out("samples that are neither answers nor choices")


def _requests(arguments: Any) -> Iterator[tuple[Any, Any]]:
    """Yield prompt and what follows it: the options of an answer, or one of the choices."""
    each = list(arguments.values()) if isinstance(arguments, dict) else arguments
    for one in each if isinstance(each, list) else []:
        values = list(one.values()) if isinstance(one, dict) else one
        if isinstance(values, list) and len(values) > 1:
            yield values[0], values[1]
        else:
            yield None, None


def _add_choice(prompt: str, choices: Sequence[str], target: Any, found: Collected) -> None:
    """Add a case for `--choices`; all samples of a suite must have the same ones."""
    number = str(target)
    if re.fullmatch("[0-9]{1,9}", number) and int(number) < len(choices):
        right = int(number)
    elif target in choices:
        right = choices.index(target)
    else:
        found.leave_out("samples whose target is none of their choices")
        return
    if found.labels and found.labels != tuple(choices):
        found.leave_out("samples with choices of their own")
        return
    found.labels = tuple(choices)
    found.put(prompt, Expectation("label"), right)


def _add_answer(prompt: str, target: Any, found: Collected) -> None:
    targets = target if isinstance(target, list) else [target]
    if not targets or not all(type(one) in (str, int, float) for one in targets):
        found.leave_out("samples without an expected answer")
        return
    values = tuple(map(str, targets))
    end = _FINAL.search(values[0]) if len(values) == 1 else None
    number = end[1].replace(",", "").rstrip(".") if end else ""
    if _PLAIN.fullmatch(number):
        found.add(prompt, [AnswerExpectation("number", (number,))])
        return
    if any(not value.strip() for value in values):
        found.leave_out("samples without an expected answer")
        return
    found.add(prompt, [AnswerExpectation("contains", values, ignore_case=True)])


def _add_prompt(row: dict[str, Any], found: Collected) -> None:
    prompt = _first(row, PROMPTS)
    if isinstance(prompt, list):  # messages of a chat
        users = [one.get("content") for one in prompt if isinstance(one, dict)]
        prompt = users[0] if len(users) == len(prompt) == 1 else None
    if not isinstance(prompt, str):
        found.leave_out("prompts of several messages")
    else:
        _add_answer(prompt, _first(row, ANSWERS), found)


def _first(row: dict[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)

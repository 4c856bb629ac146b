"""Expressions that names match or not, after pytest's `-k`: parsed here, never evaluated as code.

    expression = term { "or" term }
    term       = factor { "and" factor }
    factor     = "not" factor | "(" expression ")" | words

Words match what has a name that contains them, whatever their case; several in a row, as in
`change names`, are one phrase. Quotes make words of what would be something else: `"this or that"`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from mncover.errors import SettingsError

Match = Callable[[Collection[str]], bool]  # of all names that one thing has

MOST_NESTED = 50  # parentheses and `not`, so that a hostile expression ends with an error
_TOKEN = re.compile(r"""\s*(?:([()])|"([^"]*)"|'([^']*)'|([^\s()"']+))""")
_OPERATORS = ("and", "or", "not")


def parse(expression: str) -> Match:
    """Return what tells whether something of the given names matches an expression.

    >>> matches = parse("names or not neg")
    >>> [name for name in ("Change names", "typos", "negation") if matches([name])]
    ['Change names', 'typos']
    """
    parser = _Parser(expression)
    found = parser.either(0)
    if parser.tokens:
        raise parser.error(f"{parser.tokens[0][1]!r} is not expected there")
    return found


class _Parser:
    """Takes an expression apart, one token after the other: its kind, and its text."""

    def __init__(self, expression: str) -> None:
        self.expression, self.tokens = expression, list[tuple[str, str]]()
        place, end = 0, len(expression.rstrip())
        while place < end:
            match = _TOKEN.match(expression, place)
            if match is None:
                raise self.error("a quote is not closed")
            sign, *quoted, word = match.groups()
            text = sign or word or next((one for one in quoted if one is not None), "")
            kind = sign or (word if word in _OPERATORS else "word")
            self.tokens.append((kind, text))
            place = match.end()

    def either(self, depth: int) -> Match:
        found = [self._both(depth)]
        while self._took("or"):
            found.append(self._both(depth))
        return lambda names: any(one(names) for one in found)

    def _both(self, depth: int) -> Match:
        found = [self._factor(depth)]
        while self._took("and"):
            found.append(self._factor(depth))
        return lambda names: all(one(names) for one in found)

    def _factor(self, depth: int) -> Match:
        if depth > MOST_NESTED:
            raise self.error("it is nested too deeply")
        if self._took("not"):
            inner = self._factor(depth + 1)
            return lambda names: not inner(names)
        if self._took("("):
            found = self.either(depth + 1)
            if not self._took(")"):
                raise self.error("a ')' is missing")
            return found
        return self._phrase()

    def _phrase(self) -> Match:
        words = []
        while self.tokens and self.tokens[0][0] == "word":
            words.append(self.tokens.pop(0)[1].casefold())
        phrase = " ".join(words)
        if not phrase.strip():
            what = f"before {self.tokens[0][1]!r}" if self.tokens else "at the end"
            raise self.error(f"a word is missing {what}")
        return lambda names: any(phrase in name.casefold() for name in names)

    def _took(self, kind: str) -> bool:
        """Take the next token if it is of a kind."""
        there = bool(self.tokens) and self.tokens[0][0] == kind
        if there:
            self.tokens.pop(0)
        return there

    def error(self, why: str) -> SettingsError:
        return SettingsError(
            f"-k {self.expression!r:.80}: {why}; an expression is words with and, or, not and ( )."
        )

"""What a suite is: tests with an expectation each, made of cases, made of texts. No torch here.

A case passes or fails as a whole. In a case of several texts the first is the original, the
others are its variants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from mncover.errors import TextError
from mncover.suites.expectations import Expectation
from mncover.texts import Text

Kind = Literal["MFT", "INV", "DIR"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The classes that are right: one, any of several, or none given.
Label = int | str | tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Case:
    """Texts that are judged together, and the right class, if the expectation needs one."""

    texts: tuple[Text, ...]
    label: Label = None


@dataclass(frozen=True, slots=True)
class Test:
    """A named list of cases with one expectation."""

    __test__: ClassVar[bool] = False  # for pytest, which takes the class for one of its own

    name: str
    kind: Kind
    expectation: Expectation
    cases: tuple[Case, ...]
    capability: str = ""
    description: str = ""

    @property
    def texts(self) -> int:
        """How many texts the test has."""
        return sum(len(case.texts) for case in self.cases)


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of tests; `labels` are the names of the classes that its labels are numbers of."""

    tests: tuple[Test, ...]
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        twice = [name for name, n in Counter(test.name for test in self.tests).items() if n > 1]
        if twice:
            raise TextError(f"two tests are called {twice[0]!r}.")

    def __getitem__(self, name: str) -> Test:
        for test in self.tests:
            if test.name == name:
                return test
        raise TextError(f"the suite has no test {name!r}.")

    @property
    def cases(self) -> int:
        """How many cases the suite has."""
        return sum(len(test.cases) for test in self.tests)

    @property
    def texts(self) -> int:
        """How many texts the suite has."""
        return sum(test.texts for test in self.tests)

    def each_text(self) -> Iterator[Text]:
        """Yield all texts in the suite's order."""
        for test in self.tests:
            for case in test.cases:
                yield from case.texts

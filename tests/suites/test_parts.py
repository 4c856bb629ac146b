"""Parts of a suite: expressions that names match, and samples that are fair."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.errors import SettingsError
from mncover.suites.expression import MOST_NESTED, parse
from mncover.suites.parts import Part, sample
from mncover.suites.rows import Rows
from tests.folders import suite_of

NAMES = ["words", "change names", "Intensifiers", "not or", "(odd)"]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("words", ["words"]),
        ("WORDS or intens", ["words", "Intensifiers"]),
        ("change names", ["change names"]),  # words in a row are a phrase
        ("names change", []),
        ("n and not s", ["not or"]),  # whole names are searched, whatever their case
        ("not words and not change", ["Intensifiers", "not or", "(odd)"]),
        ("words or change and intens", ["words"]),  # `and` binds more tightly
        ("(words or change) and r", ["words"]),
        ("not (words or change)", ["Intensifiers", "not or", "(odd)"]),
        ("not not words", ["words"]),
        ("'not or'", ["not or"]),
        ('"(odd)"', ["(odd)"]),
        ("__import__", []),  # nothing is code
    ],
)
def test_an_expression_matches_names(expression: str, found: list[str]) -> None:
    matches = parse(expression)
    assert [name for name in NAMES if matches([name])] == found


def test_every_name_of_a_thing_counts() -> None:
    assert parse("ner")(["change names", "NER"])
    assert not parse("not ner")(["change names", "NER"])


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "a word is missing at the end"),
        ("a and", "a word is missing at the end"),
        ("or a", "a word is missing before 'or'"),
        ("(a", r"a '\)' is missing"),
        ("a)", r"'\)' is not expected there"),
        ("a (b)", r"'\(' is not expected there"),
        ("'a", "a quote is not closed"),
        ("''", "a word is missing"),
        ("(" * 5000 + "a", "nested too deeply"),
        ("not " * 5000 + "a", "nested too deeply"),
    ],
)
def test_a_wrong_expression_is_refused(expression: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        parse(expression)


TREES = st.recursive(
    st.sampled_from("abc"),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    ),
    max_leaves=MOST_NESTED // 4,
)


@given(TREES, st.sets(st.sampled_from("abc")))
def test_an_expression_means_what_it_means_in_python(tree: object, has: set[str]) -> None:
    """The independent check: Python's own operators, on the same tree."""

    def written(node: object) -> str:
        if isinstance(node, str):
            return node
        assert isinstance(node, tuple)
        if node[0] == "not":
            return f"not ({written(node[1])})"
        return f"({written(node[1])}) {node[0]} ({written(node[2])})"

    code = written(tree)
    assert parse(code)(has) is eval(code, {}, {letter: letter in has for letter in "abc"})


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 2**40), st.floats(0, 1))
def test_a_sample_has_every_tests_share_rounded_up_or_down(
    sizes: list[int], seed: int, share: float
) -> None:
    tests = np.repeat(np.arange(len(sizes)), sizes)
    n = max(1, int(share * len(tests)))
    drawn = sample(tests, n, seed).tolist()
    assert len(drawn) == len(set(drawn)) == n
    assert drawn == sorted(drawn)  # the suite's order
    assert drawn == sample(tests, n, seed).tolist()
    taken = Counter(tests[drawn].tolist())
    for test, size in enumerate(sizes):
        exact = n * size / len(tests)
        assert abs(taken[test] - exact) < 1


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 2**40), st.floats(0, 1))
def test_a_sample_is_that_of_a_plain_loop(sizes: list[int], seed: int, share: float) -> None:
    tests = np.repeat(np.arange(len(sizes)), sizes).tolist()
    n = max(1, int(share * len(tests)))
    draw = random.Random(seed).random
    start = int(draw() * len(tests))
    keys = {case: (test, draw()) for case, test in enumerate(tests)}
    shuffled = sorted(range(len(tests)), key=keys.__getitem__)
    taken = {shuffled[(start + i * len(tests)) // n] for i in range(n)}
    assert sample(np.array(tests), n, seed).tolist() == sorted(taken)


def test_every_case_is_equally_likely_to_be_drawn() -> None:
    tests = np.repeat([0, 1], [17, 3])
    rounds, n = 4000, 7
    drawn = Counter(case for seed in range(rounds) for case in sample(tests, n, seed).tolist())
    expected = rounds * n / len(tests)
    spread = (rounds * n / len(tests) * (1 - n / len(tests))) ** 0.5
    assert all(abs(drawn[case] - expected) < 4.5 * spread for case in range(len(tests)))


def test_a_part_keeps_order_numbers_and_whole_cases() -> None:
    whole = Rows.of_suite(Path("suite.jsonl"), suite_of())
    part = Part(("change names", "words"), "not words").of(whole)
    assert set(part.contexts) == {"change names"}
    assert list(part.indices) == list(range(12, 42))
    assert list(part.cases) == [12 + i // 3 for i in range(30)]
    assert (part.whole, part.suite) == (62, whole.suite)
    assert part.chosen == "10 of 32 cases (--test change names, words; -k not words)"
    few = Part(limit=5, seed=3).of(whole)
    assert Counter(Counter(few.cases).values()) == Counter(
        len(case.texts)
        for test in suite_of().tests
        for case in test.cases
        if case.texts[0] in few.texts
    )
    assert [whole.texts[i] for i in few.indices] == few.texts
    assert (
        few.chosen
    ) == "5 of 32 cases (--limit 5: drawn at random, the same share of every test, seed 3)"


def test_what_takes_everything_is_the_whole() -> None:
    whole = Rows.of_suite(Path("suite.jsonl"), suite_of())
    for part in (Part(), Part(limit=32), Part(limit=99), Part(expression="e or w")):
        assert part.of(whole) is whole
    assert Part(("words",), limit=12).of(whole).chosen == "12 of 32 cases (--test words)"


def test_a_part_of_another_place_is_another_run() -> None:
    """The same texts, twice in the file: which of them were run matters."""
    rows = Rows.make(["a", "b", "a", "b"], ["x", "x", "y", "y"])
    one, other = Part(("x",)).of(rows), Part(("y",)).of(rows)
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint != Rows.make(["a", "b"], "x").fingerprint


def test_names_that_are_not_there_are_refused_with_those_that_are() -> None:
    whole = Rows.of_suite(Path("suite.jsonl"), suite_of())
    with pytest.raises(SettingsError, match="no test 'Wrods': did you mean 'words'"):
        Part(("Wrods",)).of(whole)
    known = "there are change names, intensifiers, words."
    with pytest.raises(SettingsError, match=f"-k 'xyz' matches no test: {known}"):
        Part(expression="xyz").of(whole)

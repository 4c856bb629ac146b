"""Gates on failing cases: limits, intervals, and counts that are those of the results."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.data.results import ContextResult, Result
from mncover.errors import SettingsError
from mncover.selection.gates import MaxFailing, check_failing, exceeds, max_failing_by_test


@pytest.mark.parametrize(
    ("text", "share", "number"),
    [
        ("5%", Fraction(1, 20), None),
        (" 0.7 % ", Fraction(7, 1000), None),
        ("0%", Fraction(0), None),
        ("100%", Fraction(1), None),
        ("12", None, 12),
        ("0", None, 0),
    ],
)
def test_a_limit_is_a_percentage_or_a_number(
    text: str, share: Fraction | None, number: int | None
) -> None:
    assert MaxFailing.parse(text) == MaxFailing(share, number)


@pytest.mark.parametrize("text", ["", "%", "-1", "101%", "5 cases", "1e3", "9" * 5000, "٣%"])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"a percentage \(5%\) or a number of cases \(12\)"):
        MaxFailing.parse(text)


def test_a_fraction_is_refused_because_it_could_mean_either() -> None:
    with pytest.raises(SettingsError, match=r"a percentage ends with %: got '0\.05'"):
        MaxFailing.parse("0.05")


@pytest.mark.parametrize(
    ("rate", "interval", "above"),
    [
        (0.04, None, False),
        (0.05, None, False),  # at the limit is within it
        (0.06, None, True),
        # An estimate is above only if all of its interval is.
        (0.06, (0.04, 0.09), False),
        (0.06, (0.05, 0.09), False),
        (0.09, (0.051, 0.13), True),
        (0.04, (0.01, 0.09), False),
    ],
)
def test_a_rate_exceeds_a_limit_and_an_estimate_by_its_interval(
    rate: float, interval: tuple[float, float] | None, above: bool
) -> None:
    assert exceeds(rate, Fraction(1, 20), interval) is above


def context(name: str, failing: int, judged: int, wrong: int = 0, labelled: int = 0) -> Any:
    """Return a context; its labelled texts are among the cases that are judged."""
    counts = {"failing": failing, "judged": judged, "wrong": wrong, "labelled": labelled}
    return ContextResult(name, 0, 0, 0, {}, None, None, None, **counts)


def result_of(*contexts: ContextResult) -> Result:
    return Result(cast(Any, None), {}, contexts, 0.01)


@given(st.integers(1, 10**6), st.data())
def test_a_percentage_is_exact(judged: int, data: st.DataObject) -> None:
    """As many tenths of a percent as can be written; in floating point some are off by one."""
    failing, tenths = data.draw(st.integers(0, judged)), data.draw(st.integers(0, 1000))
    limit = MaxFailing.parse(f"{tenths // 10}.{tenths % 10}%")
    (check,) = check_failing(result_of(context("t", failing, judged)), limit, {})
    assert check.holds == (failing * 1000 <= tenths * judged)


@given(st.integers(1, 100), st.data())
def test_a_number_is_compared_with_the_number_of_failing_cases(
    judged: int, data: st.DataObject
) -> None:
    failing, most = data.draw(st.integers(0, judged)), data.draw(st.integers(0, 120))
    limit = MaxFailing.parse(str(most))
    (check,) = check_failing(result_of(context("t", failing, judged)), limit, {})
    assert check.holds == (failing <= most)


def test_cases_of_tests_and_labelled_texts_count_alike_in_all_and_by_test() -> None:
    found = result_of(
        context("suite", 3, 10), context("texts", 2, 40, 2, 40), context("other", 0, 9)
    )
    by_test = max_failing_by_test(["suite=30%", "texts=1"], ["suite", "texts", "other"])
    checks = check_failing(found, MaxFailing.parse("8%"), by_test)
    assert [(one.gate, one.test, one.holds) for one in checks] == [
        ("--max-failing", "", False),  # 5 of 59
        ("--max-failing-test", "suite", True),
        ("--max-failing-test", "texts", False),
    ]
    assert checks[0].says == "5 of 59 cases fail (8.47 %), more than --max-failing 8%."
    assert checks[1].says == "suite: 3 of 10 cases fail (30.00 %), within --max-failing-test 30%."
    assert checks[2].says == "texts: 2 of 40 cases fail (5.00 %), more than --max-failing-test 1."


def test_a_gate_that_checks_nothing_does_not_hold() -> None:
    (check,) = check_failing(result_of(context("t", 0, 0)), MaxFailing.parse("100%"), {})
    assert not check.holds
    assert "no case is judged" in check.says


@pytest.mark.parametrize("given", ["negation", "negation=", "=5%"])
def test_a_tests_limit_has_a_form(given: str) -> None:
    with pytest.raises(SettingsError, match="NAME=5% or NAME=12"):
        max_failing_by_test([given], ["negation"])


def test_a_test_that_was_not_run_is_refused_and_a_name_may_have_any_sign() -> None:
    with pytest.raises(SettingsError, match="no test 'negaton': did you mean 'negation'"):
        max_failing_by_test(["negaton=5%"], ["negation", "typos"])
    assert max_failing_by_test(["a=b=5%"], ["a=b"]) == {"a=b": MaxFailing(Fraction(1, 20))}

"""Numbers computed from data, against sets built by hand."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from mncover.data.gains import novelty
from mncover.data.results import below, summarize
from mncover.data.store import CoverageData
from mncover.types import display_percent
from tests.engine.test_laws import POOL, fresh, slow_cover, slow_hits


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0.00"),
        (1.0, "100.00"),
        (0.5, "50.00"),
        # what is not nothing is not shown as nothing, what is not all not as all
        (1e-9, "0.01"),
        (1 - 1e-9, "99.99"),
        (0.12345, "12.35"),
    ],
)
def test_percentages_read_0_or_100_only_if_they_are(share: float, shown: str) -> None:
    assert display_percent(share) == shown


@pytest.mark.parametrize(
    ("share", "limit", "expected"),
    [(0.5, 50.0, False), (0.4999999, 50.0, True), (0.999999, 100.0, True), (1.0, 100.0, False)],
)
def test_below_compares_the_exact_share(share: float, limit: float, expected: bool) -> None:
    assert below(share, limit) is expected


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_adds_and_only_here_equal_set_differences(name: str) -> None:
    contexts = {"a": POOL[:8], "b": POOL[5:14], "c": POOL[12:20]}
    cov = fresh(name)
    for context, texts in contexts.items():
        cov.update(texts, context=context, gains=True)
    result = cov.result()
    hits = {c: set().union(*(slow_hits(name, t) for t in ts)) for c, ts in contexts.items()}
    total = result.word.total + result.attention.total
    before: set[object] = set()
    for found in result.contexts:
        others = set().union(*(h for c, h in hits.items() if c != found.name))
        assert found.cover * total == pytest.approx(len(hits[found.name]))
        assert found.adds * total == pytest.approx(len(hits[found.name] - before))
        assert found.only_here * total == pytest.approx(len(hits[found.name] - others))
        before |= hits[found.name]
    assert sum(found.adds for found in result.contexts) == pytest.approx(result.cover)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_results_do_not_depend_on_how_much_longer_texts_might_be(name: str) -> None:
    """Maps are cropped to the longest text; the slow way is not to."""
    for texts in (POOL[:3], POOL[:8]):
        data = fresh(name).update(texts, context=["a", *"b" * (len(texts) - 1)]).data
        cropped = summarize(data)
        assert 1 <= data.longest <= data.identity.settings.max_length
        with patch.object(CoverageData, "longest", data.identity.settings.max_length):
            assert summarize(data) == cropped


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_novelty_is_the_new_share_of_the_neurons_a_text_touches(name: str) -> None:
    from tests.slow import activations

    texts = [*POOL[:10], POOL[3]]
    data = fresh(name).update(texts, gains=True).data
    found = novelty(data)
    seen: set[object] = set()
    slow = slow_cover(name)
    for row, text in enumerate(texts):
        touched = len(activations(*slow.subject, text, slow.max_length))
        hits = slow_hits(name, text)
        assert found[row] == pytest.approx(len(hits - seen) / touched)
        seen |= hits
    assert found[-1] == 0
    for limit in (0.0, 0.05, 0.5):
        expected = int((found <= limit).sum())
        assert summarize(data, adds_little_at=limit).contexts[0].adds_little == expected


def test_what_adds_little_is_unknown_where_the_order_was_not_kept() -> None:
    data = fresh().update(POOL[:4]).data
    assert np.isnan(novelty(data)).all()
    assert summarize(data).contexts[0].adds_little is None


def test_nothing_measured_covers_nothing() -> None:
    result = fresh().result()
    assert result.cover == 0
    assert result.contexts == ()
    assert result.word.total == 3 * 10 * 16 * 10

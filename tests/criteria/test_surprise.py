"""Surprise: against scipy and scikit-learn, text by text and layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from scipy.stats import gaussian_kde
from sklearn.neighbors import NearestNeighbors

from mncover.coverage import Coverage
from mncover.engine.references import references_of
from mncover.engine.surprise import RIDGE
from mncover.errors import TextError
from mncover.types import fingerprint_texts
from tests import tiny
from tests.slow import states

TRAIN, TEXTS = tiny.texts(80, seed=1), tiny.texts(25, seed=2)
NAMES = ["lsc", "dsc:1.5", "mdsc"]


def means_of(texts: list[str]) -> list[Any]:
    """Return the mean states [texts, width] of each layer, from Hugging Face's own outputs."""
    subject = tiny.make("bert")
    every = [[h.double().mean(0).numpy() for h in states(*subject, t, 9)[0]] for t in texts]
    return [np.stack(layer) for layer in zip(*every, strict=True)]


def kde_surprise(train: Any, texts: Any) -> tuple[Any, Any]:
    """Return the surprises of texts, and of training texts with all others."""
    d = min(32, train.shape[1], len(train) // 2)
    order = np.argsort(-train.var(axis=0, ddof=1), kind="stable")[:d]
    some = train[:, order]

    def density(of: Any, bandwidth: Any, at: Any) -> Any:
        kde: Any = gaussian_kde(of.T)
        kde.covariance = bandwidth
        kde.cho_cov = np.linalg.cholesky(bandwidth)
        kde.log_det = 2 * np.log(np.diag(kde.cho_cov * np.sqrt(2 * np.pi))).sum()
        return kde.logpdf(at.T)

    covariance = gaussian_kde(some.T).covariance.copy()
    covariance += RIDGE * np.diag(covariance).mean() * np.eye(d)
    others = [
        -density(np.delete(some, i, axis=0), covariance, some[i : i + 1])[0]
        for i in range(len(some))
    ]
    return [-density(some, covariance, at[:, order]) for at in (texts, train)], np.array(others)


def neighbour_surprise(train: Any, texts: Any) -> tuple[Any, Any]:
    nearest = NearestNeighbors(n_neighbors=2).fit(train)
    apart = nearest.kneighbors(train)[0][:, 1]
    away, which = nearest.kneighbors(texts)
    alone, other = nearest.kneighbors(train)
    return [away[:, 0] / apart[which[:, 0]], np.zeros(len(train))], alone[:, 1] / apart[other[:, 1]]


def mahalanobis_surprise(train: Any, texts: Any) -> tuple[Any, Any]:
    covariance = np.cov(train.T)
    inverse = np.linalg.inv(
        covariance + RIDGE * np.diag(covariance).mean() * np.eye(len(covariance))
    )
    found = [
        np.array([mahalanobis(one, train.mean(axis=0), inverse) for one in some])
        for some in (texts, train)
    ]
    return found, found[1]


SLOW = {"lsc": kde_surprise, "dsc:1.5": neighbour_surprise, "mdsc": mahalanobis_surprise}


@pytest.mark.parametrize("positions", ["each", "mean"])
@pytest.mark.parametrize("kernels", ["cpu", "torch"])
def test_surprise_equals_scipy_and_scikit_learn(positions: str, kernels: str) -> None:
    options: Any = {"max_length": 9, "positions": positions, "kernels": kernels}
    cov = Coverage(*tiny.make("bert"), criteria=NAMES, **options).calibrate(TRAIN, cache=False)
    gains = {name: cov.gain(TEXTS, name) for name in NAMES}
    cov.update(TEXTS, gains=True)
    train, texts = means_of(list(dict.fromkeys(TRAIN))), means_of(TEXTS)
    for name, times in zip(NAMES, (2, 1.5, 2), strict=True):
        cells: list[set[tuple[int, int]]] = [set() for _ in TEXTS]
        for layer, (reference, mine) in enumerate(zip(train, texts, strict=True)):
            (found, own), others = SLOW[name](reference, mine)
            low = own.min()
            high = low + times * (others.max() - low)
            for text, value in enumerate(found):
                if low <= value <= high:
                    share = (value - low) / (high - low)
                    cells[text].add((layer, min(9, int(share * 10))))
        assert any(cells)
        tally = cov.result().criteria[name].tally
        assert tally.word.covered == len(set().union(*cells))
        assert tally.word.total == 10 * len(train)
        np.testing.assert_allclose(gains[name] * tally.word.total, [len(c) for c in cells])


def test_references_do_not_depend_on_order_nor_on_when_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mncover.engine.references.MOST", 30)
    taps = Coverage(*tiny.make("bert"), max_length=9).engine.taps
    find: Any = references_of
    what: Any = (taps, 9, None, lambda n: None)
    whole = find(TRAIN, *what, tmp_path / "x.means")
    assert [fingerprint_texts([t])[:32].encode() for t in TRAIN].count(whole.digests[0]) >= 1
    assert len(whole.digests) == 30
    again = find([], *what, tmp_path / "x.means")  # from the cache
    backwards = find(TRAIN[::-1], *what, None)
    parts = find(TRAIN[:50], *what, None).merge(find(TRAIN[40:], *what, None))
    for other in (again, backwards, parts):
        np.testing.assert_array_equal(whole.digests, other.digests)
        for one, two in zip(whole.means, other.means, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-6)
    (tmp_path / "x.means").write_bytes(b"damaged")
    assert len(find(TRAIN, *what, tmp_path / "x.means").digests) == 30


def test_too_few_texts_have_no_surprise() -> None:
    cov = Coverage(*tiny.make("bert"), max_length=9, criteria=["lsc"])
    with pytest.raises(TextError, match="at least 3 different calibration texts"):
        cov.calibrate(["good film", "bad film", "good film"], cache=False)

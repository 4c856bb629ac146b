"""The registry, and what holds for every transformation."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.augment.transforms import (
    PAPER,
    REGISTRY,
    Resources,
    Transform,
    apply,
    apply_many,
    transform,
)
from mncover.errors import SettingsError
from mncover.types import Text, joined, split_like
from tests.augment.material import LISTED, MARKUP, ORDINARY, PARTICLES, SEEDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transforms.md"


def test_the_papers_sixteen_come_first_and_in_their_order() -> None:
    assert len(PAPER) == 16
    assert PAPER[0] == "RandomSynonymInsertion"
    assert PAPER[-1] == "WordSwapWordNet"
    assert tuple(REGISTRY)[:16] == PAPER


# What a build with two registries made of this text: equal seeds must give equal variants for good.
GOLD_TEXT = "Anna isn't late: it is 1500 miles from Paris!"
GOLD = {
    "WordSwapChangeLocation": "Anna isn't late: it is 1500 miles from Detroit!",
    "WordSwapChangeName": "Julie isn't late: it is 1500 miles from Paris!",
    "WordSwapChangeNumber": "Anna isn't late: it is 1394 miles from Paris!",
    "WordSwapContract": "Anna isn't late: it's 1500 miles from Paris!",
    "WordSwapExtend": "Anna is not late: it is 1500 miles from Paris!",
    "WordSwapHomoglyphSwap": "Anna isn't late: it is 1500 mil\u0435s from Paris!",
    "WordSwapQWERTY": "Anna isn't late: it is 1500 milds from Paris!",
    "WordSwapNeighboringCharacterSwap": "Anna isn't late: it is 1500 miels from Paris!",
    "WordSwapRandomCharacterDeletion": "Anna isn't late: it is 1500 mils from Paris!",
    "WordSwapRandomCharacterInsertion": "Anna isn't late: it is 1500 mileus from Paris!",
    "WordSwapRandomCharacterSubstitution": "Anna isn't late: it is 1500 milqs from Paris!",
    "RandomSwap": "Anna isn't late: Paris is 1500 miles from it!",
    "typos": "Anna isn't late: it is 1500 miles form Paris!",
    "contractions": "Anna isn't late: it's 1500 miles from Paris!",
    "punctuation": "Anna isn't late: it is 1500 miles from Paris",
    "names": "Julie isn't late: it is 1500 miles from Paris!",
    "locations": "Anna isn't late: it is 1500 miles from Detroit!",
    "numbers": "Anna isn't late: it is 1605 miles from Paris!",
    "negation": "Anna is late: it is 1500 miles from Paris!",
    "urls_and_handles": "https://t.co/C3J27X Anna isn't late: it is 1500 miles from Paris!",
}


@pytest.mark.parametrize("name", GOLD)
def test_a_seed_gives_the_variant_that_it_always_gave(name: str) -> None:
    assert transform(name)(GOLD_TEXT, random.Random(11)) == GOLD[name]


@pytest.mark.parametrize("name", REGISTRY)
@given(particles=PARTICLES, seed=SEEDS)
def test_a_seed_decides_and_a_text_never_comes_back_unchanged(
    name: str, resources: Resources, particles: list[str], seed: int
) -> None:
    change, text = transform(name, resources), " ".join(particles)
    changed = change(text, random.Random(seed))
    assert changed == change(text, random.Random(seed))
    assert changed != text


@pytest.mark.parametrize("name", PAPER)
@given(particles=PARTICLES, seed=SEEDS)
def test_markup_stays_byte_for_byte(
    name: str, resources: Resources, particles: list[str], seed: int
) -> None:
    text = " ".join(particles)
    changed = transform(name, resources)(text, random.Random(seed)) or text
    found = re.compile("|".join(re.escape(token) for token in MARKUP))
    assert found.findall(changed) == found.findall(text)


@pytest.mark.parametrize("name", PAPER)
@given(left=PARTICLES, right=PARTICLES, seed=SEEDS)
def test_a_pair_stays_a_pair_and_only_lists_change_both_sides(
    name: str, resources: Resources, left: list[str], right: list[str], seed: int
) -> None:
    pair = (" ".join(left), " ".join(right))
    changed = apply(transform(name, resources), pair, random.Random(seed))
    if changed is None:
        return
    assert isinstance(changed, tuple)
    assert not any("\x1f" in side for side in changed)
    assert changed != pair
    if not name.startswith("WordSwapChange"):
        assert sum(old != new for old, new in zip(pair, changed, strict=True)) == 1


@pytest.mark.parametrize("name", REGISTRY)
@given(text=st.text(max_size=80), seed=st.integers(0, 100))
def test_any_text_is_changed_or_left_without_an_error(
    name: str, resources: Resources, text: str, seed: int
) -> None:
    change = transform(name, resources)
    changed = change(text, random.Random(seed))
    assert changed is None or isinstance(changed, str)
    assert changed != text
    assert apply(change, (text, text), random.Random(seed)) != (text, text)


BAD = [
    "",
    " ",
    "\n\t",
    "film",
    "x",
    "\U0001f600" * 9,
    "\ud800",
    "a\ud83dfilm \udc00",
    "1 2",
    "\x1f",
]
LONG = [
    "film " * 20_000,
    "x" * 100_000,
    "@" * 100_000,
    "<a" * 50_000,
    "Anna " * 20_000,
    "a-" * 50_000,
]


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("text", BAD + LONG, ids=range(len(BAD + LONG)))
def test_bad_and_very_long_texts_do_not_fail(name: str, resources: Resources, text: str) -> None:
    changed = transform(name, resources)(text, random.Random(3))
    assert changed is None or (changed and changed != text)


@pytest.mark.parametrize("name", REGISTRY)
def test_many_at_once_are_as_one_by_one(name: str, resources: Resources) -> None:
    rng = random.Random(5)
    texts = [
        " ".join(rng.choices(ORDINARY + LISTED + MARKUP, k=rng.randint(0, 15))) for _ in range(60)
    ]
    change = transform(name, resources)
    one_by_one = [change(text, random.Random(i)) for i, text in enumerate(texts)]
    assert change.many(texts, [random.Random(i) for i in range(60)]) == one_by_one
    assert any(one_by_one)


def every(resources: Resources) -> list[Transform]:
    return [transform(name, resources) for name in REGISTRY]


def test_applying_many_is_as_applying_one_by_one(resources: Resources) -> None:
    rng = random.Random(6)

    def text() -> str:
        return " ".join(rng.choices(ORDINARY + LISTED, k=rng.randint(1, 12)))

    texts: list[Text] = [text() if i % 3 else (text(), text()) for i in range(160)]
    changes = [rng.choice(every(resources)) for _ in texts]
    one_by_one = [
        apply(c, t, random.Random(i)) for i, (c, t) in enumerate(zip(changes, texts, strict=True))
    ]
    assert apply_many(changes, texts, [random.Random(i) for i in range(160)]) == one_by_one
    with pytest.raises(ValueError, match="shorter"):
        apply_many(changes, texts, [])


def test_only_the_masked_model_needs_a_model(resources: Resources) -> None:
    needy = [change.name for change in every(resources) if change.needs_model]
    assert needy == ["WordSwapMaskedLM"]


@given(left=st.text(), right=st.text())
def test_joined_pairs_can_be_split_again(left: str, right: str) -> None:
    assert split_like(joined((left, right)), (left, right)) == (left, right)
    assert split_like(joined(left), left) == left


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"no transformation 'Magic'; .*WordSwapQWERTY"):
        transform("Magic")


EXAMPLES = {
    "RandomSynonymInsertion": ("A funny story", 2),
    "WordSwapEmbedding": ("What a terrible film!", 2),
    "WordSwapChangeLocation": ("She left Paris.", 0),
    "WordSwapChangeName": ("Anna liked it.", 0),
    "WordSwapChangeNumber": ("It took 50 minutes.", 0),
    "WordSwapContract": ("This is not bad.", 0),
    "WordSwapExtend": ("it does n't work", 0),
    "WordSwapHomoglyphSwap": ("A funny story", 0),
    "WordSwapMaskedLM": ("What a terrible film!", 1),
    "WordSwapQWERTY": ("A funny story", 0),
    "WordSwapNeighboringCharacterSwap": ("A funny story", 7),
    "WordSwapRandomCharacterDeletion": ("A funny story", 1),
    "WordSwapRandomCharacterInsertion": ("A funny story", 0),
    "WordSwapRandomCharacterSubstitution": ("A funny story", 4),
    "RandomSwap": ("Not a good film", 2),
    "WordSwapWordNet": ("He watched films.", 0),
    "typos": ("A good film", 0),
    "contractions": ("It isn't bad.", 0),
    "punctuation": ("Good film!", 0),
    "names": ("Anna left.", 1),
    "locations": ("We met in Paris.", 1),
    "numbers": ("It has 50 pages.", 0),
    "negation": ("It was good.", 0),
    "urls_and_handles": ("Good film", 2),
}


@pytest.mark.parametrize("name", REGISTRY)
def test_the_examples_in_the_documentation_are_what_comes_out(
    name: str, real: Callable[[str], Transform]
) -> None:
    text, seed = EXAMPLES[name]
    changed = real(name)(text, random.Random(seed))
    page = PAGE.read_text(encoding="utf-8")
    assert f"| `{name}` | {REGISTRY[name].summary} | {text} → {changed} |" in page

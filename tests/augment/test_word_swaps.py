"""A word replaced or followed by a synonym, a neighbour or a guess."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given

from mncover.augment.transforms import Resources, transform
from mncover.augment.transforms.wordnet import Database, Thesaurus
from mncover.augment.transforms.words import is_stop_word
from tests.augment.material import PLAIN, SEEDS, changed_places

SWAPS = ["WordSwapWordNet", "WordSwapEmbedding", "WordSwapMaskedLM"]


@pytest.mark.parametrize("name", SWAPS)
@given(words=PLAIN, seed=SEEDS)
def test_a_word_swap_changes_one_word_in_its_case(
    name: str, resources: Resources, words: list[str], seed: int
) -> None:
    text = " ".join(words)
    changed = transform(name, resources)(text, random.Random(seed))
    if changed is None:
        return
    *article, place = changed_places(text, changed)
    old, new = words[place], changed.split(" ")[place]
    assert not is_stop_word(old)
    assert not is_stop_word(new)
    assert (old.islower(), old.isupper()) == (new.islower(), new.isupper())
    assert all(i == place - 1 and words[i] in ("a", "an") for i in article)


@pytest.mark.parametrize("name", ["WordSwapWordNet", "WordSwapEmbedding"])
def test_the_article_follows_the_new_word(name: str, resources: Resources) -> None:
    change = transform(name, resources)
    assert change("It's a bad", random.Random(0)) == "It's an awful"
    assert change("AN AWFUL", random.Random(0)) == "A BAD"
    assert change("plan a: bad", random.Random(0)) == "plan a: awful"


@given(words=PLAIN, seed=SEEDS)
def test_a_synonym_is_inserted_behind_its_word(
    resources: Resources, words: list[str], seed: int
) -> None:
    text = " ".join(words)
    changed = transform("RandomSynonymInsertion", resources)(text, random.Random(seed))
    if changed is None:
        return
    found = changed.split(" ")
    places = [i for i in range(1, len(found)) if found[:i] + found[i + 1 :] == words]
    thesaurus = Thesaurus(Database(resources.wordnet or Path()))
    assert any(found[i].lower() in thesaurus.synonyms(found[i - 1].lower()) for i in places)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("WordSwapMaskedLM", "the of it", {None}),
        ("WordSwapWordNet", "the Film of Film", {None}),  # a capital inside is a name
        ("WordSwapWordNet", "stopped", {"halted"}),
        ("WordSwapWordNet", "watching", {"observing"}),
        ("WordSwapWordNet", "stories", {"tales"}),
        ("WordSwapWordNet", "saw", {None}),
        ("WordSwapWordNet", "Film", {"Movie"}),
        ("WordSwapWordNet", "it was awful", {"it was bad"}),
        ("WordSwapWordNet", "film's", {None}),
        ("WordSwapEmbedding", "a film", {"a movie", "a story"}),
        ("WordSwapEmbedding", "comic", {"funny"}),
        ("WordSwapEmbedding", "the", {None}),
        ("RandomSynonymInsertion", "Dog!", {"Dog hound!"}),
        ("RandomSynonymInsertion", "FUNNY", {"FUNNY COMIC"}),
    ],
)
def test_word_swaps_by_hand(
    name: str, text: str, expected: set[str | None], resources: Resources
) -> None:
    change = transform(name, resources)
    assert {change(text, random.Random(seed)) for seed in range(12)} == expected

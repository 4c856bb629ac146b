"""Changes by rules and word lists."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given

from mncover.augment.transforms import apply, transform, variants_of
from mncover.augment.transforms.words import lexicon
from mncover.types import Text, joined
from tests.augment.material import PLAIN, SEEDS, changed_places

SENTENCE = "Anna isn't happy: it is 1500 miles from Paris to Boston, and Peter was late!"


@given(seed=SEEDS)
def test_each_changes_what_it_says_and_leaves_the_rest(seed: int) -> None:
    def changed(name: str) -> str:
        return transform(name)(SENTENCE, random.Random(seed)) or ""

    typo = changed("typos")
    places = [i for i, (a, b) in enumerate(zip(SENTENCE, typo, strict=True)) if a != b]
    assert len(places) == 2
    assert places[1] == places[0] + 1
    named, old = changed("names"), {"Anna", "Peter"}
    new = set(re.findall(r"\w+", named)) - set(re.findall(r"\w+", SENTENCE))
    assert len(new) == 1
    assert len(old & set(re.findall(r"\w+", named))) == 1
    (word,) = new
    gone = (old - set(re.findall(r"\w+", named))).pop()
    women = lexicon("female_name")
    assert (word in women) == (gone in women)
    place = changed("locations")
    assert (set(place.split()) - set(SENTENCE.split())) != set()
    assert re.sub(r"[A-Z]\w+", "", place) == re.sub(r"[A-Z]\w+", "", SENTENCE)
    number = re.search(r"\d+", changed("numbers"))
    assert number is not None
    assert 1200 <= int(number[0]) <= 1800
    assert int(number[0]) != 1500
    assert re.sub(r"\d+", "", changed("numbers")) == re.sub(r"\d+", "", SENTENCE)
    assert changed("punctuation") == SENTENCE[:-1]
    added = changed("urls_and_handles")
    assert SENTENCE in added
    assert re.fullmatch(r"(@\w{6}|https://t\.co/\w{6})", added.replace(SENTENCE, "").strip())


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("WordSwapContract", "It is not bad.", {"It's not bad."}),
        ("WordSwapContract", "THIS IS NOT it", {"THIS ISN'T it"}),
        ("WordSwapContract", "That is what it is.", {"That's what it is."}),
        ("WordSwapContract", "it is n't", {None}),
        ("WordSwapContract", "this not", {None}),
        ("WordSwapExtend", "I don\u2019t", {"I do not"}),
        ("WordSwapExtend", "it ca n't last", {"it cannot last"}),
        ("WordSwapExtend", "they wo n't", {"they will not"}),
        ("WordSwapExtend", "It 's fine", {"It is fine"}),
        ("WordSwapExtend", "it's been", {None}),
        ("WordSwapExtend", "IT ISN'T", {"IT IS NOT"}),
        ("WordSwapExtend", "Can't, won't", {"Cannot, won't", "Can't, will not"}),
        ("WordSwapExtend", "the dog's bone", {None}),
        ("WordSwapChangeName", "may rose will mark anna", {None}),
        ("WordSwapChangeName", "@Anna and {Anna}", {None}),
        ("WordSwapChangeLocation", "reading a nice paris", {None}),
        ("WordSwapChangeNumber", "007 and 1.5 and one", {None}),
        ("contractions", "I'm sure it isn't.", {"I am sure it is not."}),
        ("contractions", "They are late", {"They're late"}),
        ("contractions", "I don\u2019t know", {"I do not know"}),
        ("negation", "It was not bad.", {"It was bad."}),
        ("negation", "It isn't bad.", {"It is bad."}),
        ("negation", "You can't go", {"You can go"}),
        ("negation", "It won't rain", {"It will rain"}),
        ("punctuation", "Fine", {"Fine."}),
        ("numbers", "call 3.14 or a2 or 1/2", {None}),
        ("names", "nobody here", {None}),
        ("locations", "nowhere", {None}),
        ("typos", "1 2 3 !?", {None}),
        ("negation", "Good film", {None}),
        ("punctuation", "!!!", {None}),
    ],
)
def test_rewritings_by_hand(name: str, text: str, expected: set[str | None]) -> None:
    assert {transform(name)(text, random.Random(seed)) for seed in range(12)} == expected


def test_a_pair_changes_alike_on_both_sides() -> None:
    pair = ("Is Anna in Paris?", "Where is Anna?")
    (found,) = variants_of(pair, [transform("names")], 1, random.Random(0))
    assert isinstance(found, tuple)
    names = [set(lexicon("female_name")) & set(re.findall(r"\w+", part)) for part in found]
    assert names[0] == names[1]
    assert names[0] != {"Anna"}
    (found,) = variants_of(pair, [transform("punctuation")], 1, random.Random(0))
    assert found == ("Is Anna in Paris", "Where is Anna")


def test_variants_differ_and_changes_compose() -> None:
    made = variants_of(SENTENCE, [transform("names")], 5, random.Random(1))
    assert len(set(made)) == 5
    both = variants_of(SENTENCE, [transform("names"), transform("numbers")], 1, random.Random(1))
    assert isinstance(both[0], str)
    assert "1500" not in both[0]
    assert not {"Anna", "Peter"} <= set(re.findall(r"\w+", both[0]))
    assert variants_of("nobody", [transform("names")], 3, random.Random(1)) == ()
    assert len(variants_of("Good!", [transform("punctuation")], 3, random.Random(1))) == 1


@given(words=PLAIN, seed=SEEDS)
def test_a_random_swap_keeps_the_words(words: list[str], seed: int) -> None:
    text = " ".join(words)
    changed = transform("RandomSwap")(text, random.Random(seed))
    assert (changed is None) == (len({word.lower() for word in words}) < 2)
    if changed is not None:
        assert len(changed_places(text, changed)) == 2
        assert Counter(changed.lower().split()) == Counter(text.lower().split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Good film.", {"Film good."}),  # the capital stays in front
        ("Paris burns", {"Burns Paris"}),  # but a name keeps its own
        ("I laughed", {"Laughed I"}),
        ("good good", {None}),
        ("it 's fine", {"fine 's it"}),
        (("One side", "Two"), {("Side one", "Two")}),
    ],
)
def test_random_swaps_by_hand(text: Text, expected: set[Text | None]) -> None:
    change = transform("RandomSwap")
    assert {apply(change, text, random.Random(seed)) for seed in range(9)} == expected


@given(seed=SEEDS)
def test_lists_change_alike_on_both_sides_and_nothing_else(seed: int) -> None:
    pair = ("Anna paid 1500 for three nights in Paris.", "Anna? 1500 for three? In Paris?")
    for name, kind in (("Name", "female_name"), ("Location", "city"), ("Number", None)):
        changed = apply(transform(f"WordSwapChange{name}"), pair, random.Random(seed))
        assert isinstance(changed, tuple)
        old, new = re.findall(r"\w+", joined(pair)), re.findall(r"\w+", joined(changed))
        exchanged = {(a, b) for a, b in zip(old, new, strict=True) if a != b}
        assert len(exchanged) == 1
        ((_, word),) = exchanged
        assert word in lexicon(kind) if kind else word.isdigit() or word.isalpha()
        assert re.sub(r"\w+", "", joined(changed)) == re.sub(r"\w+", "", joined(pair))


def test_an_article_before_a_place_follows_it() -> None:
    change = transform("WordSwapChangeLocation")
    found = {change("a Paris café", random.Random(seed)) for seed in range(300)}
    assert "an Amsterdam café" in found
    assert "a Lima café" in found
    assert not any(re.match("an [^AEIOU]|a [AEIO]", str(text)) for text in found)


def test_all_names_in_a_text_leave_nothing_to_change_to() -> None:
    everyone = " ".join([*lexicon("female_name"), *lexicon("male_name")])
    assert transform("WordSwapChangeName")(everyone, random.Random(0)) is None

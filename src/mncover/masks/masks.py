"""Which words and which pairs of words count: two masks over a tokenizer's vocabulary.

A mask is a score cut at a threshold. Pairs are stored sparsely (see `vocabulary.py`). Masks are
learnt (`learning.py`), or made from a list of words or from scores of any origin. They are saved
as safetensors together with the tokenizer's fingerprint. No torch here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mncover.data.identity import MaskSummary, Scored
from mncover.data.meetings import Meeting
from mncover.data.schema import Number, OneOf, Whole, check_shape
from mncover.data.tensors import read_tensors, write_tensors
from mncover.errors import DataFileError, MaskError, SchemaError
from mncover.masks.meeting import meeting, pair_name
from mncover.masks.settings import FIDELITY, LearningSettings, Normalisation, Pairs
from mncover.masks.vocabulary import Integers, Keys, tokens_of, vocabulary
from mncover.report.progress import bar
from mncover.suites.intake import given_texts

# Whether words and pairs that training did not see count. With "words", words go by their scores,
# and a pair counts if both of its words do.
Unseen = Literal["keep", "drop", "words"]
Floats = NDArray[np.float32]
# 1: the first. 2: `pairs` says where the pair mask decides; before, that was always in messages.
FORMAT_VERSION = 2
# What a file holds: fields of its header, and arrays.
_HEADER = (
    *("tokenizer_fingerprint", "unseen", "word_threshold", "pair_threshold"),
    *("pairs", "normalisation"),
)
FREQUENT = 10  # how often a pair must be seen for people to judge its score
SeenPair = tuple[str, float, int]  # two words, their score, and how often training saw them
_ARRAYS = ("special", "word_scores", "word_counts", "pair_keys", "pair_scores", "pair_counts")


_SHAPE = {
    "tokenizer_fingerprint": str,
    "unseen": OneOf(get_args(Unseen)),
    "word_threshold": Number(0, 1),
    "pair_threshold": Number(0, 1),
    "pairs": OneOf(get_args(Pairs)),
    "normalisation": OneOf(get_args(Normalisation)),
    "facts": {},
}


@dataclass(frozen=True, eq=False)
class Masks:
    """Scores of words and pairs, and the thresholds from which they count.

    `words` names the tokens. A score is from 0 to 1; a word or pair counts if its score is at
    least the threshold. Special tokens always count. `*_counts` say how often training saw a word
    or pair. `pairs`, `message` and `normalisation` belong to the layer that learnt the masks: with
    them, fidelity can be measured again. `facts` say how the masks were made.
    """

    tokenizer_fingerprint: str
    words: tuple[str, ...]
    special: Integers
    word_scores: Floats
    word_counts: Integers
    pair_keys: Keys
    pair_scores: Floats
    pair_counts: Integers
    unseen: Unseen = "keep"
    word_threshold: float = 0.5
    pair_threshold: float = 0.5
    pairs: Pairs = "messages"
    message: Floats | None = None
    normalisation: Normalisation = "mean"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.unseen not in get_args(Unseen):
            known = ", ".join(get_args(Unseen))
            raise MaskError(f"`unseen` must be one of {known}, got {self.unseen!r}.")
        if (how := self.normalisation) not in get_args(Normalisation):
            raise MaskError(f"`normalisation` must be mean or symmetric, got {how!r}.")
        if self.pairs not in get_args(Pairs):
            raise MaskError(f"`pairs` must be attention or messages, got {self.pairs!r}.")
        for name in ("word_threshold", "pair_threshold"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise MaskError(f"`{name}` must be a number from 0 to 1, got {value!r}.")

    @classmethod
    def learn(
        cls,
        model: Any,
        texts: Iterable[Any],
        tokenizer: Any = None,
        settings: LearningSettings | None = None,
        *,
        device: str | None = None,
        dtype: str = "auto",
        progress: bool | None = None,
        text: str | None = None,
        pair: str | None = None,
    ) -> Masks:
        """Learn which words and pairs a classifier's predictions on texts need.

        `model` and `tokenizer` are as for `Coverage`; the model is left as it was found. The
        texts are normally the training set, of which the settings take a sample; `text` and
        `pair` name the columns of a table.
        """
        # Late, because learning needs torch, and reading masks does not.
        from mncover.engine.loading import load_subject
        from mncover.masks.learning import learn_masks

        chosen, checked = settings or LearningSettings(), given_texts(texts, text, pair)
        subject = load_subject(model, tokenizer, device, dtype)
        with bar("Learning", chosen.texts_over(len(checked)), progress) as advance:
            return learn_masks(cls, subject, checked, chosen, advance)

    @classmethod
    def from_words(cls, tokenizer: Any, words: Iterable[str]) -> Masks:
        """Return masks in which exactly the given words count, and the pairs of such words."""
        return cls.from_scores(tokenizer, dict.fromkeys(words, 1.0))

    @classmethod
    def from_scores(
        cls, tokenizer: Any, scores: Mapping[str, float], threshold: float = 0.5
    ) -> Masks:
        """Return masks from scores of words, such as saliencies; other words score 0.

        Scores outside 0 to 1 are refused. A word of several tokens passes its score to each of
        them, and a token with several scores keeps the largest. A pair counts if both words do.
        """
        known = vocabulary(tokenizer)
        counts = np.zeros(len(known.words), dtype=np.int64)
        found = counts.astype(np.float32)
        for word, score in scores.items():
            if not 0 <= score <= 1:
                raise MaskError(f"the score of {word!r} must be from 0 to 1, got {score}.")
            tokens = tokens_of(tokenizer, word)
            found[tokens] = np.maximum(found[tokens], score)
        facts = {"made from": f"scores of {len(scores):,} words"}
        parts = (*known, found, counts, *no_pairs())
        return cls(*parts, unseen="words", word_threshold=threshold, facts=facts)

    def with_thresholds(
        self, words: float | None = None, pairs: float | None = None, unseen: Unseen | None = None
    ) -> Masks:
        """Return the masks cut elsewhere, or with another rule for what training did not see.

        The measured fidelity is dropped: it belongs to the old masks.
        """
        facts = {name: value for name, value in self.facts.items() if name != FIDELITY}
        given = {"word_threshold": words, "pair_threshold": pairs, "unseen": unseen}
        changes: dict[str, Any] = {name: new for name, new in given.items() if new is not None}
        return replace(self, facts=facts, **changes)

    @cached_property
    def keep_words(self) -> NDArray[np.bool_]:
        """Whether each word counts."""
        keep: NDArray[np.bool_] = self.word_scores >= self.word_threshold
        if self.unseen != "words":
            keep[self.word_counts == 0] = self.unseen == "keep"
        keep[self.special] = True
        return keep

    @cached_property
    def keep_pairs(self) -> NDArray[np.bool_]:
        """Whether each pair of `pair_keys` counts."""
        return np.asarray(self.pair_scores >= self.pair_threshold, dtype=bool)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that decides what counts."""
        digest = hashlib.sha256(
            f"{self.tokenizer_fingerprint} {self.unseen}".encode("utf-8", "replace")
        )
        for array in (self.special, self.keep_words, self.pair_keys, self.keep_pairs):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def summary(self, shown: int = 12) -> MaskSummary:
        """Return a few numbers, and the most and least important words and pairs.

        Among equal scores, the more frequent word or pair comes first. Masks that were not learnt
        are counted over the whole vocabulary.
        """
        seen = self.word_counts > 0 if self.word_counts.any() else np.ones(len(self.words), bool)
        seen[self.special] = False
        numbers = np.flatnonzero(seen)
        words = _extremes(self.word_scores[numbers], self.word_counts[numbers], shown)
        pairs = _extremes(self.pair_scores, self.pair_counts, shown)
        top_low = [tuple(self._word(number) for number in numbers[some]) for some in words]
        top_low += [tuple(self._pair(i) for i in some) for some in pairs]
        words_kept, pairs_kept = int(self.keep_words[numbers].sum()), int(self.keep_pairs.sum())
        counts = (len(numbers), words_kept, len(self.pair_keys), pairs_kept)
        found = self.facts.get(FIDELITY)
        fidelity = float(found) if isinstance(found, int | float) else None
        return MaskSummary(self.fingerprint, *counts, self.unseen, fidelity, *top_low)

    def _word(self, number: int) -> Scored:
        return self.words[number], float(self.word_scores[number])

    def _pair(self, place: int) -> Scored:
        first, second = divmod(int(self.pair_keys[place]), len(self.words))
        name = pair_name(self.words[first], self.words[second])
        return name, float(self.pair_scores[place])

    def extreme_pairs(self, shown: int = 12) -> tuple[list[SeenPair], list[SeenPair]]:
        """Return the pairs with the highest and the lowest scores, and how often each was seen.

        Scores of rare pairs are unsure, so pairs are frequent ones if there are enough of these.
        """
        often = np.flatnonzero(self.pair_counts >= FREQUENT)
        some = often if len(often) >= 2 * shown else np.arange(len(self.pair_keys))
        both = (
            some[one] for one in _extremes(self.pair_scores[some], self.pair_counts[some], shown)
        )
        high, low = ([(*self._pair(i), int(self.pair_counts[i])) for i in some] for some in both)
        return high, low

    def meeting(self, ids: ArrayLike, most: int | None = None) -> Meeting:
        """Return which tokens of a text, the first `most`, may meet."""
        return meeting(self, ids, most)

    def require_tokenizer(self, fingerprint: str) -> None:
        """Refuse any tokenizer but the one that the masks were made for."""
        if (mine := self.tokenizer_fingerprint) != fingerprint:
            raise MaskError(
                f"the masks were made for another tokenizer ({mine[:12]}, not {fingerprint[:12]}): "
                "learn them for this model with `mncover masks`."
            )

    def save(self, path: str | Path) -> None:
        """Write a safetensors file, replacing what is there in one step."""
        fields = {name: getattr(self, name) for name in _HEADER}
        header = {"format": FORMAT_VERSION, **fields, "facts": dict(self.facts)}
        tensors: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _ARRAYS}
        tensors["words"] = np.frombuffer(json.dumps(self.words).encode("ascii"), dtype=np.uint8)
        if self.message is not None:
            tensors["message"] = self.message
        write_tensors(Path(path), "mncover_masks", header, tensors)

    @classmethod
    def load(cls, path: str | Path) -> Masks:
        """Read masks; refuse a file that is missing, damaged, foreign or too new."""
        try:
            return _from_file(*read_tensors(Path(path), "mncover_masks"))
        except FileNotFoundError:
            raise MaskError(f"{path}: no such file of masks; `mncover masks` writes one.") from None
        except MaskError as error:
            raise MaskError(f"{path}: {error}") from error
        except DataFileError as error:
            raise MaskError(f"{path}: cannot be read as masks ({error}).") from error
        except (SchemaError, ValueError, RecursionError) as error:
            raise MaskError(f"{path}: the masks in it are damaged ({error}).") from error


def no_pairs() -> tuple[Keys, Floats, Integers]:
    """Return the keys, scores and counts of no pair at all."""
    return np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64)


def _extremes(scores: Floats, counts: Integers, shown: int) -> tuple[Integers, Integers]:
    """Return the places of the highest and of the lowest scores, none in both."""
    shown = min(shown, len(scores) // 2)
    return np.lexsort((-counts, -scores))[:shown], np.lexsort((-counts, scores))[:shown]


def _from_file(header: Any, tensors: dict[str, NDArray[Any]]) -> Masks:
    if header is None:
        raise MaskError("not a file of masks.")
    check_shape(header, {"format": Whole(1)}, "header")
    if header["format"] > FORMAT_VERSION:
        raise MaskError("written by a newer mncover; upgrade with: pip install -U mncover")
    header = {"pairs": "messages", **header}
    check_shape(header, _SHAPE, "header")
    if missing := [name for name in ("words", *_ARRAYS) if name not in tensors]:
        raise MaskError(f"it has no array '{missing[0]}'.")
    words = json.loads(tensors["words"].tobytes())
    check_shape(words, [str], "words")
    _check(tensors, len(words))
    fields = {name: header[name] for name in _HEADER} | {name: tensors[name] for name in _ARRAYS}
    fields["facts"], fields["message"] = header["facts"], tensors.get("message")
    return Masks(words=tuple(words), **fields)


def _check(arrays: dict[str, NDArray[Any]], n_words: int) -> None:
    """Refuse arrays that do not fit together; a file may come from anywhere."""
    special, keys = arrays["special"], arrays["pair_keys"]
    sizes = {"special": special.size, "word": n_words, "pair": keys.size}
    for name in _ARRAYS:
        kind = np.float32 if name.endswith("scores") else np.int64
        if arrays[name].dtype != kind or arrays[name].shape != (sizes[name.split("_")[0]],):
            raise MaskError(f"its array '{name}' has the wrong type or size.")
    message = arrays.get("message", np.zeros((1, 1), np.float32))
    if message.dtype != np.float32 or message.ndim != 2 or len(set(message.shape)) != 1:
        raise MaskError("its array 'message' has the wrong type or size.")
    if len(special) and (special.min() < 0 or special.max() >= n_words):
        raise MaskError("its special tokens point outside the vocabulary.")
    for name in ("word_scores", "pair_scores"):
        if not ((arrays[name] >= 0) & (arrays[name] <= 1)).all():
            raise MaskError(f"its '{name}' are not from 0 to 1.")
    if (np.diff(keys) <= 0).any() or (len(keys) and not 0 <= keys[0] <= keys[-1] < n_words**2):
        raise MaskError("its pairs are not in order.")

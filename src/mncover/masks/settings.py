"""How masks are learnt. No torch here, because the command line shows these defaults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args, get_type_hints

from mncover.errors import SettingsError

Normalisation = Literal["mean", "symmetric"]
# Where a pair mask decides: in the model's attention, or in messages before its first layer.
Pairs = Literal["attention", "messages"]
# Settings that only one way of learning pairs has.
ONLY = {
    "attention": ("pairs_kept", "pair_word_rate", "cooling", "start_attention"),
    "messages": ("message_rate", "normalisation", "start_message", "patience"),
}

FIDELITY = "held-out fidelity"  # its name among the facts of masks


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """Settings that work well; `messages()` are those for messages, `paper()` the paper's own.

    `kl_*` weigh the pull of each probability towards a half, `sparse_pairs` the mean probability
    of pairs, `sparse_words` the share of words kept beyond `words_kept`. `word_hidden` is the
    width of the word network's hidden layer, 0 for none. `start_*` are the initial logits, how
    much the attention paid to a pair changes its own, and the initial size of the message matrix.
    In attention, `pairs_kept` is the share of pairs to keep, `pair_word_rate` the learning rate of
    what all pairs with a word share, and `cooling` the noise of the draws at the end, as a
    share of that at the start. Annotations have the smallest and largest sensible value; without
    them, these are 0 and a million.
    """

    pairs: Pairs = "attention"
    texts: Annotated[int | None, 2, 10**12] = 40_000
    epochs: Annotated[int, 1, 1000] = 4
    batch_size: Annotated[int, 1, 10**6] = 128
    word_rate: float = 4e-3
    pair_rate: float = 0.3
    pair_word_rate: float = 0.02
    message_rate: float = 1e-5
    sparse_pairs: float = 0.04
    pairs_kept: Annotated[float, 0, 1] = 0.25
    sparse_words: float = 0.15
    words_kept: Annotated[float, 0, 1] = 0.745
    kl_pairs: float = 0.001
    kl_words: float = 0.001
    temperature: Annotated[float, 1e-3, 100] = 0.5
    cooling: Annotated[float, 1e-3, 1] = 0.2
    min_count: Annotated[int, 1, 10**9] = 2
    normalisation: Normalisation = "mean"
    word_hidden: Annotated[int, 0, 10**5] = 128
    start_pairs: Annotated[float, -50, 50] = 2.0
    start_attention: Annotated[float, 0, 50] = 1.0
    start_words: Annotated[float, -50, 50] = 1.0
    start_message: float = 0.03
    held_out: Annotated[int, 1, 10**9] = 1000
    patience: Annotated[int, 1, 10**9] = 4
    max_length: Annotated[int, 1, 10**6] = 128
    seed: Annotated[int, 0, 2**31] = 0

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                known, got = " or ".join(get_args(kind)), getattr(self, name)
                raise SettingsError(f"`{name}` must be {known}, got {got!r}.")
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            if name not in _CHOICES:
                _check_number(name, getattr(self, name), *(get_args(hint) or (hint, 0, 1e6)))

    def texts_over(self, n: int) -> int:
        """Return how many texts learning from `n` texts processes, at most."""
        return min(n, self.texts or n) * self.epochs

    @classmethod
    def messages(cls) -> LearningSettings:
        """Return settings that work well where the pairs of words pass messages."""
        rates: Any = {"word_rate": 2e-3, "pair_rate": 0.05, "sparse_pairs": 0.001}
        starts: Any = {"start_pairs": 0.0, "start_words": 2.0}
        return cls("messages", epochs=2, temperature=1.0, **starts, **rates)

    @classmethod
    def paper(cls) -> LearningSettings:
        """Return the paper's settings: one small rate, all weights 0.001, every text and pair."""
        rates: Any = dict.fromkeys(("word_rate", "pair_rate", "message_rate"), 1e-5)
        words: Any = {"sparse_words": 0.0, "words_kept": 1.0, "word_hidden": 0, "start_words": 0.0}
        return replace(cls.messages(), texts=None, min_count=1, **rates, **words)


_CHOICES: dict[str, Any] = {"pairs": Pairs, "normalisation": Normalisation}


def _check_number(name: str, value: Any, kind: Any, low: float, high: float) -> None:
    if value is None and kind == (int | None):
        return
    kinds, what = (int | float, "a number") if kind is float else (int, "a whole number")
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        raise SettingsError(f"`{name}` must be {what} from {low:g} to {high:g}, got {value!r}.")


def chosen_settings(paper: bool, given: Sequence[str]) -> LearningSettings:
    """Return the defaults or the paper's settings, changed by texts such as `epochs=3`."""
    values = dict(parsed_setting(text) for text in given)
    way = values.get("pairs", "messages" if paper else "attention")
    if paper and way != "messages":
        raise SettingsError("the paper's settings pass messages: drop --paper or --pairs.")
    messages = LearningSettings.paper() if paper else LearningSettings.messages()
    base = LearningSettings() if way == "attention" else messages
    check_way(way, values)
    return replace(base, **values)


def check_way(way: str, names: Iterable[str]) -> None:
    """Refuse a setting that the other way of learning pairs has."""
    for other, only in ONLY.items():
        if other != way and (odd := [name for name in names if name in only]):
            raise SettingsError(f"`{odd[0]}` is for --pairs {other}, not {way}.")


def parsed_setting(text: str) -> tuple[str, Any]:
    """Return name and value of a text such as `epochs=3`; refuse an unknown name."""
    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    known = get_type_hints(LearningSettings)
    if name not in known:
        raise SettingsError(f"there is no setting {name!r}; known are {', '.join(known)}.")
    kind, given = known[name], value.strip()
    try:
        if kind == (int | None):
            return name, None if given == "all" else int(given)
        return name, given if name in _CHOICES else kind(given)
    except ValueError:
        raise SettingsError(f"`{name}` cannot be {value!r}.") from None

"""How masks are learnt. No torch here, because the command line shows these defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_type_hints

from mncover.errors import SettingsError

Normalisation = Literal["mean", "symmetric"]

# The name of held-out fidelity among the facts of masks.
FIDELITY = "held-out fidelity"

# Setting -> smallest and largest sensible value.
_LIMITS: dict[str, tuple[float, float]] = {
    "texts": (2, 10**12),
    "epochs": (1, 1000),
    "batch_size": (1, 10**6),
    "temperature": (1e-3, 100),
    "min_count": (1, 10**9),
    "words_kept": (0, 1),
    "held_out": (1, 10**9),
    "patience": (1, 10**9),
    "word_hidden": (0, 10**5),
    "max_length": (1, 10**6),
    "seed": (0, 2**31),
    "start_pairs": (-50, 50),
    "start_words": (-50, 50),
}


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """Settings that work well; `paper()` returns the paper's own.

    `kl_*` weigh the pull of each probability towards a half, `sparse_pairs` the mean probability
    of pairs, `sparse_words` the share of words kept beyond `words_kept`. `word_hidden` is the
    width of the word network's hidden layer, 0 for none. `start_*` are the initial logits and
    the initial size of the message matrix.
    """

    texts: int | None = 40_000
    epochs: int = 2
    batch_size: int = 128
    word_rate: float = 2e-3
    pair_rate: float = 0.05
    message_rate: float = 1e-5
    sparse_pairs: float = 0.001
    sparse_words: float = 0.15
    words_kept: float = 0.745
    kl_pairs: float = 0.001
    kl_words: float = 0.001
    temperature: float = 1.0
    min_count: int = 2
    normalisation: Normalisation = "mean"
    word_hidden: int = 128
    start_pairs: float = 0.0
    start_words: float = 2.0
    start_message: float = 0.03
    held_out: int = 1000
    patience: int = 4
    max_length: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        if self.normalisation not in get_args(Normalisation):
            known = " or ".join(get_args(Normalisation))
            raise SettingsError(f"`normalisation` must be {known}, got {self.normalisation!r}.")
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if name != "normalisation" and not (value is None and kind == (int | None)):
                _check_number(name, value, kind is float)

    def texts_over(self, n: int) -> int:
        """Return how many texts learning from `n` texts processes, at most."""
        return min(n, self.texts or n) * self.epochs

    @classmethod
    def paper(cls) -> LearningSettings:
        """Return the paper's settings: one small rate, all weights 0.001, every text and pair."""
        return cls(
            texts=None,
            word_rate=1e-5,
            pair_rate=1e-5,
            message_rate=1e-5,
            sparse_words=0.0,
            words_kept=1.0,
            min_count=1,
            word_hidden=0,
            start_words=0.0,
        )


def _check_number(name: str, value: object, real: bool) -> None:
    low, high = _LIMITS.get(name, (0, 1e6))
    kinds = int | float if real else int
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "a number" if real else "a whole number"
        raise SettingsError(f"`{name}` must be {what} from {low:g} to {high:g}, got {value!r}.")


def chosen_settings(paper: bool, given: Sequence[str]) -> LearningSettings:
    """Return the defaults or the paper's settings, changed by texts such as `epochs=3`."""
    base = LearningSettings.paper() if paper else LearningSettings()
    values = dict(parsed_setting(text) for text in given)
    return replace(base, **values)


def parsed_setting(text: str) -> tuple[str, Any]:
    """Return name and value of a text such as `epochs=3`; refuse an unknown name."""
    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    known = get_type_hints(LearningSettings)
    if name not in known:
        raise SettingsError(f"there is no setting {name!r}; known are {', '.join(known)}.")
    try:
        return name, _converted(value.strip(), known[name])
    except ValueError:
        raise SettingsError(f"`{name}` cannot be {value!r}.") from None


def _converted(value: str, kind: Any) -> Any:
    if kind == (int | None):
        return None if value == "all" else int(value)
    return value if kind is Normalisation else kind(value)

"""Algorithm 1: grow a set of texts by those that make the model do something new.

For each seed text two transformations are drawn: the first from the queue of those that worked, or
at random while it is empty; the second at random. The resulting text is accepted if it raises the
coverage of everything seen so far and still means the same. Then its transformations join the
queue and the next seed follows; otherwise there is another attempt.

The outcome is that of one attempt after the other, but the model and the encoder run many texts at
once: a plan is made as if every text that still means the same were accepted, which is nearly
true, and followed as long as it comes true. A wrong guess costs time but changes nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mncover.augment import records as r
from mncover.augment.judge import Judge, Judged
from mncover.augment.transforms import Transform
from mncover.types import Text

# The most seeds whose attempts are compared together; more fill the batches better.
MOST_AHEAD = 256
# While the queue is short, each success changes what is drawn next and guesses are often wrong: the
# seeds guessed ahead are at most this part of its length, but at least LEAST_AHEAD.
LEAST_AHEAD, PART_AHEAD = 8, 8
# How many texts a plan may accept, at least and at first; at most what fits into memory. After a
# text that added nothing, the rest has to be planned again.
LEAST_PLANNED, FIRST_PLANNED = 8, 64


class Search:
    """One run of the algorithm, one attempt per step."""

    def __init__(
        self,
        seeds: Sequence[Text],
        transforms: Mapping[str, Transform],
        judge: Judge,
        settings: r.AugmentSettings,
        most_ahead: int = MOST_AHEAD,
    ) -> None:
        self.seeds = seeds
        self.settings = settings
        self.judge = judge
        self.most_ahead = most_ahead
        self.found = r.Augmented(len(seeds))
        self.seed = self.tries = 0
        self.whole = True  # False while an attempt is being recorded
        self._queue: list[str] = []
        self._seen: set[Text] = set(seeds)
        self._drawing = r.Drawing(settings.transforms, settings.seed)
        self._maker = r.Maker(seeds, transforms, self._drawing)
        self._judged: dict[tuple[int, Text], Judged] = {}
        # attempts, what they make, and whether that is expected to be accepted
        self._plan: deque[tuple[r.Attempt, r.Candidate, bool]] = deque()
        self._planned = min(judge.capacity, FIRST_PLANNED)  # what the next plan may accept

    def start(self) -> None:
        """Measure the seeds, and the texts accepted before an interruption."""
        self.judge.start(self.seeds)
        self.found.before = self.judge.coverage
        self.judge.cover([one.text for one in self.found.accepted])

    def state(self) -> r.SearchState:
        """Return what has been decided so far."""
        found = self.found
        return r.SearchState(self.seed, self.tries, found.accepted, found.tally, found.texts_run)

    def restore(self, state: r.SearchState) -> None:
        """Resume from a state; to be called before `start`."""
        self.seed, self.tries = state.seed, state.tries
        for one in state.accepted:
            self._accept(one)
        self.found.tally = state.tally
        self.judge.texts_run = self.found.texts_run = state.texts_run

    def step(self) -> None:
        """Make the next attempt."""
        if not self._plan:
            self._make_plan()
        attempt, made, expected = self._plan.popleft()
        self.whole = False
        accepted = self._try(attempt, made)
        if accepted is not None:
            self._accept(accepted)
        self.seed, self.tries = self._after(attempt, accepted is not None)
        self.whole = True
        if expected != (accepted is not None):
            self._plan.clear()
            self._planned = max(LEAST_PLANNED, self._planned // 2)
        elif not self._plan:
            self._planned = min(self.judge.capacity, 2 * self._planned)

    def _after(self, attempt: r.Attempt, accepted: bool) -> tuple[int, int]:
        """Return seed and tries of the next attempt."""
        if accepted or attempt.tries + 1 == self.settings.max_iter:
            return attempt.seed + 1, 0
        return attempt.seed, attempt.tries + 1

    def _accept(self, one: r.Accepted) -> None:
        self.found.accepted.append(one)
        self._seen.add(one.text)
        if self.settings.criterion is not None:  # without a guide the queue stays empty
            self._queue.extend(one.transforms)

    def _try(self, attempt: r.Attempt, made: r.Candidate) -> r.Accepted | None:
        tally = self.found.tally
        tally.attempts += 1
        tally.drawn.update(made.drawn)
        tally.changed.update(made.worked)
        if made.text is None or made.text in self._seen:
            return None
        judged = self._judged[attempt.seed, made.text]
        tally.made += 1
        if not judged.similar:
            return None
        tally.similar += 1
        gain = None
        if self.settings.criterion is not None:
            always = self.settings.threshold <= 0  # a text that adds nothing changes nothing
            gain = self.judge.gain(judged, take=always)
            if gain <= self.settings.threshold:
                return None
            if not always:
                self.judge.gain(judged, take=True)
        return r.Accepted(attempt.seed, made.text, made.worked, judged.similarity, gain)

    def _make_plan(self) -> None:
        """Plan the next attempts as if every similar text added something."""
        # Nothing about seeds whose turn is over is needed, and codes are large.
        self._maker.forget_before(self.seed)
        self._judged = {key: one for key, one in self._judged.items() if key[0] >= self.seed}
        future = _Future(self.seed, self.tries, list(self._queue), set(self._seen))
        promised: list[Judged] = []
        while future.seed < len(self.seeds) and len(promised) < self._planned:
            attempt = self._drawing.attempt(future.seed, future.tries, future.queue)
            if self._foresee(attempt, future) is None:
                self._compare_ahead(future)
            made, expected = self._maker[attempt], bool(self._foresee(attempt, future))
            self._plan.append((attempt, made, expected))
            if expected and made.text is not None:
                promised.append(self._judged[attempt.seed, made.text])
                future.seen.add(made.text)
                future.queue += made.worked if self.settings.criterion is not None else ()
            future.seed, future.tries = self._after(attempt, expected)
        self.judge.measure(promised)
        self.found.texts_run = self.judge.texts_run

    def _foresee(self, attempt: r.Attempt, future: _Future) -> bool | None:
        """Return whether an attempt is expected to succeed; None before its text is compared."""
        made = self._maker.at_once(attempt)
        if made is None:
            return None
        if made.text is None or made.text in future.seen:
            return False
        judged = self._judged.get((attempt.seed, made.text))
        if judged is None:
            return None
        # A gain never grows: one that was too small stays too small.
        return judged.similar and (judged.gain is None or judged.gain > self.settings.threshold)

    def _compare_ahead(self, future: _Future) -> None:
        """Compare what the coming seeds will try next with the seeds."""
        likely = self._likely(future)
        self._maker.make(likely)
        unknown = [attempt for attempt in likely if self._foresee(attempt, future) is None]
        texts = dict.fromkeys((attempt.seed, self._maker[attempt].text) for attempt in unknown)
        new = [(seed, text) for seed, text in texts if text is not None]
        judged = self.judge.compare([seed for seed, _ in new], [text for _, text in new])
        self._judged.update(zip(new, judged, strict=True))

    def _likely(self, future: _Future) -> list[r.Attempt]:
        """Return the next attempt of each coming seed whose outcome is not known yet.

        A seed that has failed n times may fail again, so n more of its attempts are included.
        """
        ahead = self.most_ahead
        if self.settings.criterion is not None:
            ahead = min(ahead, max(LEAST_AHEAD, len(future.queue) // PART_AHEAD))
        found: list[r.Attempt] = []
        seed, tries = future.seed, future.tries
        while seed < min(future.seed + ahead, len(self.seeds)):
            attempt = self._drawing.attempt(seed, tries, future.queue)
            expected = self._foresee(attempt, future)
            if expected is None:
                more = range(tries + 1, min(2 * tries + 1, self.settings.max_iter))
                found += [attempt, *(self._drawing.attempt(seed, n, future.queue) for n in more)]
            seed, tries = self._after(attempt, expected is not False)
        return found


@dataclass(slots=True)
class _Future:
    """What the search would know if the plan came true so far."""

    seed: int
    tries: int
    queue: list[str]
    seen: set[Text]


def search(
    run: Search,
    advance: Callable[[int], None] = lambda n: None,
    save: Callable[[bool], None] = lambda now: None,
    model_calls: int | None = None,
) -> r.Augmented:
    """Run a search to its end, or until it has needed `model_calls` texts to be run.

    `advance` is told how many seeds have had their turn. `save` is called after every step, and
    with True on Ctrl-C if the state is whole.
    """
    most = math.inf if model_calls is None else model_calls
    advance(run.seed)
    run.start()
    try:
        while run.seed < len(run.seeds) and run.found.model_calls < most:
            before = run.seed
            run.step()
            advance(run.seed - before)
            save(False)
    except KeyboardInterrupt:
        if run.whole:
            save(True)
        raise
    run.found.after = run.judge.coverage
    return run.found

"""English function words, which no transformation replaces by another word. Our own list."""

from __future__ import annotations

_PRONOUNS = """
i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it
its itself we us our ours ourselves they them their theirs themselves one ones oneself this that
these those who whom whose which what whoever whatever whichever somebody someone something
anybody anyone anything nobody none nothing everybody everyone everything
"""
_VERBS = """
am is are was were be been being do does did doing done have has had having can could will would
shall should may might must ought cannot ca wo sha let lets got
"""
_PREPOSITIONS = """
about above across after against along amid among around as at before behind below beneath beside
besides between beyond but by concerning despite down during except for from in inside into like
near of off on onto out outside over past per regarding round since than through throughout till to
toward towards under underneath until unto up upon versus via with within without
"""
_CONJUNCTIONS = """
and or nor yet so if because although though unless while whereas whether either neither both once
when whenever where wherever why how however therefore thus hence
"""
_DETERMINERS = """
a an the some any no every each all many much more most few fewer less least several such own other
another same enough half
"""
_ADVERBS = """
not never n't nt too also just only even still again ever here there then now very quite rather
almost already always often perhaps maybe else
"""
_CONTRACTED = """
ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't mightn't mustn't
needn't shan't shouldn't wasn't weren't won't wouldn't i'm i've i'll i'd you're you've you'll you'd
he's he'll he'd she's she'll she'd it's it'll it'd we're we've we'll we'd they're they've they'll
they'd that's there's what's who's where's how's here's let's
"""
_NUMBERS = """
zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
million billion first second third
"""
_TITLES = "mr mrs ms dr st jr sr etc eg ie vs"

STOP_WORDS = frozenset(
    " ".join(
        [
            *(_PRONOUNS, _VERBS, _PREPOSITIONS, _CONJUNCTIONS, _DETERMINERS),
            *(_ADVERBS, _CONTRACTED, _NUMBERS, _TITLES),
        ]
    ).split()
)


def is_stop_word(word: str) -> bool:
    """Return whether a word is a function word, a number word, or a single letter.

    >>> is_stop_word("The"), is_stop_word("film")
    (True, False)
    """
    return len(word) < 2 or word.lower().replace("\u2019", "'") in STOP_WORDS

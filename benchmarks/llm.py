"""Compare `--choices` and `--generate` with plain transformers, text for text.

    python -m benchmarks.llm MODEL DATA [--choices positive,negative] [--template …] [--chat]
        [--sentences 872] [--cases 200] [--prompts 40] [--generate 32]

MODEL is a causal language model, DATA the folder with `sst2/` and `checklist/`. The reference runs
one text at a time without any of mncover: a forward pass of prompt and choice, all tokens of the
choice summed, and `model.generate(do_sample=False)`. The first
choice is positive. Labels are SST-2's, verdicts those of a sample of CheckList's sentiment suite.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer

from mncover import Coverage, Prompting
from mncover.data.prompting import unescaped
from mncover.suites.formats import read_rows
from mncover.suites.formats.records import Fields
from mncover.suites.judging import judge_run
from mncover.suites.parts import Part

Floats = NDArray[np.float64]


class Plain:
    """What transformers alone says."""

    def __init__(self, model: Any, tokenizer: Any, prompting: Prompting) -> None:
        self.model, self.tokenizer, self.prompting = model, tokenizer, prompting

    @classmethod
    def load(cls, model: str, prompting: Prompting) -> Plain:
        """Load a model by name."""
        loaded = AutoModelForCausalLM.from_pretrained(model).eval()
        return cls(loaded, AutoTokenizer.from_pretrained(model), prompting)

    def ids(self, text: str, behind: str = "") -> list[int]:
        """Return the tokens of a prompt, and of what follows it."""
        prompt = self.prompting.template.replace("{text}", text) or text
        if self.prompting.chat:
            prompt = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
            )
        space = "" if not behind or prompt[-1].isspace() else " "
        special = not self.prompting.chat
        found: list[int] = self.tokenizer(
            prompt + space + behind, add_special_tokens=special
        ).input_ids
        return found

    @torch.inference_mode()
    def probabilities(self, text: str) -> Floats:
        """Return the probability of every choice."""
        scores = []
        start = len(self.ids(text))
        for choice in self.prompting.choices:
            whole = torch.tensor([self.ids(text, choice)])
            chances = self.model(input_ids=whole).logits[0].float().log_softmax(-1)
            targets = whole[0, start:]
            score = chances[start - 1 : -1].gather(1, targets[:, None]).sum()
            scores.append(score / len(targets) if self.prompting.normalise == "length" else score)
        return torch.stack(scores).softmax(0).double().numpy()

    @torch.inference_mode()
    def answer(self, text: str) -> str:
        """Return what the model generates."""
        ids = torch.tensor([self.ids(text)])
        most = self.prompting.generate
        found = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=most
        )
        said: str = self.tokenizer.decode(found[0, ids.shape[1] :], skip_special_tokens=True)
        return said


def sst2(data: Path, name: str, n: int) -> tuple[list[str], list[int]]:
    with gzip.open(data / "sst2" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(n), file, strict=False)]
    return [row["text"] for row in rows], [int(row["label"]) for row in rows]


def compare_choices(
    model: str, data: Path, prompting: Prompting, n: int, max_length: int
) -> Coverage:
    """Print how far the probabilities of SST-2's sentences are from the reference's."""
    texts, labels = sst2(data, "dev", n)
    right = np.array([prompting.choices[1 - label] for label in labels])
    cov = Coverage(model, prompting=prompting, max_length=max_length)
    cov.calibrate(sst2(data, "train", 200)[0], yardstick=False)
    cov.update(texts, labels=right.tolist())
    mine = cov.data.table.probabilities
    plain = Plain.load(model, prompting)
    theirs = np.array([plain.probabilities(text) for text in texts])
    names = np.array(prompting.choices)
    hits = [float((names[found.argmax(1)] == right).mean()) for found in (mine, theirs)]
    same = int((mine.argmax(1) == theirs.argmax(1)).sum())
    print(f"choices       {prompting.in_words()}; cache {cov.engine.subject.choices.cached}")  # type: ignore[union-attr]
    print(f"sentences     {len(texts)}, accuracy {hits[0]:.4f}, reference {hits[1]:.4f}")
    print(f"same class    {same} of {len(texts)}")
    print(f"probabilities differ by at most {np.abs(mine - theirs).max():.2g}", flush=True)
    return cov


def compare_verdicts(cov: Coverage, model: str, data: Path, prompting: Prompting, n: int) -> None:
    """Print on how many cases of the sentiment suite the verdicts differ from the reference's."""
    suite = data / "checklist" / "sentiment_suite.tar.gz"
    rows = Part((), "", n, 0).of(read_rows(suite, Fields()))
    with tempfile.TemporaryDirectory() as folder:
        found = cov.run(rows, Path(folder) / "run.mncover")
    data_of_run, mine = found.data, judge_run(found.data, 0)
    plain, texts = Plain.load(model, prompting), found.data.table.texts
    known = {text: plain.probabilities(str(text)) for text in dict.fromkeys(texts)}
    theirs = np.array([known[text] for text in texts], dtype=np.float32)
    data_of_run.table = replace(data_of_run.table, probabilities=theirs)
    pairs = list(zip(mine, judge_run(data_of_run, 0), strict=True))
    cases = sum(len(one.verdicts) for one in mine)
    differ = sum(int((a.verdicts != b.verdicts).sum()) for a, b in pairs)
    failing = [sum(pair[side].failing for pair in pairs) for side in (0, 1)]
    print(f"suite         {cases} cases of {len(mine)} tests, {len(theirs)} texts")
    print(
        f"verdicts      {differ} differ; failing {failing[0]}, reference {failing[1]}", flush=True
    )


def compare_answers(model: str, data: Path, prompting: Prompting, n: int, max_length: int) -> None:
    """Print to how many prompts the answers differ from the reference's."""
    texts = sst2(data, "dev", n)[0]
    subject = Coverage(model, prompting=prompting, max_length=max_length).engine.subject
    mine = subject.answers(texts, max_length)
    plain = Plain.load(model, prompting)
    theirs = [plain.answer(text) for text in texts]
    differ = [i for i, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]]
    words = np.mean([len(answer.split()) for answer in theirs])
    print(f"answers       {len(texts)} prompts, {words:.1f} words each, {len(differ)} differ")
    for i in differ[:3]:
        print(f"  {texts[i]!r}: {mine[i]!r}, reference {theirs[i]!r}")


def main() -> None:
    """Compare, and print figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--choices", default="positive,negative")
    parser.add_argument("--template", default="Review: {text}\nSentiment:", type=unescaped)
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--normalise", default="none")
    parser.add_argument("--sentences", type=int, default=872)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--generate", type=int, default=32)
    given = parser.parse_args()
    prompting = Prompting(
        given.choices.split(","), given.template, given.chat, normalise=given.normalise
    )
    if given.sentences:
        cov = compare_choices(given.model, given.data, prompting, given.sentences, given.max_length)
        if given.cases:
            compare_verdicts(cov, given.model, given.data, prompting, given.cases)

    if given.prompts:
        template = "Say in a few words what this review thinks of the film: {text}"
        asked = Prompting(template=template, chat=True, generate=given.generate)
        compare_answers(given.model, given.data, asked, given.prompts, given.max_length)


if __name__ == "__main__":
    main()

"""What several tests of the paper's experiments use."""

from __future__ import annotations

import pytest
import torch

from tests import tiny


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny BERT without a head, as a folder."""
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    tiny.bert_encoder().save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return str(folder)

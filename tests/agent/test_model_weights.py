"""The bytes of weights that each pass has to read."""

from types import SimpleNamespace

import pytest
from torch import nn

from latencytrace.agent.model_weights import weight_bytes

WORDS, WIDTH = 10, 4
TABLE = WORDS * WIDTH * 4  # bytes


class Model(nn.Module):
    """As transformers' models: embeddings, layers, a head."""

    def __init__(self, *, tied: bool, **config: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(**config)
        self.embeddings = nn.Embedding(WORDS, WIDTH)
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.head.weight = self.embeddings.weight

    def get_input_embeddings(self) -> nn.Module:
        """As transformers has it."""
        return self.embeddings

    def get_output_embeddings(self) -> nn.Module:
        """As transformers has it."""
        return self.head


@pytest.mark.parametrize("tied", [True, False])
def test_a_table_that_is_only_looked_up_is_not_read(*, tied: bool) -> None:
    assert weight_bytes(Model(tied=tied)) == WIDTH * WIDTH * 4 + TABLE


def test_a_mixture_of_experts_reads_who_knows_what() -> None:
    model = Model(tied=True, num_local_experts=8)

    assert (weight_bytes(model), weight_bytes(model)) == (None, None)


def test_a_model_is_weighed_once() -> None:
    model = Model(tied=True)
    before = weight_bytes(model)
    del model.layer

    assert weight_bytes(model) == before

"""What each pass of a model has to read and to compute."""

from types import SimpleNamespace

import pytest
from torch import nn

from latencytrace.agent.toolkit.models.weights import model_size

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
    size = model_size(Model(tied=tied))

    assert size is not None
    assert size.weight_bytes == WIDTH * WIDTH * 4 + TABLE


@pytest.mark.parametrize("tied", [True, False])
def test_only_what_is_predicted_from_goes_through_the_head(*, tied: bool) -> None:
    size = model_size(Model(tied=tied).half())

    assert size is not None
    assert size.pass_flops(tokens=7, rows=2) == 2 * (7 * WIDTH * WIDTH + 2 * WORDS * WIDTH)


def test_operations_are_reported_in_half_precision_alone() -> None:
    size = model_size(Model(tied=True))

    assert size is not None
    assert size.pass_flops(tokens=7, rows=2) is None


@pytest.mark.parametrize(
    "config", [{"num_local_experts": 8}, {"is_encoder_decoder": 1}, {"vision_config": 1}]
)
def test_of_a_model_that_need_not_use_all_weights_nothing_is_known(config: dict[str, int]) -> None:
    model = Model(tied=True, **config)

    assert (model_size(model), model_size(model)) == (None, None)


def test_a_model_is_weighed_once() -> None:
    model = Model(tied=True)
    before = model_size(model)
    del model.layer

    assert model_size(model) is before

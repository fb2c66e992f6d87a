"""The hook of torch's models with nothing named: the outermost module is one span."""

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from latencytrace.agent.hooks.torch import TorchHook
from latencytrace.agent.hooks.torch_forward import TorchForwardHook
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, in_request
from tests.support.models.torch_modules import CallsItself, Encoder, Fails, WideEncoder

HOOKS = (TorchForwardHook,)
INPUT = torch.ones(3, 2)
JIT: Any = torch.jit  # which has no types


def test_a_model_within_a_request_is_one_span_whatever_modules_are_inside(spans: Spans) -> None:
    model = Encoder().eval()
    model(INPUT)  # outside of any request
    answers: list[torch.Tensor] = []

    in_request(spans, lambda: answers.append(model(INPUT)))

    assert torch.equal(answers[0], INPUT + 1)
    forward, request = spans.all
    assert (forward.name, forward.parent_id) == ("Encoder", request.span_id)
    assert dict(forward.attributes) == {semconv.STAGE: Stage.FORWARD, semconv.BATCH_SIZE: 3}


def test_a_sequence_of_layers_is_a_model_and_a_layer_is_none(spans: Spans) -> None:
    layer = nn.Linear(2, 2).eval()
    model = nn.Sequential(nn.Sequential(layer), nn.ReLU()).eval()

    in_request(spans, lambda: (layer(INPUT), model(INPUT)))

    assert spans.names == ["Sequential", "request"]
    assert "__call__" not in vars(nn.Linear)


def test_a_subclass_is_a_model_of_its_own_name(spans: Spans) -> None:
    model = Encoder().eval()
    wide = WideEncoder().eval()

    in_request(spans, lambda: (model(INPUT), wide(INPUT)))

    assert spans.names == ["Encoder", "WideEncoder", "request"]


def test_a_class_that_has_its_own_way_to_be_called_keeps_it(spans: Spans) -> None:
    model = CallsItself().eval()

    in_request(spans, lambda: model(INPUT))

    assert spans.names == ["request"]


def test_an_error_passes_through_and_fails_the_span(spans: Spans) -> None:
    model = Fails().eval()

    def work() -> None:
        with pytest.raises(LookupError):
            model(INPUT)

    in_request(spans, work)

    assert spans.all[0].attributes[semconv.ERROR_TYPE] == "LookupError"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_compiled_model_is_one_graph_and_one_span(spans: Spans, *, in_place: bool) -> None:
    torch.compiler.reset()
    model: Any = Encoder().eval()
    if in_place:
        model.compile(backend="eager", fullgraph=True)
    else:
        model = torch.compile(model, backend="eager", fullgraph=True)

    in_request(spans, lambda: model(INPUT))

    torch.compiler.reset()
    assert spans.names == ["Encoder", "request"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [JIT.script, lambda model: JIT.trace(model, INPUT)])
def test_a_model_of_torchscript_is_one_span_also_once_it_is_loaded(
    spans: Spans, make: Callable[[nn.Module], Any]
) -> None:
    file = io.BytesIO()
    JIT.save(make(Encoder().eval()), file)
    file.seek(0)
    model = JIT.load(file)
    answers: list[torch.Tensor] = []

    in_request(spans, lambda: answers.append(model(INPUT)))

    assert torch.equal(answers[0], INPUT + 1)
    assert spans.names == ["Encoder", "request"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [JIT.script, lambda model: JIT.trace(model, INPUT)])
def test_a_model_of_torchscript_is_one_span_as_it_was_made(
    spans: Spans, make: Callable[[nn.Module], Any]
) -> None:
    model = make(Encoder().eval()).eval()
    answers: list[torch.Tensor] = []

    in_request(spans, lambda: answers.append(model(INPUT)))

    assert torch.equal(answers[0], INPUT + 1)
    assert spans.names == ["Encoder", "request"]


def test_a_model_can_be_exported_copied_and_pickled(spans: Spans) -> None:
    model = Encoder().eval()

    exported = torch.export.export(model, (INPUT,)).module()
    copied = pickle.loads(pickle.dumps(model))  # noqa: S301 - ours

    assert torch.equal(exported(INPUT), INPUT + 1)
    in_request(spans, lambda: copied(INPUT))
    assert spans.names == ["Encoder", "request"]


def test_a_class_that_is_named_as_well_is_one_span() -> None:
    named = HookOptions(torch_modules=("tests.support.models.torch_modules:Encoder",))
    with hooked(TorchForwardHook, TorchHook, options=named) as spans:
        model = Encoder().eval()
        in_request(spans, lambda: model(INPUT))

    assert spans.names == ["Encoder", "request"]


def test_nothing_is_left_of_it_once_it_is_not_applied() -> None:
    with hooked(TorchForwardHook):
        model = Encoder().eval()
        assert "__call__" in vars(Encoder)

    assert "__call__" not in vars(Encoder)
    assert torch.equal(model(INPUT), INPUT + 1)


def test_torch_can_be_imported_after_the_hook_is_applied() -> None:
    code = (
        "from latencytrace.agent.hooks.torch_forward import TorchForwardHook\n"
        "from latencytrace.agent.timing.patching import AppliedHook\n"
        "from tests.support.agent.hooked import Spans, in_request\n"
        "spans = Spans()\n"
        "hook = AppliedHook('torch_forward', TorchForwardHook, spans.recorder)\n"
        "import torch\n"
        "from tests.support.models.torch_modules import Encoder\n"
        "model = Encoder().eval()\n"
        "scripted = torch.jit.freeze(torch.jit.script(Encoder().eval()))\n"
        "given = torch.ones(3, 2)\n"
        "in_request(spans, lambda: (model(given), scripted(given)))\n"
        "print(spans.names, hook.status.state)\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.stdout == "['Encoder', 'Encoder', 'request'] applied\n"

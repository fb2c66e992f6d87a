"""The hook of torch modules, compiled and not."""

from collections.abc import Callable, Iterator

import pytest
import torch
from opentelemetry.trace import StatusCode
from torch import Tensor, fx, nn

from latencytrace.agent.hooks.torch import TorchHook
from latencytrace.agent.hooks.transformers import TransformersHook
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.agent.timing.patching import AppliedHook, HookState
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, attribute_text, hooked, interval_stages
from tests.support.models.tiny_chat import TinyChat
from tests.support.models.torch_modules import Block, CallsItself, Encoder, Fails, WideEncoder

MODULE = "tests.support.models.torch_modules"
X = torch.arange(4.0)


def naming(*names: str) -> HookOptions:
    return HookOptions(torch_modules=names)


@pytest.fixture
def spans() -> Iterator[Spans]:
    names = [f"{MODULE}:{name}" for name in ("Encoder", "Block", "Fails", "CallsItself")]
    with hooked(TorchHook, options=naming(*names)) as spans:
        yield spans


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def compiled(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """As one graph: whatever breaks it raises."""
    return torch.compile(module, backend="eager", fullgraph=True)


def test_a_named_module_is_one_span_and_what_is_inside_of_it_none(spans: Spans) -> None:
    answer = Encoder()(X)

    assert answer.tolist() == (X + 1).tolist()
    assert (spans.names, spans.stages) == (["Encoder"], [Stage.FORWARD])


def test_a_subclass_of_a_named_class_is_timed_too(spans: Spans) -> None:
    WideEncoder()(X)

    assert spans.names == ["Encoder"]


def test_a_bare_name_means_every_class_of_it_wherever_it_lies() -> None:
    with hooked(TorchHook, options=naming("Encoder", "no.such_module:Encoder")) as spans:
        Encoder()(X)
        WideEncoder()(X)
        compiled(Encoder())(X)
        nn.Linear(4, 4)(X)

    assert spans.names == ["Encoder", "Encoder", "Encoder"]


def test_a_name_that_means_nothing_costs_itself_alone(caplog: pytest.LogCaptureFixture) -> None:
    wrong = ("", "a module:", ":Encoder", "no class")
    with hooked(TorchHook, options=naming(f"{MODULE}.Encoder", *wrong)) as spans:
        Encoder()(X)

    assert spans.names == ["Encoder"]
    assert [record.args for record in caplog.records] == [(name,) for name in wrong]


def test_a_class_with_a_call_of_its_own_keeps_it(spans: Spans) -> None:
    assert CallsItself()(X).tolist() == (X * 2).tolist()
    assert spans.names == ["CallsItself"]


def test_a_class_can_be_named_by_where_it_is_exported() -> None:
    layer = nn.Linear(4, 4)

    with hooked(TorchHook, options=naming("torch.nn:Linear")) as spans:
        layer(X)

    assert spans.names == ["Linear"]


def test_every_module_can_be_named_at_once() -> None:
    with hooked(TorchHook, options=naming("torch.nn:Module")) as spans:
        Encoder()(X)

    assert spans.names == ["Module"]


def test_hooks_of_the_program_on_a_module_run_within_its_span(spans: Spans) -> None:
    module, seen = Encoder(), []
    module.register_forward_hook(lambda *_: seen.append(len(spans.all)))

    module(X)

    assert seen == [0]
    assert len(spans.all) == 1


def test_what_a_module_raises_passes_through(spans: Spans) -> None:
    with pytest.raises(LookupError):
        Fails()(X)

    assert spans.only.status.status_code is StatusCode.ERROR
    assert "secret" not in attribute_text(spans)


def test_a_compiled_module_stays_one_graph_and_is_one_span_a_call(spans: Spans) -> None:
    module = compiled(Encoder())

    answers = [module(X), module(X)]

    assert [answer.tolist() for answer in answers] == [(X + 1).tolist()] * 2
    assert (spans.names, spans.stages) == (["Encoder"] * 2, [Stage.FORWARD] * 2)


def test_a_module_compiled_in_place_does_too(spans: Spans) -> None:
    module = Encoder()
    module.compile(backend="eager", fullgraph=True)

    module(X)

    assert spans.names == ["Encoder"]


def test_a_named_module_within_a_compiled_one_breaks_no_graph(spans: Spans) -> None:
    module = compiled(nn.Sequential(Encoder(), Block()))

    assert module(X).tolist() == (X + 1).tolist()
    assert spans.all == []


def test_a_named_module_in_a_compiled_function_breaks_no_graph(spans: Spans) -> None:
    module = Encoder()

    @torch.compile(backend="eager", fullgraph=True)
    def twice(x: Tensor) -> Tensor:
        answer: Tensor = module(module(x))
        return answer

    assert twice(X).tolist() == (X + 2).tolist()
    assert spans.all == []


def test_a_module_compiled_before_the_hook_is_applied_is_timed_and_stays_one_graph() -> None:
    module = compiled(Encoder())
    module(X)

    with hooked(TorchHook, options=naming(f"{MODULE}:Encoder")) as spans:
        module(X)
    module(X)

    assert spans.names == ["Encoder"]


def test_a_module_can_be_exported(spans: Spans) -> None:
    exported = torch.export.export(Encoder(), (X,))

    assert exported.module()(X).tolist() == (X + 1).tolist()
    assert spans.all == []


@pytest.mark.usefixtures("spans")
def test_a_module_can_be_traced_symbolically() -> None:
    class Leaf(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, _: str) -> bool:
            return isinstance(m, Block)

    graph = Leaf().trace(Encoder())

    assert [node.target for node in graph.nodes if node.op == "call_module"] == ["inner"]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_a_module_can_be_scripted(spans: Spans) -> None:
    scripted = torch.jit.script(Encoder())

    assert scripted(X).tolist() == (X + 1).tolist()
    assert spans.all == []


def test_a_model_that_generates_is_prefill_and_decode_and_nothing_more(
    tiny_chat: TinyChat,
) -> None:
    name = "transformers.models.llama.modeling_llama:LlamaForCausalLM"

    with hooked(TransformersHook, TorchHook, options=naming(name)) as spans:
        tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=4, do_sample=False)
        tiny_chat.model(tiny_chat.prompt())

    assert spans.names == ["prefill", "decode", "generate", "LlamaForCausalLM"]
    assert interval_stages(spans.all[2]) == set()


def test_a_part_of_a_model_that_generates_is_noted_as_intervals(tiny_chat: TinyChat) -> None:
    name = "transformers.models.llama.modeling_llama:LlamaMLP"

    with hooked(TransformersHook, TorchHook, options=naming(name)) as spans:
        tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=4, do_sample=False)

    assert spans.names == ["prefill", "decode", "generate"]
    assert interval_stages(spans.all[2]) == {Stage.FORWARD}


def test_without_a_name_nothing_is_patched(spans: Spans) -> None:
    hook = AppliedHook("torch", TorchHook, spans.recorder)

    assert hook.status.state is HookState.WAITING
    assert hook.status.reason == "nothing that it could time is named in the settings"


def test_a_class_that_is_not_there_is_said(spans: Spans) -> None:
    hook = AppliedHook("torch", TorchHook, spans.recorder, naming(f"{MODULE}:Missing"))

    status = hook.status
    hook.restore()
    assert status.reason == f"not found: {MODULE}.Missing.__call__"


def test_restoring_leaves_the_very_same_classes() -> None:
    with hooked(TorchHook, options=naming("torch.nn:Linear")):
        patched = "__call__" in vars(nn.Linear)

    assert patched
    assert "__call__" not in vars(nn.Linear)

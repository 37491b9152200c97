"""The two kinds of file: a whole sequence, and one step of a stream."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, ValueInfoProto, checker, helper

from ..folder import Folder
from .graph import Graph, Value, typed
from .step import State, Step

OPSET = 18
# What onnxruntime reads since 2023, long before the newest one.
IR_VERSION = 9


def model_file(model: Folder, step: bool) -> bytes:
    """The bytes of a file."""
    g, parts = Graph(), Step(model)
    width = [] if model.tokens else [model.options.input_size]
    dimensions: list[int | str] = ["batch", *([] if step else ["time"]), *width]
    inputs = [typed("x", TensorProto.INT64 if model.tokens else TensorProto.FLOAT, *dimensions)]
    if step:
        names = {name: f"state_{name}" for name in parts.state()}
        inputs += [typed(names[name], dtype, *shape) for name, (dtype, shape) in parts.state().items()]
        hidden, summary, after = parts.run(g, parts.project(g, "x", model.tokens), names)
    else:
        hidden, summary, after = _sequence(g, parts, model.tokens)
    outputs = []
    leading = dimensions[: 1 if step else 2]
    if "output.v1" in model.tensors:
        v1, v2, bias = (g.constant(model.tensors[f"output.{name}"].T) for name in ("v1", "v2", "bias"))
        y = g("Add", g("Add", g("MatMul", hidden, v1), g("MatMul", summary, v2)), bias)
        outputs.append(typed(g.named("y", y), TensorProto.FLOAT, *leading, model.output_size))
    for name, value in (("hidden", hidden), ("summary", summary)):
        outputs.append(typed(g.named(name, value), TensorProto.FLOAT, *leading, model.options.hidden_size))
    for name, (dtype, shape) in parts.state().items():
        shape = ["next_slots" if size == "slots" else size for size in shape]
        outputs.append(typed(g.named(f"next_{name}", after[name]), dtype, *shape))
    graph = g.proto("step" if step else "sequence", inputs, outputs)
    graph.initializer.extend(g.names.initializers)
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    file.producer_name = "attentive"
    checker.check_model(file, full_check=True)
    return bytes(file.SerializeToString())


def _sequence(g: Graph, parts: Step, tokens: bool) -> tuple[Value, Value, State]:
    """A loop over the steps, from a fresh state."""
    x = g("Transpose", "x", perm=[1, 0] if tokens else [1, 0, 2])  # [time, batch, ...]
    time, batch = g("Shape", x, start=0, end=1), g("Shape", x, start=1, end=2)
    projected = parts.project(g, x, tokens)
    start = {}
    for name, (dtype, shape) in parts.state().items():
        known = [size if isinstance(size, int) else 1 for size in shape[1:]]
        if shape:
            sizes = g("Concat", batch, g.integers(*known), axis=0)
            start[name] = g("Expand", g.constant(0.0), sizes)
        else:
            start[name] = g.constant(0, np.int64 if dtype == TensorProto.INT64 else np.float32)

    body = Graph(g.names)
    number, go_on = body.names.fresh("number"), body.names.fresh("go_on")
    before = {name: body.names.fresh(name) for name in start}
    hidden, summary, after = parts.run(body, body("Gather", projected, number, axis=0), before)
    inputs: list[ValueInfoProto] = [
        typed(number, TensorProto.INT64),
        typed(go_on, TensorProto.BOOL),
        *(_of_any_shape(before[name], dtype) for name, (dtype, _) in parts.state().items()),
    ]
    outputs = [body("Identity", value) for value in (go_on, *after.values(), hidden, summary)]
    types = [TensorProto.BOOL, *(dtype for dtype, _ in parts.state().values()), TensorProto.FLOAT, TensorProto.FLOAT]
    infos = [_of_any_shape(name, dtype) for name, dtype in zip(outputs, types, strict=True)]
    found = g.several(
        "Loop",
        len(start) + 2,
        g("Squeeze", time),
        "",
        *(start[name] for name in parts.state()),
        body=body.proto("body", inputs, infos),
    )
    *last, hidden, summary = found
    turned = [g("Transpose", value, perm=[1, 0, 2]) for value in (hidden, summary)]
    return turned[0], turned[1], dict(zip(parts.state(), last, strict=True))


def _of_any_shape(name: Value, dtype: int) -> ValueInfoProto:
    """A tensor whose shape may change from step to step."""
    return helper.make_tensor_value_info(name, dtype, None)

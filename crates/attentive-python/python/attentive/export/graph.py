"""A graph of ONNX operations, written like a program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

Value = str
"""The name of a tensor in the graph."""


class Names:
    """Names and constants that a graph shares with the graphs inside it."""

    def __init__(self) -> None:
        self.count = itertools.count()
        self.constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self.initializers: list[TensorProto] = []

    def fresh(self, word: str) -> Value:
        """A name that is not in use."""
        return f"{word}_{next(self.count)}"


class Graph:
    """Nodes in the order of their computation."""

    def __init__(self, names: Names | None = None) -> None:
        self.names = Names() if names is None else names
        self.nodes: list[NodeProto] = []

    def __call__(self, operation: str, *inputs: Value, **attributes: Any) -> Value:
        """Adds an operation with one output."""
        return self.several(operation, 1, *inputs, **attributes)[0]

    def several(self, operation: str, count: int, *inputs: Value, **attributes: Any) -> list[Value]:
        """Adds an operation with several outputs."""
        outputs = [self.names.fresh(operation.lower()) for _ in range(count)]
        self.nodes.append(helper.make_node(operation, list(inputs), outputs, **attributes))
        return outputs

    def named(self, name: Value, value: Value) -> Value:
        """The value under a name of its own."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        return name

    def constant(self, value: ArrayLike, dtype: Any = np.float32) -> Value:
        """A constant. The same constant exists once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.names.constants:
            name = self.names.fresh("constant")
            self.names.constants[key] = name
            self.names.initializers.append(
                numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            )
        return self.names.constants[key]

    def integers(self, *values: int) -> Value:
        """A list of whole numbers."""
        return self.constant(values, np.int64)

    def where(
        self, condition: Value, then: Callable[[Graph], list[Value]], other: Callable[[Graph], list[Value]]
    ) -> list[Value]:
        """Computes one of two branches, which have equally many outputs."""
        branches = []
        for body in (then, other):
            inner = Graph(self.names)
            values = body(inner)
            # A branch must not return a value from outside of it directly.
            outputs = [inner("Identity", value) for value in values]
            branches.append(inner.proto("branch", [], [untyped(name) for name in outputs]))
        outputs = [self.names.fresh("if") for _ in values]
        self.nodes.append(
            helper.make_node("If", [condition], outputs, then_branch=branches[0], else_branch=branches[1])
        )
        return outputs

    def proto(self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> GraphProto:
        """The graph for a file, without constants."""
        return helper.make_graph(self.nodes, name, inputs, outputs)


def untyped(name: Value) -> ValueInfoProto:
    """A tensor of which the graph says nothing: its type follows from its computation."""
    return ValueInfoProto(name=name)


def typed(name: Value, dtype: int, *dimensions: int | str) -> ValueInfoProto:
    """A tensor with a type and a shape; words stand for dimensions of any size."""
    return helper.make_tensor_value_info(name, dtype, list(dimensions))

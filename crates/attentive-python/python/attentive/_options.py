"""The options of a layer, which its constructor, model folders and ONNX files share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ._engine import Model


class Declared(NamedTuple):
    """A parameter that the layer's parts declare."""

    name: str
    """Its name in the layer, such as `weight_ih`."""
    shape: tuple[int, ...]
    """In PyTorch's order: `[d_output, d_input]` for a matrix."""
    owner: str
    """`"cell"` or `"scorer"`."""
    gain: str
    """Which gain scales its first values."""
    constant: float | None
    """Its first value; `None` if it is drawn."""

    @property
    def name_in_folder(self) -> str:
        """Its name in `model.safetensors`."""
        return {"cell": "lstm.", "scorer": "attention."}[self.owner] + self.name


@dataclass(frozen=True)
class Options:
    """The sizes, parts and options of a layer; docs/model.md in the repository explains each."""

    input_size: int
    hidden_size: int
    k_top: int | str = 5
    k_att: int = 1
    k_trunc: int | str | None = 5
    trunc_phase: int | str = "random"
    mental_updates: bool = True
    score_gradient: str = "weights"
    hops: str = "all"
    cell: str = "lstm"
    scorer: str = "additive"
    sparsifier: str = "prominence"
    store: str = "every"
    novelty: float = 0.1
    capacity: int | None = None
    evict: str = "oldest"
    credit_across_calls: bool = False

    @cached_property
    def model(self) -> Model:
        """The engine's description of the layer. An invalid option is a `ValueError` or a `TypeError`."""
        return Model(
            self.input_size,
            self.hidden_size,
            cell=self.cell,
            scorer=self.scorer,
            sparsifier=self.sparsifier,
            store=self.store,
            novelty=self.novelty,
            capacity=self.capacity,
            evict=self.evict,
            k_top=self.k_top,
            k_att=self.k_att,
            k_trunc=self.k_trunc,
            trunc_phase=self.trunc_phase,
            mental_updates=self.mental_updates,
            score_gradient=self.score_gradient,
            hops=self.hops,
            credit_across_calls=self.credit_across_calls,
        )

    @cached_property
    def parameters(self) -> tuple[Declared, ...]:
        """The parameters in the engine's order."""
        declared = self.model.parameters()
        return tuple(Declared(name, tuple(shape), owner, gain, start) for name, shape, owner, gain, start in declared)

    @property
    def attends(self) -> bool:
        """Whether the layer uses attention at all."""
        return self.k_top != 0

    def __getstate__(self) -> dict[str, object]:
        """The options alone; the engine's description is made again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("model", "parameters")}

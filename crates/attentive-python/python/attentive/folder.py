"""Model folders: `model.safetensors` and `config.json`, as `sab` writes and reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._options import Options
from .safetensors import read_tensors, to_bytes

if TYPE_CHECKING:
    from .nn import SabModel

FORMAT = 1
MODEL, CONFIG, RUN_CONFIG = "model.safetensors", "config.json", "config.toml"

# The keys of `model` in config.json. A missing one has the default.
_KEYS = [name for name in Options.__dataclass_fields__ if name not in ("input_size", "hidden_size")]
_START = {"bound": "auto", "input_gain": 1.0, "attention_gain": 1.0, "score_gain": 1.0, "forget_bias": 0.0}


@dataclass
class Folder:
    """What a model folder holds."""

    options: Options
    tokens: bool
    """Whether inputs are tokens; dense otherwise."""
    classes: int | None
    """The number of classes; `None` if the output is one number."""
    tensors: dict[str, NDArray[np.float32]]
    """By their names in the folder; those of the layer without `lstm.` and `attention.`."""
    task: str = "none"
    facts: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=lambda: dict(_START))

    @property
    def output_size(self) -> int:
        """The number of outputs."""
        return 1 if self.classes is None else self.classes


def read_folder(folder: str | os.PathLike[str]) -> Folder:
    """Reads a run directory or a model folder, and checks that its two files fit each other."""
    folder = Path(folder)
    for name in (CONFIG, MODEL):
        if not (folder / name).is_file():
            hint = "`sab train` and `attentive.save_folder` write model folders"
            if folder.is_dir() and name == MODEL:
                hint = "the first validation of `sab train` saves the model"
            raise FileNotFoundError(f"{folder} is not a model folder: it has no {name}; {hint}")
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as why:
        raise ValueError(f"{path} is not valid JSON ({why}): restore it, or train again") from None
    try:
        found = _described(config)
    except (KeyError, TypeError, AttributeError, ValueError) as why:
        reason = f"`{why.args[0]}` is missing" if isinstance(why, KeyError) else str(why)
        raise ValueError(f"{path} does not describe a model of this version ({reason})") from None
    tensors, _ = read_tensors(folder / MODEL)
    wanted = {declared.name_in_folder: (declared.name, declared.shape) for declared in found.options.parameters}
    matrix = (found.output_size, found.options.hidden_size)
    outputs = {"output.v1": matrix, "output.v2": matrix, "output.bias": matrix[:1]}
    wanted |= {name: (name, shape) for name, shape in outputs.items()}
    for name in sorted(wanted.keys() | tensors.keys()):
        if name not in wanted or name not in tensors:
            what = "is missing" if name in wanted else "is not a parameter of this model"
            raise ValueError(f"{folder / MODEL} does not fit its {CONFIG}: `{name}` {what}")
        shape, right = tensors[name].shape, wanted[name][1]
        if shape != right or tensors[name].dtype != np.float32:
            got = f"{tensors[name].dtype} of shape {list(shape)}"
            raise ValueError(
                f"{folder / MODEL} does not fit its {CONFIG}: `{name}` is {got}, not {list(right)} float32"
            )
        if not np.isfinite(tensors[name]).all():
            raise ValueError(f"{folder / MODEL} holds a NaN or an infinity in `{name}`: copy it again, or train again")
    found.tensors = {own: tensors[name] for name, (own, _) in wanted.items()}
    return found


def _described(config: Any) -> Folder:
    """The model that config.json describes, without its tensors."""
    if config["format"] != FORMAT:
        raise ValueError(f"its format is {config['format']}, this version reads {FORMAT}")
    settings = dict(config["model"])
    if (kind := settings.pop("kind")) != "sab":
        raise ValueError(f'the model is of kind "{kind}", but only "sab" is recurrent')
    start = {**_START, **settings.pop("start", settings.pop("initialization", {}))}
    hidden = settings.pop("hidden")
    settings.pop("input", None)
    if unknown := sorted(set(settings) - set(_KEYS)):
        raise ValueError(f"`model.{unknown[0]}` is not known")
    if settings.get("capacity") == "none":
        settings["capacity"] = None
    ((input_kind, input_size),) = config["input"].items()
    if input_kind not in ("tokens", "dense"):
        raise ValueError(f"`input` is {input_kind}, not tokens or dense")
    output = config["output"]
    options = Options(input_size, hidden, **settings)
    if config["gates"] != options.model.gates:
        raise ValueError(f'`gates` is "{config["gates"]}", but the cell has "{options.model.gates}"')
    classes = None if output == "value" else output["classes"]
    if classes is not None and (type(classes) is not int or classes < 1):
        raise ValueError(f"`output` has {classes!r} classes")
    return Folder(options, input_kind == "tokens", classes, {}, config["task"], config.get("facts", {}), start)


def save_folder(
    model: SabModel,
    folder: str | os.PathLike[str],
    *,
    inputs: Literal["tokens", "dense"] | None = None,
    output: Literal["classes", "value"] | None = None,
    task: str | Mapping[str, Any] | None = None,
    update: int | None = None,
) -> None:
    """Writes a model as `sab` does, so that its commands and `attentive.load` read it.

    Args:
        model: the layer and its output layer.
        folder: where to write `model.safetensors` and `config.json`; it is created if need be. Other files of a run
            directory stay as they are.
        inputs: whether the layer's inputs are tokens or dense; not needed for a model that was read from a folder.
        output: whether outputs are the scores of classes or one number; by default one output is a number.
        task: the settings of a task of `sab`, such as `{"name": "copy", "length": 100}`. They are written to
            `config.toml` if there is none, so that `sab eval`, `transfer` and `attention` run on the folder. A word is
            only noted in `config.json`.
        update: the number of updates that the model was trained for, for `sab`'s own records.
    """
    folder, read = Path(folder), model.folder
    options = model.lstm.options
    if inputs is None and read is None:
        raise ValueError('pass `inputs="tokens"` or `inputs="dense"`: the layer takes both, a folder names one')
    tokens = inputs == "tokens" if inputs is not None else bool(read and read.tokens)
    size = model.readout.output_size
    if output is None:
        output = "value" if size == 1 and (read is None or read.classes is None) else "classes"
    if output == "value" and size != 1:
        raise ValueError(f'`output` is "value", but the output layer has {size} outputs')
    name = task["name"] if isinstance(task, Mapping) else task
    start = read.start if read is not None else _START
    settings = {"kind": "sab", "hidden": options.hidden_size, **_settings(options), "start": start}
    config = {
        "format": FORMAT,
        "task": name if name is not None else read.task if read is not None else "none",
        "input": {"tokens" if tokens else "dense": options.input_size},
        "output": {"classes": size} if output == "classes" else "value",
        "gates": options.model.gates,
        "model": settings,
        "facts": read.facts if read is not None else {},
    }
    names = {declared.name: declared.name_in_folder for declared in options.parameters}
    tensors = {names[name]: value.detach().numpy() for name, value in model.lstm.named_parameters()}
    tensors |= {f"output.{name}": value.detach().numpy() for name, value in model.readout.named_parameters()}
    for name, values in tensors.items():
        if not np.isfinite(values).all():
            raise ValueError(f"`{name}` holds a NaN or an infinity: nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / MODEL, to_bytes(tensors, None if update is None else {"update": update}))
    _write(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    if isinstance(task, Mapping) and not (folder / RUN_CONFIG).exists():
        # No task of `sab` trains with credit across calls, so its settings have no such key.
        known = {key: value for key, value in settings.items() if key != "credit_across_calls"}
        _write(folder / RUN_CONFIG, _toml({"task": dict(task), "model": known}).encode())


def _settings(options: Options) -> dict[str, Any]:
    settings = {name: getattr(options, name) for name in _KEYS}
    for name in ("k_trunc", "capacity"):
        if settings[name] is None:
            settings[name] = "none"
    # As `sab` writes it: only where it is set.
    if not settings["credit_across_calls"]:
        del settings["credit_across_calls"]
    return settings


def _write(path: Path, content: bytes) -> None:
    """Writes a file that is there whole or not at all."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def _toml(table: Mapping[str, Any], path: str = "") -> str:
    """A table as TOML: its values, then the tables in it."""
    lines = [f"[{path}]"] if path else []
    # Strings, numbers, booleans and lists of them are written in TOML as in JSON.
    lines += [f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    inner = [_toml(value, f"{path}.{key}".lstrip(".")) for key, value in table.items() if isinstance(value, Mapping)]
    return "\n".join([*lines, "", *inner]).lstrip("\n")

"""Files of tensors in the safetensors format, as NumPy arrays.

The format is a header in JSON and the numbers behind it. These two functions read and write what model folders hold, so
that the package needs nothing but NumPy. `sab` adds a digest of all tensors, which is checked here.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_LONGEST_HEADER = 100_000_000
_METADATA = "sab"


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The tensors of a file by name, and its metadata. A damaged file is a `ValueError` that says so."""
    path = Path(path)
    content = path.read_bytes()
    try:
        tensors, metadata = _parse(content)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as why:
        reason = str(why) or type(why).__name__
        raise ValueError(f"{path} is not a safetensors file or is damaged ({reason}): copy it again") from None
    envelope = metadata.get(_METADATA)
    if envelope is not None:
        _check_digest(path, tensors, envelope)
    return tensors, metadata


def _parse(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(len(content) - 8, _LONGEST_HEADER):
        raise ValueError("its header is cut off")
    header = json.loads(content[8 : 8 + length].decode("utf-8"))
    metadata = header.pop("__metadata__", {})
    body = memoryview(content)[8 + length :]
    tensors, filled = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = entry["data_offsets"]
        dtype, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"])
        if any(type(size) is not int or size < 0 for size in shape):
            raise ValueError(f"`{name}` has shape {list(shape)}")
        if start != filled or end - start != dtype.itemsize * int(np.prod(shape, dtype=object)) or end > len(body):
            raise ValueError(f"`{name}` does not lie where its shape says")
        filled = end
        tensors[name] = np.frombuffer(body[start:end], dtype).reshape(shape)
    if filled != len(body):
        raise ValueError("its numbers and its header do not match")
    return tensors, {str(key): str(value) for key, value in metadata.items()}


def _check_digest(path: Path, tensors: Mapping[str, NDArray[Any]], envelope: str) -> None:
    try:
        wanted = json.loads(envelope)["sha256"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} has metadata that this version cannot read") from None
    if digest(tensors) != wanted:
        raise ValueError(f"{path} is damaged: its tensors do not have the digest in its header; copy it again")


def digest(tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over names, shapes and numbers, by name, as `sab` computes it."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(str(list(tensors[name].shape)).encode())
        found.update(np.ascontiguousarray(tensors[name], "<f4").tobytes())
    return found.hexdigest()


def to_bytes(tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any] | None = None) -> bytes:
    """The bytes of a file; with facts and `sab`'s digest of float32 tensors in its metadata, if there are any."""
    arrays = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
    header: dict[str, Any] = {}
    if facts is not None:
        header["__metadata__"] = {_METADATA: json.dumps({"sha256": digest(arrays), **facts})}
    start = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": _NAMES[array.dtype.newbyteorder("<").str],
            "shape": list(array.shape),
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the numbers stay aligned
    return struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values())

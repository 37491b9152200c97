"""Exchanges models between `sab` and PyTorch, in both directions.

    python exchange.py read RUN        run a model trained by `sab train` in PyTorch
    python exchange.py write FOLDER    train an `nn.LSTM` in PyTorch and write a model folder for `sab` and Attentive

RUN and FOLDER hold `model.safetensors` and `config.json`; README.md has the names and shapes. `write` adds an
`example.safetensors` with inputs and PyTorch's outputs. These commands read the folder:

    cargo run --release --example from_pytorch FOLDER
    sab info FOLDER

For a golden folder, `read` prints the options of its model and its answers to a random sequence. `write` prints

    trained to a loss of 0.0155; the reference differs from nn.LSTM by 2.0e-06
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from check_model import FORMAT, GATES, load_model, run, sizes

SYMBOLS, HIDDEN, CLASSES, STEPS = 5, 16, 5, 12


def read(folder: Path):
    """Loads a model and runs it on a sequence. Your own program only needs `load_model`."""
    model = load_model(folder)  # every tensor by name, and k_top, k_att, ... from config.json
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokens, inputs, outputs = sizes(config)
    torch.manual_seed(1)
    sequence = torch.randint(inputs, (1, 8)) if tokens else torch.randn(1, 8, inputs)
    y, _ = run(model, sequence)  # [1, 8, outputs]; the scores of all memories are the second result
    print(f"task {config['task']}, {model.options}")
    if outputs > 1:
        print("softmax of the last step:", [round(p, 4) for p in y[0, -1].softmax(0).tolist()])
    else:
        print("output of the last step:", round(y[0, -1, 0].item(), 4))


def train_lstm() -> tuple[nn.LSTM, nn.Linear, float]:
    """An LSTM that repeats the symbol from three steps ago. Any PyTorch model would do."""
    torch.manual_seed(1)
    lstm, head = nn.LSTM(SYMBOLS, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)
    adam = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(400):
        tokens = torch.randint(SYMBOLS, (32, STEPS))
        y = head(lstm(nn.functional.one_hot(tokens, SYMBOLS).float())[0])
        loss = nn.functional.cross_entropy(y[:, 3:].flatten(0, 1), tokens[:, :-3].flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return lstm, head, loss.item()


def write(folder: Path):
    """Saves an `nn.LSTM` with a linear output. It is the model of the family without reminders: k_top is 0."""
    lstm, head, loss = train_lstm()
    with torch.no_grad():
        tokens = torch.randint(SYMBOLS, (3, STEPS))
        outputs = head(lstm(nn.functional.one_hot(tokens, SYMBOLS).float())[0])
    tensors = {
        "lstm.weight_ih": lstm.weight_ih_l0,  # PyTorch's gates have the same order, i, f, g, o
        "lstm.weight_hh": lstm.weight_hh_l0,
        "lstm.bias": lstm.bias_ih_l0 + lstm.bias_hh_l0,  # two biases in PyTorch, one here (R1)
        "attention.w1": torch.zeros(HIDDEN, HIDDEN),  # not used if k_top is 0, but they must be present
        "attention.w2": torch.zeros(HIDDEN, HIDDEN),
        "attention.w3": torch.zeros(HIDDEN),
        "output.v1": head.weight,
        "output.v2": torch.zeros(CLASSES, HIDDEN),  # the summary is zero
        "output.bias": head.bias,
    }
    model = {"kind": "sab", "hidden": HIDDEN, "k_top": 0, "k_att": 1, "k_trunc": "none", "trunc_phase": 0,
             "mental_updates": True, "score_gradient": "weights", "hops": "all",
             "start": {"bound": "auto", "input_gain": 1.0, "attention_gain": 1.0, "score_gain": 1.0, "forget_bias": 0.0}}
    config = {"format": FORMAT, "task": "symbols", "input": {"tokens": SYMBOLS}, "output": {"classes": CLASSES},
              "gates": GATES, "model": model, "facts": {}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    save_file({"tokens": tokens, "outputs": outputs.contiguous()}, folder / "example.safetensors")
    # The reference agrees, so the file describes the trained model.
    difference = (run(load_model(folder), tokens)[0] - outputs).abs().max().item()
    print(f"trained to a loss of {loss:.4f}; the reference differs from nn.LSTM by {difference:.1e}")
    assert difference < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("direction", choices=["read", "write"])
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    (read if arguments.direction == "read" else write)(arguments.folder)


if __name__ == "__main__":
    main()

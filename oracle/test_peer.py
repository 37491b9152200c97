"""Compares the peer with the reference. `python test_peer.py` runs the tests; pytest finds them as well."""

import torch

import sab_reference
from peer import ModulesSabLstm, SabLstm
from sab_reference import Options, Weights

torch.set_default_dtype(torch.float64)


def weights_of(peer) -> list[torch.nn.Parameter]:
    """The parameters of a peer in the order of `Weights`."""
    if isinstance(peer, ModulesSabLstm):
        return [peer.cell.weight_ih, peer.cell.weight_hh, peer.cell.bias_ih, peer.w1.weight, peer.w2.weight, peer.w3.weight]
    return [peer.input_table, peer.weight_hh, peer.bias, peer.w1, peer.w2, peer.w3]


def compare(steps, batch, hidden, k_trunc, k_top, k_att, tokens, loss_on_last_step=False, style="tuned"):
    torch.manual_seed(steps)
    inputs = 4
    peer = ModulesSabLstm(inputs, hidden, k_trunc, k_top, k_att) if style == "modules" else \
        SabLstm(inputs, hidden, k_trunc, k_top, k_att, style)
    with torch.no_grad():
        for parameter in weights_of(peer)[3:]:
            parameter.mul_(3)
        if style == "modules":  # the reference has one bias, the cell two
            peer.cell.bias_hh.zero_()
    shapes = [(4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (hidden, hidden), (hidden, hidden), (hidden,)]

    def as_in_the_reference(values):
        table = style != "modules"  # in the other styles the input weights are a lookup table for tokens
        return [(v.t() if table and n == 0 else v).reshape(shape) for n, (v, shape) in enumerate(zip(values, shapes))]

    weights = Weights(*(p.detach().clone().requires_grad_() for p in as_in_the_reference(weights_of(peer))))
    x = torch.randint(0, inputs, (batch, steps)) if tokens else torch.randn(batch, steps, inputs)
    hidden_cotangent, summary_cotangent = torch.randn(2, batch, steps, hidden)
    if loss_on_last_step:
        hidden_cotangent[:, :-1] = summary_cotangent[:, :-1] = 0

    expected = sab_reference.sab_lstm(x, weights, Options(k_top, k_att, k_trunc))
    ((expected.hidden * hidden_cotangent).sum() + (expected.summary * summary_cotangent).sum()).backward()
    peer_hidden, peer_summary = (torch.stack(states, dim=1) for states in peer(x.transpose(0, 1)))
    ((peer_hidden * hidden_cotangent).sum() + (peer_summary * summary_cotangent).sum()).backward()

    def assert_close(actual, wanted, what):
        error = (actual - wanted).abs().max() / wanted.abs().max()
        assert error < 1e-8, f"{what}: off by {error:.1e}"

    assert_close(peer_hidden, expected.hidden, "hidden")
    assert_close(peer_summary, expected.summary, "summary")
    gradients = as_in_the_reference([parameter.grad for parameter in weights_of(peer)])
    for name, gradient in zip(Weights._fields, gradients):
        assert_close(gradient, getattr(weights, name).grad, name)


def test_many_memories_are_searched_as_in_the_reference():
    compare(steps=40, batch=3, hidden=5, k_trunc=5, k_top=3, k_att=2, tokens=True)
    compare(steps=30, batch=2, hidden=6, k_trunc=4, k_top=2, k_att=1, tokens=False, loss_on_last_step=True)


def test_few_memories_are_read_as_in_the_reference():
    compare(steps=40, batch=3, hidden=5, k_trunc=5, k_top=5, k_att=5, tokens=False)
    compare(steps=30, batch=2, hidden=6, k_trunc=10, k_top=4, k_att=10, tokens=True)


def test_the_other_styles_compute_the_same():
    for style in ("plain", "modules"):
        compare(steps=40, batch=3, hidden=5, k_trunc=5, k_top=3, k_att=2, tokens=True, style=style)
        compare(steps=30, batch=2, hidden=6, k_trunc=4, k_top=9, k_att=4, tokens=False, loss_on_last_step=True, style=style)


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok  {name}")

"""Which population gradients does wang2025 print, and what are they? Closed forms, and all inputs by autograd.

The expectations of Lemmas 15, 19 and 24 (first gradient of W_KQ in stages 1, 2 and later), of Lemmas 18, 23 and 28
(first gradient of the readout) and of Appendix E (the value matrix) are over all sigma and all queries, so at small
k and N they are sums. Stages count from 0 here: stage s trains layer s on the 2^s-hop, below it are ideal layers.
"""

import math
from itertools import permutations, product

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.kfold.curricula import Examples, query_losses
from toy_models.kfold.task import KFold, Permutations
from toy_models.kfold.theory_model import KFoldTheory
from toy_models.task import Batch

IDEAL = 60.0
"""The softmax scale of the layers that are ideal: less than 1e-24 leaks."""


def every_input(k: int, n: int) -> Int[Tensor, "batch k n"]:
    """All (n!)^k sequences."""
    return torch.tensor(list(product(list(permutations(range(n))), repeat=k)))


def labelled(task: KFold, values: Int[Tensor, "batch k n"]) -> Examples:
    """These sequences with every query labelled."""
    return Examples(values, task.results(values.flatten(1)), None)


def ideal_model(task: KFold, stage: int, beta_0: float) -> KFoldTheory:
    """The model before `stage`, of which the earlier layers are ideal and the others untrained."""
    model = KFoldTheory(task.k, task.n, dtype=torch.float64)
    model.construct(task.hidden, IDEAL)
    with torch.no_grad():
        model.readout.mul_(beta_0)
        for block in model.blocks[stage:]:
            block.attn.W_KQ.zero_()
    return model


def key_query_gradient(
    task: KFold, stage: int, beta_0: float, values: Int[Tensor, "batch k n"]
) -> Float[Tensor, "width width"]:
    """Autograd of W_KQ in `stage`, with ideal layers below it."""
    model = ideal_model(task, stage, beta_0)
    return _gradient(model, model.blocks[stage].attn.W_KQ, labelled(task, values), stage)


def readout_gradient(
    task: KFold, stage: int, beta_0: float, values: Int[Tensor, "batch k n"]
) -> Float[Tensor, "block k n n"]:
    """Autograd of Psi of `stage`, with ideal layers up to its own."""
    model = ideal_model(task, stage + 1, beta_0)
    return _gradient(model, model.readout, labelled(task, values), stage)[stage]


def _gradient(model: KFoldTheory, of: torch.nn.Parameter, data: Examples, stage: int) -> Tensor:
    for parameter in model.parameters():
        parameter.requires_grad_(parameter is of)
    return torch.autograd.grad(query_losses(model, data, [stage]).mean(), of)[0]


def printed_key_query(hidden: Permutations, stage: int, beta_0: float) -> Float[Tensor, "width width"]:
    """-beta_0 / (kN) times E[A] of Lemma 15 (stage 0), 19 (stage 1) or 24 (later): rows are keys, columns queries."""
    k, n = len(hidden), len(hidden[0])
    kn, far = k * n, 2**stage // 2
    blocks = torch.zeros(
        stage + 2, stage + 2, k, n, k, n, dtype=torch.float64
    )  # [key block, query block, i, j, i, j]
    mean = torch.full((n, n), 1 / n, dtype=torch.float64)
    eye = torch.eye(n, dtype=torch.float64)
    fixed = torch.tensor([sum(a == b for b, a in enumerate(pi)) for pi in hidden], dtype=torch.float64)
    for i, pi in enumerate(hidden):
        if stage == 0:
            moved = torch.zeros(n, n, dtype=torch.float64)
            moved[list(pi), range(n)] = 1.0
            blocks[0, 0, i, :, i] = (moved - mean) / kn
            f = fixed[i]  # A_4, the mean of all inputs' own values beside the result's
            same = (f - 1) / (n * (n - 1)) * eye + ((n - f) / (n**2 * (n - 1)) - 1 / n**2) * torch.ones_like(eye)
            for p in range(k):
                blocks[1, 1, p, :, i] = same / k
        else:
            key, query = (i + far) % k, (i + far - 1) % k
            blocks[0, stage + 1, key, :, query] = (eye - mean) / kn
            if stage == 1:  # A_2
                blocks[0, 1, key, :, i] = (fixed[i] - 1) / (kn * (n - 1)) * (eye - mean)
    flat = blocks.permute(0, 2, 3, 1, 4, 5).reshape((stage + 2) * kn, (stage + 2) * kn)
    return -beta_0 / kn * flat


def printed_readout(k: int, n: int, stage: int, beta_0: float) -> Float[Tensor, "block k n n"]:
    """Lemmas 18, 23, 28: -(e_{stage+2} (x) 1_k (x) (I - 11^T/N)) / ((exp(beta_0) + N - 1) k), and 0 elsewhere."""
    found = torch.zeros(k.bit_length() + 2, k, n, n, dtype=torch.float64)
    found[stage + 2] = -(torch.eye(n, dtype=found.dtype) - 1 / n) / ((math.exp(beta_0) + n - 1) * k)
    return found


def omitted_readout(hidden: Permutations, beta_0: float) -> Float[Tensor, "k n n"]:
    """What Lemma 18 leaves out: sigma_i(j) tells of sigma_i(pi_i(j)), so Psi_1 has a gradient on its block too.

    It is (f(pi_i) - 1) / (N - 1) times that on the block of the 1-hop, f being the number of fixed points.
    """
    k, n = len(hidden), len(hidden[0])
    own = printed_readout(k, n, 0, beta_0)[2]
    fixed = torch.tensor([sum(a == b for b, a in enumerate(pi)) for pi in hidden], dtype=torch.float64)
    return own * ((fixed - 1) / (n - 1))[:, None, None]


def value_gradient(
    task: KFold,
    values: Int[Tensor, "batch k n"],
    beta_0: float,
    key_query: Float[Tensor, "width width"] | None = None,
) -> Float[Tensor, "d width"]:
    """Appendix E: autograd of the first layer's W_OV at zero, for the 1-hop; of columns that meet zeros, none.

    Attention is uniform, or with `key_query` that of this W_KQ.
    """
    model = ideal_model(task, 0, beta_0)
    resid = model.embed(values)
    weight = torch.zeros(model.cfg.d_model, resid.shape[-1], dtype=resid.dtype, requires_grad=True)
    scores = torch.zeros(len(values), model.kn, model.kn, dtype=resid.dtype)
    if key_query is not None:
        scores = resid @ key_query.T @ resid.transpose(-2, -1)
    out = scores.softmax(-1) @ resid @ weight.T
    stream = torch.nn.functional.pad(resid, (0, out.shape[-1] - resid.shape[-1])) + out
    logits = stream @ model.readout[0].reshape(-1, task.n)
    targets = task.results(values.flatten(1))[:, 0]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return torch.autograd.grad(loss, weight)[0]


@torch.no_grad()
def separation(
    task: KFold, stage: int, values: Int[Tensor, "batch k n"], gradient: Float[Tensor, "width width"]
) -> Float[Tensor, "batch query"]:
    """kN/beta_0 times the score of the right key minus the largest other, after a step of -gradient (beta_0 = 1)."""
    model = ideal_model(task, stage, 1.0)
    resid = model.embed(values)
    for block in model.blocks[:stage]:
        resid = block(resid)
    scores = -model.kn * (resid @ gradient.T @ resid.transpose(-2, -1))  # [batch query key]
    batch = labelled(task, values)
    right = task.layer_dependencies(Batch(values.flatten(1), batch.results[:, -1]), stage)
    return scores[right].reshape(scores.shape[:2]) - scores.masked_fill(right, -torch.inf).amax(-1)


@torch.no_grad()
def sup_error(model: KFoldTheory, task: KFold, values: Int[Tensor, "batch k n"]) -> float:
    """Theorem 7: the largest |softmax(Psi_l^T TF(X)) - e_hop| over these sequences, all queries and all hops."""
    expected = torch.nn.functional.one_hot(task.results(values.flatten(1)), task.n)
    return float((model(values).softmax(-1) - expected).abs().max())


@torch.no_grad()
def least_attention(model: KFoldTheory, task: KFold, values: Int[Tensor, "batch k n"]) -> float:
    """The least attention on the key of Theorem 4, over these sequences, all queries and all layers."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.n_layers)]
    _, cache = model.run_with_cache(values, names_filter=names)
    batch = Batch(values.flatten(1), task.results(values.flatten(1))[:, -1])
    return min(
        float(cache[name][:, 0][task.layer_dependencies(batch, layer)].min()) for layer, name in enumerate(names)
    )

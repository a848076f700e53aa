"""How large are the quantities that the lemmas of kim2024 bound? Each beside its bound, with the proof's constants.

Lemmas 4 and 6: the gradient of the teacher-forced model and of the chain. Lemma 8: the mean of all parities at an
input. Lemma 9: correlations of up to four nodes on a sample. Lemma 10: augmented inputs. And the leading term of the
first gradient (proof of Theorem 5).
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.tree_parity.forest import Forest
from toy_models.tree_parity.gradient import Weights, chain_errors
from toy_models.tree_parity.links import Link
from toy_models.tree_parity.signal import squared_norms
from toy_models.tree_parity.theory_model import attention, generate


def forced_norm(
    weights: Weights, forest: Forest, values: Float[Tensor, "seed pos sample"], link: Link
) -> Float[Tensor, "seed"]:
    """The largest |grad_W f| over the inputs with the true keys given, all nodes together (Lemma 4)."""
    pattern = attention(weights, forest.visible("position"))
    keys = values[:, :-1]
    slopes = link.value_and_slope(pattern @ keys)[1]
    return squared_norms(keys, slopes, pattern).sum(1).amax(-1).sqrt()


def sparse_weights(forest: Forest, link: Link) -> Weights:
    """Weights that read the two children alone, so unequally that two different values meet phi where it is steepest.

    Lemmas 4 and 6 are for all weights: Gaussian ones spread attention, and hardly move phi from its flat middle.
    """
    means = torch.linspace(0, 1, 1001)[:-1]
    steep = means[
        link.value_and_slope(means)[1].abs().argmax()
    ]  # attention (1 + z) / 2 and (1 - z) / 2 make a mean z
    weights = torch.full_like(forest.no_weights(), -30.0).scatter(-1, forest.children, 0.0)
    return weights.scatter(-1, forest.children[..., :1], math.log((1 + steep) / (1 - steep)))


def forced_bound(k: int, link: Link) -> float:
    """2 |phi'| sqrt(k - 1), at the end of the proof of Lemma 4."""
    return 2 * link.steepest * math.sqrt(k - 1)


def chain_norm(
    weights: Weights, forest: Forest, bits: Float[Tensor, "seed bit sample"], link: Link
) -> Float[Tensor, "seed"]:
    """The same of the chain that the model writes itself (Lemma 6): every node's gradient by all weights below it."""
    pattern = attention(weights, forest.visible("level"))
    chain, slopes = generate(bits, pattern, forest.levels, link)
    total = torch.zeros_like(bits[:, 0])
    for node in range(forest.n_nodes):
        of_node = torch.zeros_like(slopes)
        of_node[:, node] = 1.0
        at_mean = chain_errors(chain, slopes, of_node, pattern, forest.levels)
        total += squared_norms(chain[:, :-1], at_mean, pattern).sum(1)
    return total.amax(-1).sqrt()


def chain_bound(k: int, link: Link) -> float:
    """sqrt(4 s^4 / ((s^2 - 2) (2 s^2 - 1)) (2 s^2)^log2(k)) with s = |phi'|, which is O(d^(log2 s + 1/2)) (Lemma 6).

    The proof's last line has s^2 where its last but one gives s^4: a constant, which the order does not see.
    """
    square = link.steepest**2
    return math.sqrt(4 * square**2 / ((square - 2) * (2 * square - 1)) * (2 * square) ** math.log2(k))


def mean_of_parities(d: int, k: int, minus: int) -> float:
    """E over secrets of p(x) for an input with `minus` values of -1: a Krawtchouk polynomial over C(d, k)."""
    total = sum((-1) ** j * math.comb(minus, j) * math.comb(d - minus, k - j) for j in range(min(k, minus) + 1))
    return total / math.comb(d, k)


def parities_bound(d: int, k: int) -> tuple[float, range]:
    """The bound on |E_p p(x)| in the proof of Lemma 8, (d/2) / C(floor(d/4), floor(k/4)) for 2k <= d, and the
    numbers of -1 for which it is claimed, |m - d/2| <= min(1/4, k/2d) d/2."""
    if not 2 <= 2 * k <= d:
        raise ValueError(f"the proof of Lemma 8 is for 2 k <= d, got k={k} of d={d}; take d - k, the complement")
    reach = min(0.25, k / (2 * d)) * d / 2
    claimed = range(math.ceil(d / 2 - reach), math.floor(d / 2 + reach) + 1)
    return d / 2 / math.comb(d // 4, k // 4), claimed


def largest_interaction(forest: Forest, values: Float[Tensor, "seed pos sample"]) -> Float[Tensor, "seed"]:
    """The largest |mean of a product| of up to four nodes that is not always 1 (Lemma 9).

    Each is a product of two products of up to two nodes, so that one Gram matrix has them all.
    """
    n_pos = values.shape[1]
    first, second = torch.triu_indices(n_pos, n_pos, offset=1)
    found = []
    for sets, own in zip(_bits_of_nodes(forest), values):
        ones = torch.ones_like(own[:1])
        products = torch.cat([ones, own, own[first] * own[second]])
        codes = torch.cat([sets.new_zeros(1), sets, sets[first] ^ sets[second]])
        gram = (products @ products.T / own.shape[-1]).abs()
        found.append(gram[codes[:, None] != codes[None]].max())
    return torch.stack(found)


def _bits_of_nodes(forest: Forest) -> Int[Tensor, "seed pos"]:
    """Which bits each node is the parity of, as a number."""
    if forest.d > 62:
        raise ValueError(f"sets of bits are kept as 64-bit numbers, got d={forest.d}; use d of at most 62")
    bits = (1 << torch.arange(forest.d)).expand(forest.n_seeds, -1)
    for node in range(forest.n_nodes):
        left, right = (bits.gather(1, forest.children[:, node, side : side + 1]) for side in (0, 1))
        bits = torch.cat([bits, left ^ right], 1)
    return bits


def interaction_bound(d: int, n: int, probability: float) -> float:
    """kappa = sqrt(2 / n log(32 d^4 / p)), exceeded with a probability of at most p (Lemma 9)."""
    return math.sqrt(2 / n * math.log(32 * d**4 / probability))


def largest_mean(forest: Forest, values: Float[Tensor, "seed pos sample"]) -> Float[Tensor, "seed"]:
    """max over levels and inputs of |mean of all nodes up to the level| (Lemma 10)."""
    ends = [forest.d, *(forest.d + level.stop for level in forest.levels)]
    return torch.stack([values[:, :end].mean(1).abs().amax(-1) for end in ends]).amax(0)


def mean_bound(d: int, n: int) -> float:
    """2 (sqrt(2) + 1) sqrt(log(2 n / p) / d) with p = exp(-sqrt(d)), which is O(d^(-1/4)) (Lemma 10)."""
    return 2 * (math.sqrt(2) + 1) * math.sqrt((math.log(2 * n) + math.sqrt(d)) / d)


def beyond_leading(gradient: Weights, forest: Forest, link: Link) -> Float[Tensor, "seed"]:
    """The largest |dL/dw_(j,m) + 2c / (m-1)^2 1{j is a child of m}| of the first gradient, in units of 1/d^2."""
    visible = forest.visible("position")
    seen = visible.sum(-1)[:, None]  # m - 1: the keys before the node
    leading = -2 * link.curvature / seen.square() * forest.needed
    return ((gradient - leading).abs() * visible).amax((1, 2)) * forest.d**2

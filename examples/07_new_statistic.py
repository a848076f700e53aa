"""A statistic of your own: one function, and every measurement, contrast and report knows it."""

from hf_analysis import load_model, record
from probes import register_statistic


@register_statistic(label="share of keys in use", unit="", reductions=("min", "mean"), low=0.0, high=1.0)
def used_share(entropy, n_visible):
    """exp(H) / n: the effective number of keys as a share of the visible ones."""
    return entropy.exp() / n_visible


model = load_model("builtin")
found = record(model, model.encode("Two plus two is four."), statistics=["used_share", "normalised_entropy"])
print(found.to_pandas()[["token", "layer", "head", "used_share", "normalised_entropy"]].tail(3))
print("On the command line: cotlens entropy --metrics used_share_min used_share_mean, once it is a plug-in.")

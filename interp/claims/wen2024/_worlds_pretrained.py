"""What would a pretrained model's rows look like, were the truth known? For the worlds of the claims about them.

Problems have the ids, and so the templates, of the built-in ones. A difference has a mean, a deviation shared by the
problems of a template, and one of each problem; one head stands for the mean over heads.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.problem_runs import clusters_of
from probes.rows import concat, setting, table


def deviations(
    generator: np.random.Generator, units: Sequence[str], shape: tuple[int, ...], template: float, problem: float
) -> Float[np.ndarray, "*shape problem"]:
    """Normal deviations by problem: its template's, of spread `template`, and its own, of spread `problem`."""
    _, codes = np.unique(clusters_of(units), return_inverse=True)
    shared = generator.normal(0, template, (*shape, codes.max() + 1))[..., codes]
    return shared + generator.normal(0, problem, (*shape, len(units)))


def simulated_entropies(
    units: Sequence[str], values: Mapping[tuple[str, str, str, str], Float[np.ndarray, "problem"]]
) -> pd.DataFrame:
    """Rows of one head by (run, condition, metric, scope)."""
    run, condition, metric, scope = (np.repeat(names, len(units)) for names in zip(*values))
    return table(
        run=run,
        condition=condition,
        metric=metric,
        scope=scope,
        unit=list(units) * len(values),
        layer=0,
        head=0,
        value=np.concatenate(list(values.values())),
        n_tokens=9,
    )


def simulated_log_probs(
    units: Sequence[str], values: Mapping[str, Mapping[tuple[str, str, int], Float[np.ndarray, "problem"]]]
) -> pd.DataFrame:
    """Rows of interventions: by metric, then by (condition, arm, draw)."""
    tables = []
    for metric, groups in values.items():
        condition = np.repeat([name for name, _, _ in groups], len(units))
        places = np.repeat([setting(arm=arm, draw=draw) for _, arm, draw in groups], len(units))
        tables.append(
            table(
                run="model",
                condition=condition,
                setting=places,
                unit=list(units) * len(groups),
                metric=metric,
                scope="answer",
                value=np.concatenate(list(groups.values())),
                n_tokens=9,
            )
        )
    return concat(tables)

"""Attention of clause decoders as rows, against the hooked pattern read clause by clause."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from interp.claims.huang2025._attention import PATTERN, attention_rows, followed_rows, target_rows
from interp.claims.huang2025._runs import LegoRun
from probes.rows import with_settings
from toy_models.lego.clause_decoder import clause_decoder
from toy_models.lego.task import ANSWERED, HEAD, TAIL

RUN = LegoRun(group="S3", model="standard", d_token=4, d_mlp=8, n_variables=9, length=4, n_test=6)
ORDERS = ("as written", "permuted", "permuted, by chain")


@pytest.fixture(scope="module")
def model():
    return clause_decoder(RUN.decoder, RUN.task, seed=0)


def pattern(model, sentences: torch.Tensor) -> np.ndarray:
    """[batch query key] of the whole hooked forward, mean over heads."""
    return model.run_with_cache(sentences)[1][PATTERN].mean(1).detach().numpy()


def sentences(permuted: bool = False) -> torch.Tensor:
    return replace(RUN.task, permuted=permuted).sample(RUN.n_test, RUN.generator(2)).inputs


def test_targets_are_the_next_predicate_and_the_answer_itself(model):
    rows = with_settings(target_rows(RUN, model, RUN.length))
    seen = pattern(model, sentences())
    for answer in range(4):
        of_answer = rows[rows["answer"] == answer].set_index("metric")["value"]
        assert of_answer["predicate"] == pytest.approx(seen[:, 4 + answer, answer].mean(), abs=1e-6)
        assert of_answer["answer"] == pytest.approx(seen[:, 4 + answer, 4 + answer].mean(), abs=1e-6)


def test_the_map_has_every_clause_once_and_each_answer_spends_one(model):
    rows = with_settings(attention_rows(RUN, model))
    assert len(rows) == 4 * 8
    assert rows.groupby("query")["value"].sum().to_numpy() == pytest.approx(np.ones(4), abs=1e-6)


def test_without_positions_the_chains_order_undoes_the_permutation(model):
    """The permuted sentences are the same ones in another order, so along the chain nothing has changed."""
    written, permuted, chain = (attention_rows(RUN, model, order)["value"].to_numpy() for order in ORDERS)
    assert chain == pytest.approx(written, abs=1e-6)
    assert np.abs(permuted - written).max() > 1e-3


def test_attention_on_the_variable_and_on_its_place_by_looking_for_them(model):
    found = with_settings(followed_rows(RUN, model)).set_index(["change", "metric"])
    moved = sentences()
    for row in moved:
        tails = row[:4, TAIL].clone()
        for place in range(4):
            row[place, TAIL] = tails[place - 1]
    for change, tampered in (("permuted", sentences(permuted=True)), ("moved", moved)):
        seen, variable, place = pattern(model, tampered), [], []
        for number, row in enumerate(tampered):
            for answer in range(4):
                (named,) = [key for key in range(4) if row[key, TAIL] == row[4 + answer, ANSWERED]]
                if named != answer:
                    variable.append(seen[number, 4 + answer, named])
                    place.append(seen[number, 4 + answer, answer])
        assert found.loc[change, "variable"]["value"] == pytest.approx(np.mean(variable), abs=1e-6)
        assert found.loc[change, "place"]["value"] == pytest.approx(np.mean(place), abs=1e-6)
        assert found.loc[change, "place"]["n_tokens"] == len(place) > 0
    assert (moved[:, :4, TAIL] != moved[:, :4, HEAD]).all(), "a moved variable must not meet itself"

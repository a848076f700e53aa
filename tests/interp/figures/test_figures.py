"""Figures from rows: what is drawn is what the rows say, and the files are whole and reproducible."""

import numpy as np
import pytest
from matplotlib.collections import PathCollection

from interp.figures.style import attention_map, new_figure, save_figures, training_curves
from probes.rows import concat, table

LABELS = {"run": "r", "condition": "cot", "unit": "0", "scope": "test"}


@pytest.fixture
def curves():
    steps, parts = [0, 512, 1024], []
    for metric, values in {
        "accuracy": [0.1, 0.5, 1.0], "token_accuracy": [0.5, 0.7, 1.0], "loss": [0.7, 0.3, 0.0],
        "train_loss": [0.7, 0.4, 0.1],
    }.items():  # fmt: skip
        parts.append(table(**LABELS, metric=metric, value=values, samples=steps))
    for head in range(2):
        parts.append(
            table(**LABELS, metric="entropy_min", value=[1.0, 0.5, 0.1 * head], samples=steps, layer=0, head=head)
        )
    return concat(parts)


@pytest.fixture
def maps():
    parts = []
    attention = np.array([[0.7, 0.2, 0.1, 0.0], [0.0, 0.5, 0.25, 0.25]])
    needed = np.array([[1, 0, 1, 0], [0, 1, 0, 1]])
    for query in range(2):
        for key in range(4):
            place = {"query": query + 2, "key": key, **LABELS}
            for head in range(2):
                value = float(attention[query, key])
                parts.append(table(metric="attention", value=value, layer=0, head=head, **place))
            parts.append(table(metric="dependency", value=float(needed[query, key]), **place))
    return concat(parts)


def test_curves_share_one_time_axis_and_have_units(curves):
    figure = training_curves(curves, "a title")
    accuracy, loss, entropy = figure.axes
    assert accuracy.get_title() == "a title"
    assert all(axes.get_xlim() == entropy.get_xlim() for axes in figure.axes)
    assert [axes.get_ylabel() != "" for axes in figure.axes] == [True] * 3
    assert "samples" in entropy.get_xlabel()
    assert "nats" in loss.get_ylabel()
    drawn = {line.get_label(): list(line.get_ydata()) for axes in figure.axes for line in axes.lines}
    assert drawn["all tokens right"] == [0.1, 0.5, 1.0]
    assert drawn["validation"] == [0.7, 0.3, 0.0]
    assert drawn["layer 0 head 1"] == [1.0, 0.5, 0.1]


def test_colour_is_never_alone(curves):
    for axes in training_curves(curves, "t").axes:
        styles = [line.get_linestyle() for line in axes.lines]
        assert len(set(styles)) == len(styles)


def test_the_map_shows_every_head_and_circles_what_is_needed(maps):
    figure = attention_map(maps, "t")
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 2
    for axes in panels:
        assert np.array_equal(axes.images[0].get_array(), [[0.7, 0.2, 0.1, 0.0], [0.0, 0.5, 0.25, 0.25]])
        assert axes.images[0].get_extent() == [-0.5, 3.5, 3.5, 1.5]
        (circles,) = [c for c in axes.collections if isinstance(c, PathCollection)]
        assert sorted(map(tuple, np.asarray(circles.get_offsets()).tolist())) == [(0, 2), (1, 3), (2, 2), (3, 3)]


def test_the_same_rows_give_the_same_files(curves, maps, tmp_path):
    for name in ("a", "b"):
        paths = save_figures(tmp_path / name, {"c": training_curves(curves, "t"), "m": attention_map(maps, "t")})
        assert paths == [tmp_path / name / "c.png", tmp_path / name / "m.png"]
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == ["c.pdf", "c.png", "m.pdf", "m.png"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_saving_removes_leftovers_and_replaces(tmp_path):
    (tmp_path / ".old.png.123.tmp").write_text("half")
    save_figures(tmp_path, {"x": new_figure(2.0, 2.0)})
    save_figures(tmp_path, {"x": new_figure(3.0, 2.0)})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.pdf", "x.png"]

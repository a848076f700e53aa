"""How are several texts of one problem measured? Each as if it were the only one; a problem's rows are their means.

The passages of one problem stand side by side, those of later samples under keys such as `generated#1`. A view is
what would have been measured with one sample alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from hf_analysis.measurement.pairs import matched_to, own_settings, pair_setting
from hf_analysis.measurement.reductions import PassageRows
from probes import rows

_SIGN = "#"


def keyed(condition: str, sample: int = 0) -> str:
    """The key of a passage of `sample`; the first one's is its condition. Of a key: its condition."""
    name = condition.partition(_SIGN)[0]
    return f"{name}{_SIGN}{sample}" if sample else name


def views(passages: Sequence[PassageRows]) -> list[list[PassageRows]]:
    """For each sample that has a text, its passages and those that have no samples, in order and by condition."""
    samples = [int(passage.condition.partition(_SIGN)[2] or 0) for passage in passages]
    sampled = {keyed(passage.condition) for passage, sample in zip(passages, samples) if sample}
    found = []
    for sample in sorted(set(samples)):
        view = [
            replace(passage, condition=keyed(passage.condition))
            for passage, own in zip(passages, samples)
            if own == sample or keyed(passage.condition) not in sampled
        ]
        if len(set(samples)) == 1 or any(passage.condition in sampled for passage in view):
            found.append(view)
    return found


def averaged(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean of every row over `tables`, and of the numbers in its setting: correct=0.5 where half were right."""
    if len(tables) == 1:
        return tables[0]
    whole = pd.concat([_of_every_pair(table) for table in tables], ignore_index=True)
    split = {text: _split(text) for text in whole["setting"].unique()}
    numbers = pd.DataFrame([split[text][1] for text in whole["setting"]], index=whole.index)
    keys = [name for name in rows.COLUMNS if name not in ("setting", "value", "n_tokens")]
    whole = whole.assign(words=[split[text][0] for text in whole["setting"]]).join(numbers.add_prefix("number "))
    means = whole.drop(columns="setting").groupby([*keys, "words"], sort=False, as_index=False).mean()
    counted = [name for name in means if name.startswith("number ")]
    settings = [
        " ".join(sorted([*words.split(), *(f"{n[7:]}={v:g}" for n, v in zip(counted, values) if v == v)]))
        for words, values in zip(means["words"], means[counted].to_numpy())
    ]
    n_tokens = means["n_tokens"].round().astype("int64")
    return rows.validate(means.assign(setting=settings, n_tokens=n_tokens)[list(rows.COLUMNS)])


def _of_every_pair(table: pd.DataFrame) -> pd.DataFrame:
    """The same rows, but those of m tokens once for each other condition, by name, whichever text is the shorter one.

    Which one is differs between samples; the means of both sides of a pair must be over the same samples.
    """
    sizes = table["setting"].map({text: rows.words(text).get("m", "") for text in table["setting"].unique()})
    conditions = list(table["condition"].unique())
    if len(conditions) == 1 or not sizes.any():
        return table
    parts = [table[sizes == ""]]
    for name in conditions:
        mine = table[(sizes != "") & (table["condition"] == name)]
        for other in conditions:
            if other != name:
                chosen = matched_to(mine, other)
                named = zip(own_settings(chosen), sizes[chosen.index])
                parts.append(chosen.assign(setting=[pair_setting(own, int(m), other) for own, m in named]))
    return pd.concat(parts, ignore_index=True)


def _split(setting: str) -> tuple[str, dict[str, float]]:
    """The words of a setting whose values are no numbers, and the numbers by name."""
    words, numbers = [], {}
    for pair in setting.split():
        name, value = pair.split("=", 1)
        try:
            numbers[name] = float(value)
        except ValueError:
            words.append(pair)
    return " ".join(words), numbers

"""How are several texts of one problem measured? Each as if it were the only one; a problem's rows are their means.

The passages of one problem stand side by side, those of later samples under keys such as `generated#1`. A view is
what would have been measured with one sample alone. A sample may have one text of the model and not the other
(`generated`, and no reasoning for `generated_clean`): rows of that pair are means over the samples that have both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import pandas as pd

from hf_analysis.measurement.pairs import matched_to, own_settings, pair_setting, sizes_of_pairs
from hf_analysis.measurement.reductions import PassageRows, Reduced
from hf_analysis.text.conditions import OWN
from probes import rows

_SIGN = "#"


def keyed(condition: str, sample: int = 0) -> str:
    """The key of a passage of `sample`; the first one's is its condition. Of a key: its condition."""
    name = condition.partition(_SIGN)[0]
    return f"{name}{_SIGN}{sample}" if sample else name


def _sample(key: str) -> int:
    return int(key.partition(_SIGN)[2] or 0)


def views(passages: Sequence[PassageRows]) -> list[list[PassageRows]]:
    """For each sample that has a text, its passages and those that have no samples, in order and by condition."""
    names = [keyed(passage.condition) for passage in passages]
    samples = [_sample(passage.condition) if name in OWN else None for passage, name in zip(passages, names)]
    return [
        [
            replace(passage, condition=name)
            for passage, name, own in zip(passages, names, samples)
            if own in (None, sample)
        ]
        for sample in sorted({own for own in samples if own is not None}) or [0]
    ]


def averaged(each: Sequence[Reduced]) -> Reduced:
    """The mean of every row over samples, and of the numbers in its setting: correct=0.5 where half were right.

    A scope is set aside where no sample has rows in it.
    """
    if len(each) == 1:
        return each[0]
    tables = [one.rows for one in each]
    alone = len({name for table in tables for name in table["condition"]}) == 1
    parts = tables if alone else [*map(_of_every_pair, tables), *_of_common_samples(tables)]
    whole = pd.concat(parts, ignore_index=True)
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
    table = rows.validate(means.assign(setting=settings, n_tokens=n_tokens)[list(rows.COLUMNS)])
    return Reduced(table, tuple(name for name in each[0].set_aside if all(name in one.set_aside for one in each)))


def _of_every_pair(table: pd.DataFrame) -> pd.DataFrame:
    """The same rows, but those of m tokens once for each other condition, by name, whichever text is the shorter one.

    Which one is differs between samples; the means of both sides of a pair must be over the same samples.
    """
    sizes = pd.Series(sizes_of_pairs(table), index=table.index)
    conditions = list(table["condition"].unique())
    parts = [table[sizes == ""]]
    for name in conditions:
        mine = table[(sizes != "") & (table["condition"] == name)]
        for other in conditions:
            if other != name:
                chosen = matched_to(mine, other)
                named = zip(own_settings(chosen), sizes[chosen.index])
                parts.append(chosen.assign(setting=[pair_setting(own, int(m), other) for own, m in named]))
    return pd.concat(parts, ignore_index=True)


def _of_common_samples(tables: Sequence[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Rows of no m tokens for a pair of texts that one sample has and another has not: of the samples of both.

    The rows for all other comparisons are of every sample that has the text.
    """
    plain = [table[sizes_of_pairs(table) == ""] for table in tables]
    scopes = [{name: set(part["scope"]) for name, part in table.groupby("condition")} for table in plain]
    for name, other in permutations(OWN, 2):
        common = [found.get(name, set()) & found.get(other, set()) for found in scopes]
        missing = set().union(*(found.get(name, set()) - both for found, both in zip(scopes, common)))
        for table, both in zip(plain, common):
            mine = table[(table["condition"] == name) & table["scope"].isin(both & missing)]
            yield mine.assign(setting=[rows.setting(**rows.words(text), against=other) for text in mine["setting"]])


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

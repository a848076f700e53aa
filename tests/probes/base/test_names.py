"""Does a refused list of names say how names are separated, for every kind of name?"""

import pytest

from hf_analysis.text.conditions import find_condition
from hf_analysis.text.scopes import find_scope
from hf_analysis.traces.measures import find_measure
from interp.core.claim import find_claims
from probes.attention.statistics import find_metric, find_statistic
from probes.base.names import unknown


@pytest.mark.parametrize(
    ("kind", "find"),
    [
        ("condition", find_condition),
        ("scope", find_scope),
        ("measure", find_measure),
        ("metric", find_metric),
        ("statistic", find_statistic),
        ("claim", lambda name: find_claims([name])),
    ],
)
def test_names_joined_by_commas_are_told_to_be_separated_by_spaces(kind, find):
    with pytest.raises(ValueError, match=f"^unknown {kind} 'cot,no_cot'; separate names by spaces; .*"):
        find("cot,no_cot")


def test_a_single_name_is_not():
    assert unknown("scope", "nowhere") == "unknown scope 'nowhere'"

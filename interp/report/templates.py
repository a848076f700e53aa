"""How does text get into the page? Through templates that escape everything and write out what cannot be seen.

Nothing has to be remembered at the place of use: every expression of every template passes through `_shown` and is
then escaped. Only `Markup` is not escaped; `page.py` makes it, of the page's own style sheets and scripts.
"""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from interp.report.pack import number, visible


@cache
def environment() -> Environment:
    """The templates in `assets`: escaped, and an unknown name is an error, not an empty place."""
    found = Environment(
        loader=PackageLoader("interp.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["number"] = number
    return found


def rendered(name: str, **values: object) -> str:
    """The template called `name`, filled in."""
    return environment().get_template(name).render(**values)


def asset(name: str) -> str:
    """A style sheet or script as it stands in `assets`."""
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), name)[0]


def _shown(value: object) -> str:
    """`value` as text in which characters that reorder or hide text are written out; markup stays markup."""
    text = visible(str(value))
    return Markup(text) if isinstance(value, Markup) else text

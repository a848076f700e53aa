"""Can a template forget to escape, show invisible characters, or leave out what it was not given?"""

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from interp.report.templates import environment
from tests.interp.report.synthetic import HOSTILE


def filled(template: str, **values: object) -> str:
    return environment().from_string(template).render(**values)


@pytest.mark.parametrize("text", HOSTILE)
def test_html_is_escaped_in_text_and_attributes(text):
    assert not set(filled("{{ text }}", text=text)) & set("<>\"'\u202e\u202c")


@pytest.mark.parametrize("text", HOSTILE)
def test_macros_and_filters_escape_once(text):
    through = filled("{% macro m(t) %}{{ t }}{% endmacro %}{{ m(text) }}", text=text)
    assert through == filled("{{ text }}", text=text)
    joined = filled("{{ [text, text] | join('') }}", text=text)
    assert not set(joined) & set("<>\"'\u202e\u202c")


def test_invisible_characters_are_written_out_in_markup_too():
    assert filled("{{ text }}", text=Markup("<b>\u202e</b>")) == "<b>[U+202E]</b>"


@pytest.mark.parametrize("template", ["{{ missing }}", "{{ one.missing }}", "{% if missing %}{% endif %}"])
def test_a_missing_value_is_an_error(template):
    with pytest.raises(UndefinedError):
        filled(template, one={})


def test_no_template_turns_escaping_off():
    loader = environment().loader
    assert loader is not None
    names = [name for name in environment().list_templates() if name.endswith(".html")]
    assert "page.html" in names
    for name in names:
        source = loader.get_source(environment(), name)[0]
        assert "safe" not in source.split()
        assert not any(word in source for word in ("|safe", "| safe", "autoescape", "{% raw"))

"""Payload templates."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.core.trigger import check_template, is_fixed, render
from posthouse.errors import InvalidTemplate, TemplateError

CONTEXT = {
    "event": {
        "provider_id": "p-1",
        "count": 5,
        "share": 0.25,
        "new": True,
        "nothing": None,
        "folder": {"path": "/a b", "tags": ["x", {"deep": [1, 2]}]},
        "odd-name_1": "odd",
    }
}
ROOTS = frozenset({"event"})


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ("{{event.provider_id}}", "p-1"),
        ("{{ event.provider_id }}", "p-1"),
        ("{{event.count}}", 5),
        ("{{event.share}}", 0.25),
        ("{{event.new}}", True),
        ("{{event.nothing}}", None),
        ("{{event.folder}}", CONTEXT["event"]["folder"]),
        ("{{event.folder.tags.1.deep.0}}", 1),
        ("{{event.odd-name_1}}", "odd"),
        ("at {{event.folder.path}}!", "at /a b!"),
        ("{{event.count}} of {{event.share}}, {{event.new}}", "5 of 0.25, true"),
        ("{{event.count}}{{event.count}}", "55"),
        (r"\{{event.count}}", "{{event.count}}"),
        (r"\{{x}} {{event.count}}", "{{x}} 5"),
        ("{event.count}", "{event.count}"),
        ("}} and {", "}} and {"),
        ("", ""),
        (7, 7),
        (None, None),
    ],
)
def test_a_value_is_filled_in(template, made):
    assert render({"v": template, "in": [{"v": template}]}, CONTEXT) == {"v": made, "in": [{"v": made}]}


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{event.missing}}", "event.missing is missing: event has count, folder, new"),
        ("{{event.folder.path.x}}", "event.folder.path.x is missing: event.folder.path is a text"),
        ("{{event.folder.tags.2}}", "event.folder.tags is a list of 2"),
        ("{{event.folder.tags.-1}}", "event.folder.tags is a list of 2"),
        ("{{event.count.__class__}}", "event.count is a number"),
        ("{{other}}", "other is missing: the context has event"),
        ("a {{event.nothing}}", "event.nothing is null, which cannot be inserted into text"),
        ("a {{event.folder}}", "event.folder is an object"),
        ("a {{event.folder.tags}}", "event.folder.tags is a list"),
    ],
)
def test_what_cannot_be_filled_in_is_an_error_and_never_a_blank(template, says):
    with pytest.raises(TemplateError) as raised:
        render({"v": template}, CONTEXT)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ([], "a payload template must be a JSON object"),
        ({"a": "{{event"}, "template.a: the placeholder is not closed"),
        ({"a": ["x", {"b": "{{}}"}]}, "template.a[1].b: invalid placeholder {{}}"),
        ({"a": "{{event.a + 1}}"}, "invalid placeholder"),
        ({"a": "{{event.f()}}"}, "invalid placeholder"),
        ({"a": "{{event..a}}"}, "invalid placeholder"),
        ({"{{event.a}}": 1}, "only values may"),
        ({"a": "{{evnet.a}}"}, "{{evnet.a}} must start with one of event"),
        ({"a": "x" * 70_000}, "at most 65,536 bytes"),
    ],
)
def test_a_wrong_template_is_refused_when_it_is_made(template, says):
    with pytest.raises(InvalidTemplate) as raised:
        check_template(template, ROOTS)
    assert says in str(raised.value)


def test_a_template_that_is_too_deep_is_refused():
    template = {}
    for _ in range(60):
        template = {"a": template}
    with pytest.raises(InvalidTemplate, match="50 levels"):
        check_template(template, ROOTS)


def test_a_large_value_many_times_over_is_refused_before_it_is_built():
    template = {"all": ["{{event.big}}"] * 3000}
    with pytest.raises(TemplateError, match="more than 16,000,000 bytes"):
        render(template, {"event": {"big": ["x" * 1000] * 10}})


def test_templates_without_placeholders_are_fixed():
    assert is_fixed({"a": [1, "{x}", r"\{{y}}"]})
    assert not is_fixed({"a": [1, {"b": "{{event.a}}"}]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc{}.", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=json_values)
def test_values_that_look_like_placeholders_are_inserted_unchanged(value):
    """A value that looks like a placeholder is none: nothing is filled in twice."""
    assert render({"v": "{{event.v}}"}, {"event": {"v": value}}) == {"v": value}


@given(text=st.text(max_size=60), value=st.text(max_size=30))
def test_text_around_a_placeholder_stays(text, value):
    text = text.replace("{", "").replace("\\", "")
    made = render({"v": text + "{{event.v}} "}, {"event": {"v": value}})
    assert made == {"v": text + value + " "}


@given(template=json_values, context=json_values)
def test_any_template_and_context_give_json_or_an_error_of_ours(template, context):
    template = template if isinstance(template, dict) else {"v": template}
    try:
        check_template(template, ROOTS)
        json.dumps(render(template, {"event": context}))
    except (InvalidTemplate, TemplateError):
        pass


tricky = st.text(st.sampled_from("{}\\ evnt.a0-"), max_size=24)


@given(texts=st.lists(tricky, max_size=4), context=json_values)
def test_a_valid_template_fails_only_for_a_missing_value(texts, context):
    template = {"v": texts}
    try:
        check_template(template, ROOTS)
    except InvalidTemplate:
        return
    try:
        render(template, {"event": context})
    except TemplateError as error:
        said = str(error)
    else:
        return
    assert "is missing" in said or "cannot be inserted into text" in said

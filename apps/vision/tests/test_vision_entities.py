"""What is found in texts, and what queries mean."""

import pytest

from vision.entities import entities, extract_entities, normalize, parse_query, text_hash
from vision.ocr import UnknownLanguage, check_languages, language_of


def found(text):
    return [(entity.type, entity.value, entity.normalized) for entity in entities(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Follow @Mail_Rider!", [("mention", "@Mail_Rider", "mail_rider")]),
        ("#Summer_Sale #2024", [("hashtag", "#Summer_Sale", "summer_sale"), ("hashtag", "#2024", "2024")]),
        ("See https://Example.com/a?b=1.", [("url", "https://Example.com/a?b=1", "example.com/a?b=1")]),
        ("(www.example.org/)", [("url", "www.example.org/", "example.org")]),
        ("Great 👍🏽 job 🎉", [("emoji", "👍🏽", "👍🏽"), ("emoji", "🎉", "🎉")]),
        ("Only $1,299.00 or 50%", [("number", "$1,299.00", "1299"), ("number", "50%", "50")]),
        ("19,99 € for 12 km", [("number", "19,99 €", "19.99"), ("number", "12 km", "12")]),
        ("Call +49 30 1234567", [("number", "+49 30 1234567", "49301234567")]),
        ("write to a.rider@example.com", []),
        ("version v2 is no number", []),
        (
            "10 and 100 and 10.50",
            [("number", "10", "10"), ("number", "100", "100"), ("number", "10.50", "10.5")],
        ),
    ],
)
def test_entities_of_a_text(text, expected):
    assert found(text) == expected


def test_an_entity_is_found_once_in_a_text_however_it_is_written():
    assert found("@Anna and @anna") == [("mention", "@Anna", "anna")]


def test_numbers_in_a_url_are_part_of_it():
    assert [kind for kind, *_ in found("https://example.com/4711#12 @you")] == ["url", "mention"]


def test_entities_of_many_texts_come_in_columns():
    columns = extract_entities([(1, "@a"), (2, "nothing"), (3, "#b")])
    assert columns.segments == [1, 3]
    assert columns.types == ["mention", "hashtag"]
    assert columns.values == ["@a", "#b"]
    assert extract_entities([]).segments == []


def test_texts_are_compared_without_case_and_spaces():
    assert normalize("  Hello\n  World ") == "hello world"
    assert text_hash(normalize("Hello  world")) == text_hash(normalize("hello WORLD"))


@pytest.mark.parametrize(
    ("query", "words", "terms"),
    [
        ("fresh horses", "fresh horses", []),
        ("@Rider", "", ["mention:rider"]),
        ("horses #sale", "horses", ["hashtag:sale"]),
        ("https://www.example.com/", "", ["url:example.com"]),
        ("4711", "", ["number:4711"]),
        ("$19.99", "", ["number:19.99"]),
        ("12 km", "12 km", []),
    ],
)
def test_a_query_is_words_and_entities(query, words, terms):
    assert parse_query(query) == (words, terms)


def test_a_language_is_known_by_its_letters():
    assert language_of("Grüße", ["eng", "fra", "deu"]) == "deu"
    assert language_of("garçon", ["eng", "fra", "deu"]) == "fra"
    assert language_of("plain", ["eng", "fra"]) == "eng"


def test_a_language_that_cannot_be_read_is_refused():
    check_languages(["eng", "deu"])
    with pytest.raises(UnknownLanguage, match="unsupported language: tlh; supported: afr, "):
        check_languages(["tlh", "eng", "rus"])

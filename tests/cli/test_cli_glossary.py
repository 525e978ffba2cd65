"""posthouse glossary."""

from posthouse.core.glossary import TERMS


def test_a_term_is_explained_in_the_words_of_the_console(posthouse):
    assert posthouse("glossary", "Dead", "letter").out == f"dead letter: {TERMS['dead letter']}\n"
    assert len(posthouse("glossary").out.splitlines()) == len(TERMS)


def test_an_unknown_term_is_a_usage_error(posthouse):
    answer = posthouse("glossary", "lettre")
    assert (answer.code, answer.err[:28]) == (2, "error: unknown term 'lettre'")

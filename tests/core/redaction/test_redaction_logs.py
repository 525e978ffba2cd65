"""Log records and output are masked with any handlers of the application."""

import contextvars
import io
import logging
import re
from pathlib import Path

import pytest

import posthouse
from posthouse.core.redaction import MASK, PLAIN, Redactor, mask_here, mask_with
from posthouse.core.redaction.logs import LOGGERS, MaskedStream

SECRET = "cAnArY7Secret9"


@pytest.fixture
def written():
    """What a handler of the application's own, on the root logger, writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield stream.getvalue
    logging.getLogger().removeHandler(handler)


def masking(payload):
    """Runs a function where a job with this payload runs."""
    secrets = PLAIN.secrets(payload)

    def run(function, *arguments):
        context = contextvars.copy_context()
        context.run(mask_with, lambda text: Redactor().text(text, secrets))
        return context.run(function, *arguments)

    return run


@pytest.mark.parametrize("name", LOGGERS)
def test_a_message_and_its_arguments_are_masked(written, name):
    logging.getLogger(name).warning("password=%s and %d more", SECRET, 2)
    assert SECRET not in written()
    assert f"password={MASK} and 2 more" in written()


def test_a_traceback_is_masked(written):
    try:
        raise ValueError(f"token={SECRET}")  # noqa: TRY301
    except ValueError:
        logging.getLogger("posthouse.worker").exception("it failed")
    assert SECRET not in written()
    assert "Traceback" in written()
    assert "ValueError" in written()


def test_what_a_jobs_payload_holds_in_secret_is_masked_while_it_runs(written):
    run = masking({"password": SECRET})
    run(logging.getLogger("posthouse.job").warning, "just %s", SECRET)
    assert written() == f"just {MASK}\n"


def test_a_record_with_a_wrong_format_is_not_lost_or_in_the_way():
    logger = logging.getLogger("posthouse.job")
    record = logger.makeRecord(logger.name, logging.WARNING, "f", 1, "%d", ("x",), None)
    assert logger.filter(record)


def test_what_is_printed_is_masked():
    stream = io.StringIO()
    masked = MaskedStream(stream)
    masking({"password": SECRET})(lambda: print("a", SECRET, file=masked))
    assert stream.getvalue() == f"a {MASK}\n"
    assert not masked.isatty()


def test_one_jobs_secrets_are_not_masked_in_anothers_texts():
    masking({"password": SECRET})(mask_here, "x")
    assert mask_here(f"just {SECRET}") == f"just {SECRET}"


def test_every_logger_of_the_package_is_guarded():
    source = Path(posthouse.__file__).parent
    used = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'getLogger\("(posthouse\.\w+)"\)', path.read_text())
    }
    assert used <= set(LOGGERS)

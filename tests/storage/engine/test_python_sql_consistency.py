"""What Python and the database both know must be the same."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse import testing
from posthouse.client.copy_rows import lane_number
from posthouse.core.request import PRIORITY_NAMES
from posthouse.core.states import TRANSITIONS, Status

names = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=40)
priorities = st.integers(-(2**31), 2**31 - 1)


@pytest.fixture(scope="module")
def look(server):
    """A database that these tests only read."""
    with testing.database(server) as url, psycopg.connect(url, autocommit=True) as connection:
        yield lambda statement, *values: connection.execute(statement, values).fetchall()


def test_the_legal_moves_are_the_same(look):
    stored = set(look("select event, from_status, to_status from posthouse.transitions"))
    assert stored == {(move.event.value, move.source.value, move.target.value) for move in TRANSITIONS}


def test_every_move_is_legal_by_the_engines_own_question_and_no_other_is(look):
    events = {move.event for move in TRANSITIONS}
    legal = {(move.event, move.source, move.target) for move in TRANSITIONS}
    for event in events:
        for source in Status:
            for target in Status:
                [(said,)] = look("select posthouse.is_legal(%s, %s, %s)", event, source, target)
                assert said == ((event, source, target) in legal), (event, source, target)


def test_succeeded_is_left_by_no_move():
    assert not [move for move in TRANSITIONS if move.source is Status.SUCCEEDED]


def test_the_named_priorities_are_the_same(look):
    for name, number in PRIORITY_NAMES.items():
        assert look("select posthouse.priority(%s)", name.upper()) == [(number,)]


@given(st.tuples(names, names, names, priorities, st.integers(0, 2)))
def test_a_lane_has_the_same_number(look, lane):
    assert look("select posthouse.lane_number(%s, %s, %s, %s, %s)", *lane) == [(lane_number(*lane),)]


def test_ids_made_by_the_database_are_uuids_of_version_7_in_order_of_time(look):
    ids = [row[0] for row in look("select posthouse.new_id() from generate_series(1, 5000)")]
    assert len(set(ids)) == 5000
    assert {job_id.version for job_id in ids} == {7}
    stamps = [job_id.int >> 64 for job_id in ids]  # with the fraction of the millisecond
    assert stamps == sorted(stamps)
    assert len(set(stamps)) > len({stamp >> 16 for stamp in stamps})


def test_ids_made_by_many_sessions_at_once_are_unique(server):
    with testing.database(server) as url:

        def made(_):
            with psycopg.connect(url) as connection:
                rows = connection.execute("select posthouse.new_id() from generate_series(1, 2000)")
                return [row[0] for row in rows]

        with ThreadPoolExecutor(4) as pool:
            ids = [job_id for batch in pool.map(made, range(4)) for job_id in batch]
    assert len(set(ids)) == 8000

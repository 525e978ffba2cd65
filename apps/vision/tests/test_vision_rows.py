"""What the statements do to rows, and who sees them."""

import json
from uuid import uuid4

import psycopg
import pytest

from vision.db import sql
from vision.entities import extract_entities, normalize, text_hash


def region(text, t_start, t_end, confidence=0.9):
    known = {"normalized_text": normalize(text), "text_hash": text_hash(normalize(text))}
    fixed = {"bounding_box": {}, "language": "eng"}
    return {"text": text, "t_start": t_start, "t_end": t_end, "confidence": confidence, **known, **fixed}


@pytest.fixture
def add(running_app):
    """Adds a video with these (text, t_start, t_end, confidence)."""

    def added(*segments, team="acme", status="processing"):
        video_id = uuid4()
        with psycopg.connect(running_app.settings.database_url) as db:
            ready = "now()" if status == "ready" else "null"
            db.execute(
                "insert into vision.videos (id, team_id, owner_id, s3_original_path, status, ready_at) "
                f"values (%s, %s, 'me', 'x', %s, {ready})",
                (video_id, team, status),
            )
            regions = [region(*segment) for segment in segments]
            db.execute(sql("segments_add"), {"video": video_id, "regions": json.dumps(regions)})
        return video_id

    return added


def segments(running_app, video_id):
    rows = running_app.rows(
        "select text, t_start, t_end from vision.segments where video_id = %s order by t_start, text",
        video_id,
    )
    return [tuple(row.values()) for row in rows]


def index(db, video_id):
    db.execute(sql("video_ready"), {"video": video_id})
    db.execute(sql("search_refresh"), {"video": video_id})


def found(db, text, terms=(), **more):
    asked = {"team": None, "video": None, "limit": 50, "offset": 0, **more}
    rows = db.execute(sql("search"), {"words": text, "terms": list(terms), **asked}).fetchall()
    return [row[5] for row in rows]


async def test_equal_texts_that_follow_each_other_become_one_and_others_stay(running_app, add):
    video_id = add(
        ("Hello", 0, 100), ("sale", 0, 100), ("HELLO", 100, 300, 0.99), ("Hello", 300, 400),
        ("Bye", 400, 500), ("Hello", 500, 600), ("sale", 650, 700),
    )  # fmt: skip
    other = add(("Hello", 100, 200))
    with psycopg.connect(running_app.settings.database_url) as db:
        for _ in range(2):  # again it changes nothing
            db.execute(sql("segments_merge"), {"video": video_id})
    assert segments(running_app, video_id) == [
        ("HELLO", 0, 400), ("sale", 0, 100), ("Bye", 400, 500), ("Hello", 500, 600), ("sale", 650, 700),
    ]  # fmt: skip
    assert segments(running_app, other) == [("Hello", 100, 200)]


async def test_a_text_inside_a_longer_one_does_not_part_what_follows(running_app, add):
    video_id = add(("a", 0, 500), ("a", 100, 200), ("a", 400, 600))
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute(sql("segments_merge"), {"video": video_id})
    assert segments(running_app, video_id) == [("a", 0, 600)]


async def test_two_videos_that_become_ready_at_once_are_both_found(running_app, add):
    """Neither waits for the other, and a later refresh of all has nothing to do."""
    one, other = add(("first", 0, 1)), add(("second", 0, 1))
    with (
        psycopg.connect(running_app.settings.database_url) as db,
        psycopg.connect(running_app.settings.database_url) as late,
    ):
        index(db, one)
        index(late, other)
        db.commit()
        late.commit()
        assert found(db, "first") == ["first"]
        assert found(db, "second") == ["second"]
        written = "select xmin::text from vision.search_materialized order by 1"
        before = db.execute(written).fetchall()
        db.execute("select vision.refresh_search_materialized()")
        assert db.execute(written).fetchall() == before


async def test_the_database_itself_keeps_teams_apart(running_app, add):
    for team in ("acme", "globex"):
        video_id = add((f"Text of {team} @{team}", 0, 1), team=team, status="ready")
        rows = running_app.rows("select id, text from vision.segments where video_id = %s", video_id)
        with psycopg.connect(running_app.settings.database_url) as db:
            db.execute(sql("entities_add"), extract_entities([(rows[0]["id"], rows[0]["text"])])._asdict())
            db.execute(sql("search_refresh"), {"video": video_id})
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute("set local role posthouse_tenant")
        for table in ("videos", "segments", "entities"):
            assert db.execute(f"select count(*) from vision.{table}").fetchone() == (0,), table
        assert found(db, "text") == []
        db.execute("set local posthouse.tenant = 'acme'")
        assert found(db, "text") == ["Text of acme @acme"]
        assert found(db, "text", team="globex") == ["Text of acme @acme"]
        assert found(db, "", ["mention:globex"]) == []
        for table in ("videos", "segments", "entities"):
            assert db.execute(f"select distinct team_id from vision.{table}").fetchall() == [("acme",)], table
        for forbidden in (
            "select from vision.search_materialized",
            "select vision.refresh_search_materialized()",
            "update vision.videos set status = 'ready'",
            "delete from vision.segments",
            "delete from vision.videos",
            "insert into vision.clips values (gen_random_uuid(), 'x', 'globex', 0, 1, 0)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
                db.execute(forbidden)


async def test_the_schema_can_be_run_again(running_app):
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute(running_app.app.schema.read_text())


async def test_punctuation_is_searched_as_text(running_app, add):
    """A sign of a query language means itself, and a query of signs alone does not find everything."""
    video_id = add(
        ("100 % wool", 0, 1),
        ("Room 4711", 1, 2),
        ("a@b.example", 2, 3),
        ("at \\ o'clock", 3, 4),
    )
    with psycopg.connect(running_app.settings.database_url) as db:
        index(db, video_id)
        assert found(db, "%") == ["100 % wool"]
        assert found(db, "@") == ["a@b.example"]
        assert len(found(db, "o'clock")) == 1
        assert len(found(db, "\\")) == 1
        for nothing in ("_", "%%", " ", "&", "!", ":*", "te"):
            assert found(db, nothing) == [], nothing
        assert found(db, "%", video=uuid4()) == []
        assert found(db, "room", video=video_id) == ["Room 4711"]


MANY = 20_000


async def test_a_search_touches_few_rows_of_many(running_app, add):
    """As a tenant: operators that are not leakproof must not make it read all rows."""
    video_id = add(status="ready")
    with psycopg.connect(running_app.settings.database_url) as db:
        db.execute(
            "insert into vision.segments (video_id, team_id, owner_id, t_start, t_end, text, normalized_text,"
            " text_hash, confidence, bounding_box, language) "
            "select %s, 'acme', 'me', n, n, t, t, t, 0.9, '{}', 'eng' "
            "from generate_series(1, %s) as n cross join lateral (select 'common word' || n as t) as w",
            (video_id, MANY),
        )
        index(db, video_id)
        db.commit()
        db.execute("analyze vision.segments, vision.search_materialized")
        db.execute("set local role posthouse_tenant")
        db.execute("set local posthouse.tenant = 'acme'")
        for text, matches in (("word777", 11), ("common", 50)):
            assert len(found(db, text)) == matches
        touched = db.execute(
            "select seq_scan, seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables "
            "where relname = 'search_materialized'"
        ).fetchone()
    assert touched[0] == 0, "the table was scanned"
    assert touched[1] <= 1011

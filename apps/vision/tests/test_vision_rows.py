"""What the statements do to rows, and who sees them."""

import json
import threading
from uuid import uuid4

import psycopg
import pytest

from vision.statements import statement
from vision.texts import mentioned, normalize, text_hash


def region(text, t_start, t_end, confidence=0.9):
    known = {"normalized_text": normalize(text), "text_hash": text_hash(normalize(text))}
    fixed = {"bounding_box": {}, "language": "eng"}
    return {"text": text, "t_start": t_start, "t_end": t_end, "confidence": confidence, **known, **fixed}


@pytest.fixture
def add(product):
    """Adds a video with these (text, t_start, t_end, confidence)."""

    def added(*segments, team="acme", status="processing"):
        video_id = uuid4()
        with psycopg.connect(product.settings.database_url) as db:
            ready = "now()" if status == "ready" else "null"
            db.execute(
                "insert into vision.videos (id, team_id, owner_id, s3_original_path, status, ready_at) "
                f"values (%s, %s, 'me', 'x', %s, {ready})",
                (video_id, team, status),
            )
            regions = [region(*segment) for segment in segments]
            db.execute(statement("segments_add"), {"video": video_id, "regions": json.dumps(regions)})
        return video_id

    return added


def segments(product, video_id):
    rows = product.rows(
        "select text, t_start, t_end from vision.segments where video_id = %s order by t_start, text",
        video_id,
    )
    return [tuple(row.values()) for row in rows]


def index(db, video_id):
    db.execute(statement("video_ready"), {"video": video_id})
    db.execute(statement("search_refresh"))


async def test_equal_texts_that_follow_each_other_become_one_and_others_stay(product, add):
    video_id = add(
        ("Hello", 0, 100), ("sale", 0, 100), ("HELLO", 100, 300, 0.99), ("Hello", 300, 400),
        ("Bye", 400, 500), ("Hello", 500, 600), ("sale", 650, 700),
    )  # fmt: skip
    other = add(("Hello", 100, 200))
    with psycopg.connect(product.settings.database_url) as db:
        for _ in range(2):  # again it changes nothing
            db.execute(statement("segments_merge"), {"video": video_id})
    assert segments(product, video_id) == [
        ("HELLO", 0, 400), ("sale", 0, 100), ("Bye", 400, 500), ("Hello", 500, 600), ("sale", 650, 700),
    ]  # fmt: skip
    assert segments(product, other) == [("Hello", 100, 200)]


async def test_a_text_inside_a_longer_one_does_not_part_what_follows(product, add):
    video_id = add(("a", 0, 500), ("a", 100, 200), ("a", 400, 600))
    with psycopg.connect(product.settings.database_url) as db:
        db.execute(statement("segments_merge"), {"video": video_id})
    assert segments(product, video_id) == [("a", 0, 600)]


async def test_two_videos_that_become_ready_at_once_are_both_found(product, add):
    """The refresh that has to wait must not put back what was there before it waited."""
    one, other = add(("first", 0, 1)), add(("second", 0, 1))
    with (
        psycopg.connect(product.settings.database_url) as db,
        psycopg.connect(product.settings.database_url) as late,
    ):
        index(db, one)
        waiting = threading.Thread(target=lambda: (index(late, other), late.commit()))
        waiting.start()
        await product.until(
            lambda: product.rows("select from pg_locks where not granted and locktype = 'advisory'"), "a wait"
        )
        db.commit()
        waiting.join()
    found = product.rows("select text from vision.search order by text")
    assert [row["text"] for row in found] == ["first", "second"]


async def test_the_database_itself_keeps_teams_apart(product, add):
    for team in ("acme", "globex"):
        video_id = add((f"Text of {team} @{team}", 0, 1), team=team, status="ready")
        rows = product.rows("select id, text from vision.segments where video_id = %s", video_id)
        with psycopg.connect(product.settings.database_url) as db:
            db.execute(statement("entities_add"), mentioned([(rows[0]["id"], rows[0]["text"])])._asdict())
            db.execute(statement("search_refresh"))
    with psycopg.connect(product.settings.database_url) as db:
        db.execute("set local role posthouse_tenant")
        for table in ("videos", "segments", "entities", "search"):
            assert db.execute(f"select count(*) from vision.{table}").fetchone() == (0,), table
        db.execute("set local posthouse.tenant = 'acme'")
        for table in ("videos", "segments", "entities", "search"):
            assert db.execute(f"select distinct team_id from vision.{table}").fetchall() == [("acme",)], table
        for forbidden in (
            "select from vision.search_materialized",
            "select vision.refresh_search_materialized()",
            "update vision.videos set status = 'ready'",
            "delete from vision.segments",
            "insert into vision.clips values (gen_random_uuid(), 'x', 'globex', 0, 1, 0)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), db.transaction():
                db.execute(forbidden)


async def test_the_schema_can_be_run_again(product):
    with psycopg.connect(product.settings.database_url) as db:
        db.execute(product.app.schema.read_text())

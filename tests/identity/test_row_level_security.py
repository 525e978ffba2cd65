"""Row-level security by the catalog: what is guarded, what a tenant may read and call."""

from __future__ import annotations

import psycopg
import pytest

from support.identity import as_tenant

TABLES = """
select c.relname, c.relrowsecurity and c.relforcerowsecurity,
       exists (select from pg_policy as p where p.polrelid = c.oid and p.polname = 'engine'),
       has_table_privilege('posthouse_tenant', c.oid, 'insert, update, delete, truncate')
from pg_class as c where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p')
"""
READABLE = """
select c.relname from pg_class as c
where c.relnamespace = 'posthouse'::regnamespace and c.relkind in ('r', 'p', 'v')
  and has_any_column_privilege('posthouse_tenant', c.oid, 'select')
"""
OPEN = """
select c.relname from pg_policy as p join pg_class as c on c.oid = p.polrelid
where p.polname = 'tenant' and pg_get_expr(p.polqual, p.polrelid) !~ 'tenant\\(\\)|EXISTS'
"""
FUNCTIONS = """
select p.proname, p.prosecdef, p.proconfig,
       has_function_privilege('posthouse_tenant', p.oid, 'execute'),
       exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
               where a.grantee = 0)
from pg_proc as p where p.pronamespace = 'posthouse'::regnamespace
"""
SHARED = {"definitions", "queues", "alert_types", "sampled_minutes"}
WRITES = {
    "tenant_enqueue", "attach", "cancel", "reopen", "erase", "emit", "replay_event", "create_trigger",
    "change_trigger",
    "remove_trigger", "fire_trigger", "start_bulk_change", "stop_bulk_change", "create_key", "revoke_key",
    "acquire_idempotency_key", "save_response",
}  # fmt: skip
WAYS = {"enqueue_here"}
"""They run with the rights of the caller."""
READS = {
    "tenant", "now", "select_retriable_jobs", "definition_defaults", "event_name_matches", "failure_step",
    "visible_workers",
    "is_online", "accepts_jobs", "slot_of", "start_cost", "refilled", "recent_throughput", "partition_name",
    "search_jobs", "search_sql", "search_table_sql", "search_queued_sql", "search_finished_sql",
    "ready_ids_if_few",
    "fits", "external_payload", "last_served", "first_mismatch", "without_code_exclusions",
    "enqueue_here",  # hands on to tenant_enqueue
}  # fmt: skip


def test_every_table_is_guarded_and_tenants_write_to_none(db):
    found = db.execute(TABLES).fetchall()
    assert len(found) > 50
    assert [row for row in found if row[1:] != (True, True, False)] == []


def test_a_table_that_is_not_guarded_is_found_and_guarded_by_the_next_migration(db):
    db.execute("create table posthouse.novelties (tenant_id text)")
    assert db.execute("select posthouse.missing_isolation()").fetchone() == (
        "tables are not under row-level security",
    )
    db.execute("select posthouse.enforce_tenant_isolation()")
    assert db.execute("select posthouse.missing_isolation()").fetchone() == (None,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), as_tenant(db, "acme"):
        db.execute("select from posthouse.novelties")


def test_what_a_tenant_reads_depends_on_the_tenant_but_for_what_all_share(db):
    assert {row[0] for row in db.execute(OPEN)} == SHARED
    partitions = [name for (name,) in db.execute(READABLE) if name[-1].isdigit() or name.endswith("_default")]
    assert partitions == []


def test_without_a_tenant_there_are_no_rows(db):
    db.execute("select posthouse.enqueue('sync', tenant_id => 'acme')")
    readable = [row[0] for row in db.execute(READABLE) if row[0] not in SHARED]
    for tenant in ("", None):
        with as_tenant(db, tenant):
            seen = {
                name: db.execute(f"select count(*) from posthouse.{name}").fetchone() for name in readable
            }
        assert set(seen.values()) == {(0,)}, seen


def test_views_check_the_rights_of_the_caller(db):
    views = db.execute(
        "select relname, reloptions from pg_class "
        "where relnamespace = 'posthouse'::regnamespace and relkind = 'v'"
    ).fetchall()
    assert views
    assert {options[0] for _, options in views} == {"security_invoker=true"}


def test_a_tenant_calls_these_functions_and_the_public_none(db):
    found = db.execute(FUNCTIONS).fetchall()
    assert {name for name, _, _, may, _ in found if may} == WRITES | WAYS | READS
    assert [name for name, _, _, _, public in found if public] == []


def test_functions_with_their_owners_rights_look_nowhere_else(db):
    found = {name: (definer, config) for name, definer, config, _, _ in db.execute(FUNCTIONS)}
    unpinned = [
        name for name, (definer, config) in found.items()
        if definer and not any(item.startswith("search_path=pg_catalog") for item in config or ())
    ]  # fmt: skip
    assert unpinned == []
    assert [name for name in WRITES if not found[name][0]] == []

"""posthouse retention and posthouse tenants retention."""


def test_a_report_says_what_is_kept_for_how_long_and_what_goes_next(posthouse, engine):
    engine.ended()
    posthouse("tenants", "create", "acme")
    posthouse("tenants", "retention", "acme", "90")
    engine.on(40)
    found = posthouse("retention", "--json", POSTHOUSE_LOGS_RETENTION_DAYS="7").json
    days = {item["relation"]: item["days"] for item in found["tables"]}
    assert (days["history"], days["past_attempts"], days["log_lines"], days["audit"]) == (30, 30, 7, 365)
    assert found["tenants"] == [{"id": "acme", "retention_days": 90}]
    assert {(item["action"], item["relation"]) for item in found["due"]} >= {("shrink", "history")}

    text = posthouse("retention").out
    assert "acme 90 d" in text
    assert "keep only rows of acme" in text


def test_it_can_be_done_now_and_is_on_record(posthouse, engine):
    job = engine.ended()
    engine.on(40)
    answer = posthouse("retention", "--run")
    assert answer.code == 0
    assert "dropped" in answer.out
    assert engine.there(job) == []
    assert posthouse("retention").out.endswith("nothing is due for deletion\n")
    (entry,) = posthouse("audit", "list", "--action", "retention", "--json").json
    assert (entry["action"], entry["after"]["shrunk"]) == ("retention.run", 0)
    assert entry["actor"].startswith("cli:")
    assert posthouse("retention", "--run", "--json").json["dropped"] == 0


def test_days_of_a_tenant_are_set_shown_and_taken_back(posthouse):
    posthouse("tenants", "create", "acme")
    assert "90 day(s)" in posthouse("tenants", "retention", "acme", "90").out
    [shown] = posthouse("tenants", "--json").json
    assert shown.pop("created_at") is not None
    assert shown == {
        "id": "acme", "queued": 0, "running": 0, "weight": 1.0, "retention_days": 90.0, "label": "",
    }  # fmt: skip
    assert "90 d" in posthouse("tenants").out
    assert posthouse("tenants", "retention", "acme", "default", "--json").json["retention_days"] is None
    for wrong in ("soon", "0", "nan"):
        answer = posthouse("tenants", "retention", "acme", wrong)
        assert (answer.code, answer.out) == (2, "")
        assert "day" in answer.err


def test_a_subject_is_erased_after_a_question(posthouse, db):
    posthouse("enqueue", "greet", "--payload", '{"name": "Ada"}', "--subject", "customer-7")
    assert posthouse("erase", "customer-7", stdin="n\n").code == 1
    assert db.execute("select status from posthouse.jobs").fetchall() == [("queued",)]
    answer = posthouse("erase", "customer-7", stdin="y\n")
    assert "1 job(s), 0 event(s) and 0 artifact(s) erased" in answer.out
    assert db.execute("select status, payload from posthouse.jobs").fetchall() == [("canceled", {})]
    again = posthouse("erase", "customer-7", "--wait", "--json").json
    assert (again["state"], again["jobs"], again["tenant_id"]) == ("erased", 0, "default")
    [entry, *_] = posthouse("audit", "list", "--action", "subject", "--json").json
    assert (entry["action"], entry["target"]) == ("subject.erase", "customer-7")
    assert entry["actor"].startswith("cli:")

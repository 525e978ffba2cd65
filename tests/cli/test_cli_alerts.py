"""posthouse alerts."""

import socket

PRIVATE = {"POSTHOUSE_ALERT_PRIVATE_ADDRESSES": "true"}
RAISE = "select posthouse.raise_alert(%s, %s, %s, 'nothing moves, password=hunter2', '{\"queue\": \"mail\"}')"


def keep(posthouse, **env):
    assert posthouse("keeper", "--once", **env).code == 0


def test_alerts_are_listed_newest_first_with_what_became_of_them(posthouse, db, receiver):
    db.execute(RAISE, ("queue_stuck", None, "mail"))
    keep(posthouse, POSTHOUSE_ALERT_WEBHOOK_URL=receiver.url, **PRIVATE)
    db.execute(RAISE, ("trigger_error", "acme", "nightly"))
    keep(posthouse, POSTHOUSE_ALERT_WEBHOOK_URL=receiver.url, **PRIVATE)
    keep(posthouse, POSTHOUSE_ALERT_WEBHOOK_URL=receiver.url, **PRIVATE)
    newest, oldest = posthouse("alerts", "list", "--json").json
    assert (newest["type"], newest["tenant_id"], newest["state"]) == ("trigger_error", "acme", "posted")
    assert [item["state"] for item in oldest["deliveries"]] == ["sent"]
    assert (oldest["severity"], oldest["details"]) == ("error", {"queue": "mail"})
    shown = posthouse("alerts", "list").out
    assert "queue_stuck" in shown
    assert "webhook sent" in shown
    assert "hunter2" not in shown
    assert len(receiver.received) == 2


def test_the_list_is_narrowed(posthouse, db):
    db.execute(RAISE, ("queue_stuck", None, "mail"))
    db.execute(RAISE, ("trigger_error", "acme", "nightly"))
    db.execute("update posthouse.alerts set at = at - interval '2 hours' where type = 'queue_stuck'")
    listed = [
        {item["type"] for item in posthouse("alerts", "list", "--json", *options).json}
        for options in (("--type", "queue_stuck"), ("--since", "1h"), ("--tenant", "acme"), ("--limit", "1"))
    ]
    assert listed == [{"queue_stuck"}, {"trigger_error"}, {"trigger_error"}, {"trigger_error"}]


def test_wrong_options_are_explained(posthouse):
    done = posthouse("alerts", "list", "--type", "queue_stuk")
    assert (done.code, "choose from" in done.err) == (2, True)
    done = posthouse("alerts", "list", "--since", "yesterday")
    assert (done.code, "yesterday" in done.err) == (2, True)


def test_the_counts_of_every_type_are_shown(posthouse, db):
    db.execute(RAISE, ("queue_stuck", None, "mail"))
    keep(posthouse)
    found = {item["type"]: item for item in posthouse("alerts", "counts", "--json").json}
    assert found["queue_stuck"]["raised"] == 1
    assert found["horizon_pinned"]["raised"] == 0
    assert "suppressed" in posthouse("alerts", "counts").out


def test_a_test_alert_says_what_each_destination_answered(posthouse, receiver):
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/"
    env = {"POSTHOUSE_ALERT_WEBHOOK_URL": f"good={receiver.url},bad=slack+{closed}", **PRIVATE}
    done = posthouse("alerts", "test", **env)
    assert done.code == 1
    assert "good (json): responded 200" in done.out
    assert "bad (slack): cannot connect: ConnectionRefusedError" in done.out
    done = posthouse("alerts", "test", "good", "--json", **env)
    assert (done.code, done.json[0]["status"]) == (0, 200)
    assert [alert["type"] for alert in receiver.alerts] == ["test", "test"]


def test_a_test_without_a_destination_says_how_to_set_one(posthouse):
    done = posthouse("alerts", "test")
    assert (done.code, "POSTHOUSE_ALERT_WEBHOOK_URL" in done.err) == (2, True)
    done = posthouse("alerts", "test", "ops", POSTHOUSE_ALERT_WEBHOOK_URL="https://a.test/")
    assert (done.code, "unknown alert destination 'ops'" in done.err) == (2, True)


def test_a_wrong_url_stops_a_keeper_at_its_start_and_is_not_shown(posthouse):
    done = posthouse("keeper", "--once", POSTHOUSE_ALERT_WEBHOOK_URL="hooks.slack.com/services/T0KEN")
    assert done.code == 1
    assert "alert_webhook_url: entry 1 is not a URL" in done.err
    assert "T0KEN" not in done.out + done.err

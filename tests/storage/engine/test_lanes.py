"""The directory of lanes stays small, and no job is lost by that."""


def lanes(engine, jobs):
    """A lane for each, half of them empty by now."""
    engine.enqueue_many(*[{"kind": "task", "limit_key": str(number)} for number in range(jobs)])
    for job in engine.claim(jobs // 2):
        engine.succeed(job)


def test_empty_lanes_are_deleted_when_there_are_many(engine):
    lanes(engine, 20)
    assert engine.value("select posthouse.delete_empty_lanes(20)") == 0
    assert engine.value("select posthouse.delete_empty_lanes(19)") == 10
    assert engine.count("lanes") == 10
    assert len(engine.claim(100)) == 10


def test_a_job_enqueued_while_its_lane_is_deleted_is_found(engine):
    engine.enqueue()
    engine.succeed(engine.claim_one())
    with engine.new_connection(autocommit=False) as caller:
        late = caller.enqueue()
        assert engine.value("select posthouse.delete_empty_lanes(0)") == 1
        caller.commit()
    assert engine.claim(10) == []
    assert engine.value("select posthouse.restore_missing_lanes()") == 1
    assert engine.claim_one().id == late
    assert engine.value("select posthouse.restore_missing_lanes()") == 0


def test_every_kind_of_lane_is_mended(engine):
    engine.enqueue()
    engine.settle(engine.claim_one(), "release", "released", 0.0)
    for fields in (
        {"tenant_id": "t"},
        {"priority": 7},
        {"limit_key": "k"},
        {"requires": ["gpu"]},
        {"prefers": ["x"]},
    ):
        engine.enqueue(**fields)
    before = sorted(
        engine.rows("select * from posthouse.lanes where lane in (select lane from posthouse.ready)")
    )
    engine.connection.execute("delete from posthouse.lanes")
    assert engine.value("select posthouse.restore_missing_lanes()") == 6
    assert sorted(engine.rows("select * from posthouse.lanes")) == before
    assert len(engine.claim(100, capabilities=["gpu"])) == 6

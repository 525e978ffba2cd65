-- The matches of an event with triggers.
select m.trigger_id, t.label, m.replay, m.at, m.outcome, m.job_id, m.error
from posthouse.matches as m left join posthouse.triggers as t on t.id = m.trigger_id
where m.event_id = %(id)s order by m.at, m.trigger_id, m.replay

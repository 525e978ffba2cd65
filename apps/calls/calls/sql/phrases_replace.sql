-- Replace the phrases of a call. Idempotent.
with gone as (
  delete from calls.phrases where call_id = %(call)s and number > cardinality(%(texts)s::text[])
)
insert into calls.phrases as p (call_id, number, org_id, speaker, start_seconds, end_seconds, text)
select %(call)s, f.number, %(org)s, f.speaker, f.start_seconds, f.end_seconds, f.text
from unnest(%(speakers)s::text[], %(starts)s::double precision[], %(ends)s::double precision[], %(texts)s::text[])
  with ordinality as f (speaker, start_seconds, end_seconds, text, number)
on conflict (call_id, number) do update set
  speaker = excluded.speaker, start_seconds = excluded.start_seconds, end_seconds = excluded.end_seconds, text = excluded.text

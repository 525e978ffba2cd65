-- Insert or replace the figures of a call; equal ones keep their time.
insert into calls.analyses as a (call_id, org_id, figures, confidence, is_low_confidence)
values (%(call)s, %(org)s, %(figures)s, %(confidence)s, %(is_low)s)
on conflict (call_id) do update set
  figures = excluded.figures, confidence = excluded.confidence, is_low_confidence = excluded.is_low_confidence,
  analysed_at = posthouse.now()
where (a.figures, a.confidence, a.is_low_confidence) is distinct from
  (excluded.figures, excluded.confidence, excluded.is_low_confidence)

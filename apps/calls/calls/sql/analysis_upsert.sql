-- Insert or replace the figures of a call; equal figures keep their time.
insert into calls.analyses as a (call_id, org_id, figures) values (%(call)s, %(org)s, %(figures)s)
on conflict (call_id) do update set figures = excluded.figures, analysed_at = posthouse.now()
where a.figures <> excluded.figures

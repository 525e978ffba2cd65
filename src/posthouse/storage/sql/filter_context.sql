-- The current time, and which of these words are kinds or subjects.
select
  posthouse.now() as now,
  array(select w from unnest(%(words)s::text[]) as w
        where exists (select from posthouse.definitions as d where d.key = w)
          or exists (select from posthouse.lanes as l where l.kind = w)) as kinds,
  array(select w from unnest(%(words)s::text[]) as w
        where exists (select from posthouse.jobs as j where j.subject = w)) as subjects

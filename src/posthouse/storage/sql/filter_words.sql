-- Which of these words are a kind of job, and which the subject of one.
select
  w.word,
  exists (select from posthouse.definitions as d where d.key = w.word)
    or exists (select from posthouse.lanes as l where l.kind = w.word) as kind,
  exists (select from posthouse.jobs as j where j.subject = w.word) as subject
from unnest(%(words)s::text[]) as w (word)

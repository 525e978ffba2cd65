-- Which of these words are kinds or subjects.
select
  w.word,
  exists (select from posthouse.definitions as d where d.key = w.word)
    or exists (select from posthouse.lanes as l where l.kind = w.word) as kind,
  exists (select from posthouse.jobs as j where j.subject = w.word) as subject
from unnest(%(words)s::text[]) as w (word)

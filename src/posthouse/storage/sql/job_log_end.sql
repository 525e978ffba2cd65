-- The last log lines of a job, or the last before a given line, first to last.
select sequence, at, generation, attempt, stream, level, text
from (
  select sequence, at, generation, attempt, stream, level, text
  from posthouse.log_lines
  where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
    and (%(before)s::bigint is null or sequence < %(before)s::bigint)
    and (%(attempt)s::integer is null or attempt = %(attempt)s::integer)
    and (%(generation)s::integer is null or generation = %(generation)s::integer)
  order by sequence desc
  limit %(limit)s) as l
order by sequence

-- Log lines of a job, first to last, after a given line.
select sequence, at, generation, attempt, stream, level, text
from posthouse.log_lines
where job_id = %(id)s and (%(tenant)s::text is null or tenant_id = %(tenant)s::text)
  and sequence > %(after)s
  and (%(attempt)s::integer is null or attempt = %(attempt)s::integer)
  and (%(generation)s::integer is null or generation = %(generation)s::integer)
order by sequence
limit %(limit)s

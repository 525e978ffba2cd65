-- Restricts the rest of the transaction to one tenant's rows, or to none, and limits how long statements take. The
-- default random_page_cost assumes spinning disks and would read all of ready for the few jobs of a small tenant;
-- recent rows are in memory, so it is capped at 1.1.
select
  set_config('statement_timeout', %(milliseconds)s::text, true),
  set_config('random_page_cost', least(current_setting('random_page_cost')::float8, 1.1)::text, true),
  case when %(tenant)s::text is not null then set_config('posthouse.tenant', %(tenant)s::text, true) end,
  case when %(tenant)s::text is not null then set_config('role', %(role)s::text, true) end

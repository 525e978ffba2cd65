-- For the rest of the transaction: one tenant's rows and no others, or all of them; and an end to long statements. What
-- people look at is recent and in memory: a server that says nothing of its own expects a disk that turns, and would go
-- through all that is ready for the few jobs of a small tenant.
select
  set_config('statement_timeout', %(milliseconds)s::text, true),
  set_config('random_page_cost', least(current_setting('random_page_cost')::float8, 1.1)::text, true),
  case when %(tenant)s::text is not null then set_config('posthouse.tenant', %(tenant)s::text, true) end,
  case when %(tenant)s::text is not null then set_config('role', %(role)s::text, true) end

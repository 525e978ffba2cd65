-- For the rest of the transaction: one tenant's rows and no others, or all of them; and an end to long statements.
select
  set_config('statement_timeout', %(milliseconds)s::text, true),
  case when %(tenant)s::text is not null then set_config('posthouse.tenant', %(tenant)s::text, true) end,
  case when %(tenant)s::text is not null then set_config('role', %(role)s::text, true) end

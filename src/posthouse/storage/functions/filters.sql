-- Searches by the filter language. posthouse.core.filters parses a line into one JSON value; the functions here turn
-- that value into SQL. Every search goes through the ids by indexes, the newest first, and checks on each job the
-- conditions that no index answers; it ends when it has found enough jobs, reached the last one, or read as much as it
-- may. SQL text is only built here, with each value as a literal (%L). These functions run with the rights of the
-- caller, so a search finds only jobs that the caller may see.

-- A payload that is stored in posthouse.payloads. A function, so that it is planned only when it is needed: the
-- row-level security of that table reads all tables of jobs, and took 20 ms to plan in each part of a search.
create or replace function posthouse.external_payload(p_job uuid) returns jsonb
language plpgsql stable as $$
begin
  return (select p.body from posthouse.payloads as p where p.job_id = p_job);
end $$;

-- The SQL for a condition on a job j; m has the columns that not every table of jobs stores.
create or replace function posthouse.fits(p_condition jsonb) returns text
language plpgsql stable as $$
declare
  v_field text := p_condition ->> 'field';
  v_exact text[] := array(select jsonb_array_elements_text(p_condition -> 'exact'));
  v_like text[] := array(select jsonb_array_elements_text(p_condition -> 'like'));
  v_column text := case v_field
    when 'id' then 'j.id' when 'kind' then 'j.kind' when 'queue' then 'j.queue' when 'source' then 'j.source'
    when 'subject' then 'j.subject' when 'correlation' then 'j.correlation_id' when 'tenant' then 'j.tenant_id'
    when 'priority' then 'j.priority' when 'attempts' then 'j.attempt_count' when 'created' then 'j.queued_at'
    when 'status' then 'm.status' when 'finished' then 'm.finished_at'
    when 'fingerprint' then $c$(m.error ->> 'fingerprint')$c$
    when 'error' then $c$(case when m.status <> 'succeeded' then j.last_error end)$c$ end;
  v_type text := case v_field when 'id' then 'uuid' when 'created' then 'timestamptz' when 'finished' then 'timestamptz'
    else 'bigint' end;
  v_asked text;
begin
  if v_field = 'any' then
    select string_agg(posthouse.fits(t.value), ' or ') into v_asked
    from jsonb_array_elements(p_condition -> 'terms') as t;
  elsif v_field = 'payload' then
    v_asked := format(
      'j.kind <> all (%L::text[]) and coalesce(j.payload, posthouse.external_payload(j.id)) @? %L::jsonpath',
      array(select jsonb_array_elements_text(p_condition -> 'secret_in')), p_condition ->> 'path');
  elsif v_field = 'worker' then
    v_asked := format(
      'm.worker_id in (select w.id from posthouse.visible_workers() as w
         where w.name = any (%1$L::text[]) or w.hostname = any (%1$L::text[]) or w.name like any (%2$L::text[])
           or w.hostname like any (%2$L::text[])
           or exists (select from unnest(%1$L::text[]) as e where e <> '''' and starts_with(w.id::text, lower(e))))',
      v_exact, v_like);
  elsif p_condition ? 'ranges' then
    select string_agg(format('(%s)', concat_ws(' and ', 'true',
        v_column || ' >= ' || quote_literal(r.value ->> 'low') || '::' || v_type,
        v_column || ' < ' || quote_literal(r.value ->> 'below') || '::' || v_type)), ' or ')
    into v_asked from jsonb_array_elements(p_condition -> 'ranges') as r;
  else
    v_asked := format('%1$s = any (%2$L::text[]) or %1$s %3$s any (%4$L::text[])',
      v_column, v_exact, case when v_field = 'error' then 'ilike' else 'like' end, v_like);
  end if;
  return format('%s coalesce(%s, false)',
    case when (p_condition ->> 'negated')::boolean then 'not' else '' end, coalesce(v_asked, 'false'));
end $$;

-- The ids of a tenant's ready jobs, found by its lanes, as ready has no index by tenant. Null if there are more than
-- p_few.
create or replace function posthouse.ready_ids_if_few(p_tenant text, p_few integer default 200) returns uuid[]
language sql stable as $$
  select case when count(*) <= p_few then coalesce(array_agg(f.id), '{}') end
  from (
    select r.id
    from (select distinct lane from posthouse.lanes where tenant_id = p_tenant) as l
    cross join lateral (
      select q.id from posthouse.ready as q where q.lane = l.lane order by q.position limit p_few + 1) as r
    limit p_few + 1) as f
$$;

-- The SQL that reads one table for a search: of the jobs below $1 the highest $2, each with whether it fits; with
-- p_status only the jobs of that status. The status is compared together with the id: with a condition of its own, the
-- planner may read the index of ids and discard the jobs of other statuses one by one.
create or replace function posthouse.search_table_sql(p_table text, p_scope text, p_status text, p_query jsonb) returns text
language sql stable as $$
  select format(
    '(select j.id, %s as fits from posthouse.%I as j cross join lateral (select %s) as m where %s order by %s limit $2)',
    concat_ws(' and ',
      case when p_table = 'history' and p_status is null and (p_query ->> 'narrowed')::boolean then
        format('m.status = any (%L::text[])', array(select jsonb_array_elements_text(p_query -> 'statuses'))) end,
      coalesce((select string_agg(posthouse.fits(c.value), ' and ')
                from jsonb_array_elements(p_query -> 'conditions') as c), 'true')),
    p_table,
    format('%s as status, %s as finished_at, %s as worker_id, %s as error', variadic case p_table
      when 'history' then array['j.status', 'j.finished_at', 'j.worker_id', 'j.error']
      when 'running' then array[$c$'running'::text$c$, 'null::timestamptz', 'j.worker_id', 'null::jsonb']
      else array[$c$'queued'::text$c$, 'null::timestamptz', 'null::uuid', 'null::jsonb'] end),
    concat_ws(' and ', nullif(p_scope, ''),
      case when p_status is null then format('j.id >= %L and j.id < $1', p_query ->> 'lowest')
        else format('(j.status, j.id) >= (%1$L, %2$L::uuid) and (j.status, j.id) < (%1$L, $1)',
                    p_status, p_query ->> 'lowest') end,
      case when p_status <> 'succeeded' then $c$j.status <> 'succeeded'$c$ end,
      case when p_table = 'history' then 'j.finished_at >= ' || quote_literal(p_query ->> 'finished_since') end,
      case when p_table = 'history' then 'j.finished_at < ' || quote_literal(p_query ->> 'finished_until') end),
    case when p_status is null then 'j.id desc' else 'j.status desc, j.id desc' end)
$$;

-- The SQL for the queued jobs of a search; the ready jobs of one tenant are found by ready_ids_if_few.
create or replace function posthouse.search_queued_sql(p_scope text, p_tenant text, p_query jsonb) returns text[]
language plpgsql stable as $$
declare
  v_few uuid[] := case when p_tenant is not null and not p_query ? 'by' then posthouse.ready_ids_if_few(p_tenant) end;
begin
  return array[
    posthouse.search_table_sql('ready', concat_ws(' and ', nullif(p_scope, ''),
      'j.id = any (' || quote_literal(v_few) || '::uuid[])'), null, p_query),
    posthouse.search_table_sql('waiting', p_scope, null, p_query)];
end $$;

-- The SQL for the ended jobs of a search; by status if an index has it: for one tenant, or for unsuccessful jobs only.
create or replace function posthouse.search_finished_sql(p_scope text, p_ended text[], p_query jsonb) returns text[]
language sql stable as $$
  select case
    when p_ended = '{}' then '{}'
    when not p_query ? 'by' and (p_query ? 'tenants' or 'succeeded' <> all (p_ended)) then
      array(select posthouse.search_table_sql('history', p_scope, s, p_query) from unnest(p_ended) as s)
    else array[posthouse.search_table_sql('history', p_scope, null, p_query)] end
$$;

-- The SQL over all tables of a search, for each tenant and each value of the search's index if it has one. Null: no job
-- can match.
create or replace function posthouse.search_sql(p_query jsonb) returns text
language plpgsql stable as $$
declare
  v_statuses text[] := array(select jsonb_array_elements_text(p_query -> 'statuses'));
  v_ended text[] := array_remove(array_remove(v_statuses, 'queued'), 'running');
  v_column text := case p_query ->> 'by' when 'subject' then 'subject' when 'correlation' then 'correlation_id' end;
  v_parts text[] := '{}';
  v_scope record;
begin
  for v_scope in
    select t.tenant, concat_ws(' and ', 'j.tenant_id = ' || quote_literal(t.tenant),
      'j.' || quote_ident(v_column) || ' = ' || quote_literal(v.value)) as text
    from (select jsonb_array_elements_text(p_query -> 'tenants')
          union all select null where not p_query ? 'tenants') as t (tenant)
    cross join (select jsonb_array_elements_text(p_query -> 'values')
                union all select null where v_column is null) as v (value)
  loop
    v_parts := v_parts
      || case when 'queued' = any (v_statuses) then posthouse.search_queued_sql(v_scope.text, v_scope.tenant, p_query) end
      || case when 'running' = any (v_statuses) then posthouse.search_table_sql('running', v_scope.text, null, p_query) end
      || posthouse.search_finished_sql(v_scope.text, v_ended, p_query);
  end loop;
  return nullif(array_to_string(v_parts, ' union all '), '');
end $$;

-- Ids of jobs that fit, below p_below, the newest first and up to p_limit. It reads windows of jobs that grow from one
-- to the next, and stops after p_max_scanned jobs or p_seconds. looked_to: everything above this id was searched; null:
-- nothing is left below.
create or replace function posthouse.search_jobs(
  p_query jsonb, p_below uuid, p_limit integer, p_max_scanned integer, p_seconds double precision,
  out ids uuid[], out looked_to uuid)
language plpgsql stable
set jit = off  -- compiling would take longer than the query
-- Forces reads in the order of an index, which end early, even if the planner mistakes a large part of history for a
-- small one: for a status that nearly all jobs have, it estimates that no rows are below the given id.
set enable_sort = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_parts text := posthouse.search_sql(p_query);
  v_until timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
  v_window integer := least(greatest(p_limit, 250), 20000);
  v_looked integer := 0;
  v_met integer;
  v_last uuid;
  v_found uuid[];
begin
  ids := '{}';
  if v_parts is null then
    return;
  end if;
  looked_to := least(p_below, (p_query ->> 'below')::uuid);
  while cardinality(ids) < p_limit and v_looked < p_max_scanned and clock_timestamp() < v_until loop
    execute format(
      'select coalesce(array_agg(r.id order by r.id desc) filter (where r.fits), ''{}''), count(*),
         (array_agg(r.id order by r.id))[1]
       from (select p.* from (%s) as p order by p.id desc limit $2) as r', v_parts)
    into v_found, v_met, v_last using looked_to, v_window;
    if cardinality(ids) + cardinality(v_found) > p_limit then
      ids := ids || v_found[: p_limit - cardinality(ids)];
      looked_to := ids[p_limit];
      return;
    end if;
    ids := ids || v_found;
    looked_to := case when v_met = v_window then v_last end;
    exit when looked_to is null;
    v_looked := v_looked + v_met;
    v_window := least(v_window * 4, 20000);
  end loop;
end $$;

-- Jobs by the filter language. posthouse.core.filters reads a line and says what is wanted, as one JSON value: here it
-- becomes a search. Every search goes down the ids, the newest first, by indexes, and asks of each job that it meets
-- what no index answers; it ends when it has found enough, met the last one, or done as much as it may. Text becomes
-- SQL in here alone, and each value in it as a literal (%L). Callers see only what they may see: nothing of this
-- runs with other rights than theirs.

-- A payload that is kept aside. A function, so that its plan is made once it is needed: which rows of that table a
-- tenant may see is asked of all places, and took 20 ms to plan in each part of a search.
create or replace function posthouse.external_payload(p_job uuid) returns jsonb
language plpgsql stable as $$
begin
  return (select p.body from posthouse.payloads as p where p.job_id = p_job);
end $$;

-- What a condition asks of a job j, of which m holds what not every place stores.
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

-- A tenant's ready jobs, if they are few: they have no index by tenant, but their lanes tell. Null: there are more.
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

-- The jobs of one place that a search may meet: of those below $1 the highest $2, each with whether it fits. With
-- p_status those that have it. It is compared together with ids, not by itself: otherwise the planner may read the
-- index of ids, and leave out what has another status one by one.
create or replace function posthouse.search_table_sql(p_place text, p_scope text, p_status text, p_wanted jsonb) returns text
language sql stable as $$
  select format(
    '(select j.id, %s as fits from posthouse.%I as j cross join lateral (select %s) as m where %s order by %s limit $2)',
    concat_ws(' and ',
      case when p_place = 'history' and p_status is null and (p_wanted ->> 'narrowed')::boolean then
        format('m.status = any (%L::text[])', array(select jsonb_array_elements_text(p_wanted -> 'statuses'))) end,
      coalesce((select string_agg(posthouse.fits(c.value), ' and ')
                from jsonb_array_elements(p_wanted -> 'conditions') as c), 'true')),
    p_place,
    format('%s as status, %s as finished_at, %s as worker_id, %s as error', variadic case p_place
      when 'history' then array['j.status', 'j.finished_at', 'j.worker_id', 'j.error']
      when 'running' then array[$c$'running'::text$c$, 'null::timestamptz', 'j.worker_id', 'null::jsonb']
      else array[$c$'queued'::text$c$, 'null::timestamptz', 'null::uuid', 'null::jsonb'] end),
    concat_ws(' and ', nullif(p_scope, ''),
      case when p_status is null then format('j.id >= %L and j.id < $1', p_wanted ->> 'lowest')
        else format('(j.status, j.id) >= (%1$L, %2$L::uuid) and (j.status, j.id) < (%1$L, $1)',
                    p_status, p_wanted ->> 'lowest') end,
      case when p_status <> 'succeeded' then $c$j.status <> 'succeeded'$c$ end,
      case when p_place = 'history' then 'j.finished_at >= ' || quote_literal(p_wanted ->> 'finished_since') end,
      case when p_place = 'history' then 'j.finished_at < ' || quote_literal(p_wanted ->> 'finished_until') end),
    case when p_status is null then 'j.id desc' else 'j.status desc, j.id desc' end)
$$;

-- The queued jobs of a search; what is ready of one tenant as above.
create or replace function posthouse.search_queued_sql(p_scope text, p_tenant text, p_wanted jsonb) returns text[]
language plpgsql stable as $$
declare
  v_few uuid[] := case when p_tenant is not null and not p_wanted ? 'by' then posthouse.ready_ids_if_few(p_tenant) end;
begin
  return array[
    posthouse.search_table_sql('ready', concat_ws(' and ', nullif(p_scope, ''),
      'j.id = any (' || quote_literal(v_few) || '::uuid[])'), null, p_wanted),
    posthouse.search_table_sql('waiting', p_scope, null, p_wanted)];
end $$;

-- The ended jobs of a search, by status where an index has it: for a tenant, or if it is about those that ended badly.
create or replace function posthouse.search_finished_sql(p_scope text, p_ended text[], p_wanted jsonb) returns text[]
language sql stable as $$
  select case
    when p_ended = '{}' then '{}'
    when not p_wanted ? 'by' and (p_wanted ? 'tenants' or 'succeeded' <> all (p_ended)) then
      array(select posthouse.search_table_sql('history', p_scope, s, p_wanted) from unnest(p_ended) as s)
    else array[posthouse.search_table_sql('history', p_scope, null, p_wanted)] end
$$;

-- All places of a search, for each tenant and each value of its index if it has one. Null: there is none.
create or replace function posthouse.search_sql(p_wanted jsonb) returns text
language plpgsql stable as $$
declare
  v_statuses text[] := array(select jsonb_array_elements_text(p_wanted -> 'statuses'));
  v_ended text[] := array_remove(array_remove(v_statuses, 'queued'), 'running');
  v_column text := case p_wanted ->> 'by' when 'subject' then 'subject' when 'correlation' then 'correlation_id' end;
  v_places text[] := '{}';
  v_scope record;
begin
  for v_scope in
    select t.tenant, concat_ws(' and ', 'j.tenant_id = ' || quote_literal(t.tenant),
      'j.' || quote_ident(v_column) || ' = ' || quote_literal(v.value)) as text
    from (select jsonb_array_elements_text(p_wanted -> 'tenants')
          union all select null where not p_wanted ? 'tenants') as t (tenant)
    cross join (select jsonb_array_elements_text(p_wanted -> 'values')
                union all select null where v_column is null) as v (value)
  loop
    v_places := v_places
      || case when 'queued' = any (v_statuses) then posthouse.search_queued_sql(v_scope.text, v_scope.tenant, p_wanted) end
      || case when 'running' = any (v_statuses) then posthouse.search_table_sql('running', v_scope.text, null, p_wanted) end
      || posthouse.search_finished_sql(v_scope.text, v_ended, p_wanted);
  end loop;
  return nullif(array_to_string(v_places, ' union all '), '');
end $$;

-- Ids of jobs that fit, below p_below, the newest first and up to p_limit of them. It looks at windows of jobs that
-- grow from one to the next, and not on after p_most jobs or p_seconds. looked_to: nothing above it was left out; null:
-- nothing is below.
create or replace function posthouse.search_jobs(
  p_wanted jsonb, p_below uuid, p_limit integer, p_most integer, p_seconds double precision,
  out ids uuid[], out looked_to uuid)
language plpgsql stable
set jit = off  -- would take longer than the query
-- In the order of an index and no further than needed, even if the planner takes a large part of history for a small one:
-- of a status that nearly all jobs have, it believes that nothing is below it.
set enable_sort = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_places text := posthouse.search_sql(p_wanted);
  v_until timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
  v_window integer := least(greatest(p_limit, 250), 20000);
  v_looked integer := 0;
  v_met integer;
  v_last uuid;
  v_found uuid[];
begin
  ids := '{}';
  if v_places is null then
    return;
  end if;
  looked_to := least(p_below, (p_wanted ->> 'below')::uuid);
  while cardinality(ids) < p_limit and v_looked < p_most and clock_timestamp() < v_until loop
    execute format(
      'select coalesce(array_agg(r.id order by r.id desc) filter (where r.fits), ''{}''), count(*),
         (array_agg(r.id order by r.id))[1]
       from (select p.* from (%s) as p order by p.id desc limit $2) as r', v_places)
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

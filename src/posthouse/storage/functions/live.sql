-- Queries for live streams and metrics.

-- Ids in history (or past_attempts) with a finish time later than p_since, from the newest p_pages pages of each day.
-- Both tables are append-only, so the newest rows are at the end, and no index is needed for this.
create or replace function posthouse.lately(p_table text, p_since timestamptz, p_pages integer)
returns table (id uuid, at timestamptz)
language plpgsql stable as $$
declare
  v_day date;
  v_part regclass;
  v_page bigint;
begin
  for v_day in
    select generate_series((p_since at time zone 'UTC')::date, (posthouse.now() at time zone 'UTC')::date, '1 day')
  loop
    v_part := coalesce(to_regclass('posthouse.' || posthouse.partition_name(p_table, v_day)),
                       to_regclass('posthouse.' || p_table || '_default'));
    v_page := greatest(0, pg_relation_size(v_part) / current_setting('block_size')::integer - p_pages);
    return query execute format(
      'select %I, finished_at from %s where ctid >= $1 and finished_at > $2',
      case p_table when 'history' then 'id' else 'job_id' end, v_part)
      using format('(%s,0)', v_page)::tid, p_since;
  end loop;
end $$;

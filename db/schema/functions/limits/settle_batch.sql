-- Appends the endings of lines of a batch, and charges their windows with their usage in place of their
-- reservations, in one transaction. `_lines` are as in daybook.append, of request.settled or
-- request.abandoned. A line that has its ending already is skipped. The batch is deleted with its last line.
-- Returns how many endings were appended.
-- Raises DB001 if the instance is not live.
create or replace function daybook.settle_batch(_instance integer, _batch uuid, _lines text[]) returns uuid[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _row daybook.batch;
  _open text[];
  _requests uuid[];
  _changes text[];
  _lost daybook.event_fields;
  _windows bigint[];
  _units bigint[];
  _head bigint;
begin
  -- The instance's row, the batch's row, allowances, log: the one lock order.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live and may not append', _instance using errcode = 'DB001';
  end if;
  select * into _row from daybook.batch where batch = _batch for update;
  if not found then
    return '{}';
  end if;
  with given as materialized (
    select e.line, e.line::daybook.event_fields as f from unnest(_lines) as e(line)
  ), ended as (
    delete from daybook.batch_line l using given g where l.batch = _batch and l.request = (g.f).request
      returning g.line, g.f, l.hold_tokens, l.hold_cost_nanousd
  )
  -- The difference between the charge of each and its reservation, as a correction states it.
  select array_agg(e.line), array_agg((e.f).request),
      array_agg(jsonb_populate_record(e.f, jsonb_build_object('type', 1001,
      'input_tokens', case when (e.f).type = 101 then (e.f).input_tokens end,
      'output_tokens', case when (e.f).type = 101 then (e.f).output_tokens end,
      'hold_tokens', case when (e.f).type = 101 then 0 else (e.f).hold_tokens end - e.hold_tokens,
      'cost_nanousd', coalesce(case when (e.f).type = 101 then (e.f).cost_nanousd
        else (e.f).hold_cost_nanousd end, 0) - coalesce(e.hold_cost_nanousd, 0)))::text)
    into _open, _requests, _changes from ended e;
  if _open is null then
    return '{}';
  end if;
  -- Of rates nothing was charged.
  select array_agg(w.id), array_agg(w.units) into _windows, _units
    from daybook.corrected_windows(_changes) w join daybook.allowance a on a.id = w.id
    where a.window_kind <> 1;
  perform 1 from daybook.allowance a where a.id = any(_windows)
    order by a.subject, a.meter, a.window_kind, a.window_start, a.reset_position
    for update of a;
  perform daybook.begin_append(_instance, daybook.batch_append_no(), _open);
  update daybook.allowance a set adjusted = a.adjusted + w.units,
      ceiling = greatest(a.cap - a.adjusted - w.units, a.granted - a.returned)
    from unnest(_windows, _units) as w(id, units) where a.id = w.id;
  perform pg_notify('daybook_recall', case when w.units < 0 then 'adjusted ' || w.id else w.id::text end)
    from unnest(_windows, _units) as w(id, units);
  _head := daybook.write_batch(0::smallint, _instance, daybook.batch_append_no(), _open);
  select f.* into _lost from unnest(_open) as e(line), unnest(array[e.line::daybook.event_fields]) as f
    where f.type = 102 limit 1;
  if found then
    perform daybook.raise_alert('batch_lost/' || _batch, 1, 'batch_lost', 'raised', _row.account,
      jsonb_build_object('batch', _batch, 'upstream', _row.upstream, 'model', _lost.model,
        'key', _row.key, 'lines', _row.line_count));
  end if;
  perform from daybook.batch_line where batch = _batch limit 1;
  if not found then
    delete from daybook.batch where batch = _batch;
  end if;
  perform pg_notify('daybook_log', _head::text);
  return _requests;
end
$$;

-- Appends the ending of a call that was handed over to the background, and charges its windows with its usage
-- in place of its reservation, in one transaction. `_line` is as in daybook.append, of request.settled or
-- request.abandoned. Returns its position; null if the call has its ending already.
-- Raises DB001 if the instance is not live.
create or replace function daybook.settle_background(_instance integer, _request uuid, _line text)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _call daybook.background_response;
  _event daybook.event_fields := _line::daybook.event_fields;
  _change daybook.event_fields;
  _windows bigint[];
  _units bigint[];
  _head bigint;
  _batch_no bigint;
begin
  -- The instance's row, the call's row, allowances, log: the one lock order.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live and may not append', _instance using errcode = 'DB001';
  end if;
  select * into _call from daybook.background_response where request = _request for update;
  if not found then
    return null;
  end if;
  -- The difference between its charge and its reservation, as a correction states it.
  _change := jsonb_populate_record(_event, jsonb_build_object('type', 1001,
    'input_tokens', case when _event.type = 101 then _event.input_tokens end,
    'output_tokens', case when _event.type = 101 then _event.output_tokens end,
    'hold_tokens', case when _event.type = 101 then 0 else _event.hold_tokens end - _call.hold_tokens,
    'cost_nanousd', coalesce(case when _event.type = 101 then _event.cost_nanousd
      else _event.hold_cost_nanousd end, 0) - coalesce(_call.hold_cost_nanousd, 0)));
  select array_agg(w.id), array_agg(w.units) into _windows, _units
    from daybook.corrected_windows(array[_change::text]) w;
  perform 1 from daybook.allowance a where a.id = any(_windows)
    order by a.subject, a.meter, a.window_kind, a.window_start, a.reset_position
    for update of a;
  -- Batches of endings are numbered below those of recoveries.
  _batch_no := -4294967296 - _call.number;
  _head := daybook.begin_append(_instance, _batch_no, array[_line]);
  if _head is not null then
    return _head;
  end if;
  update daybook.allowance a set adjusted = a.adjusted + w.units,
      ceiling = greatest(a.cap - a.adjusted - w.units, a.granted - a.returned)
    from unnest(_windows, _units) as w(id, units) where a.id = w.id;
  perform pg_notify('daybook_recall', case when w.units < 0 then 'adjusted ' || w.id else w.id::text end)
    from unnest(_windows, _units) as w(id, units);
  _head := daybook.write_batch(0::smallint, _instance, _batch_no, array[_line]);
  delete from daybook.background_response where request = _request;
  if _event.type = 102 then
    perform daybook.raise_alert('background_lost/' || _request, 1, 'background_lost', 'raised', _call.account,
      jsonb_build_object('request', _request, 'upstream', _call.upstream, 'model', _event.model,
        'key', _event.key));
  end if;
  perform pg_notify('daybook_log', _head::text);
  return _head;
end
$$;

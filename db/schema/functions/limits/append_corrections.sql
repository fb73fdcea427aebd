-- Appends corrections of ended requests (usage.adjusted, 1001), and changes with them the windows that their
-- requests were charged to, in one transaction: those that are not over, so a lifetime or a prepaid balance
-- always. `_lines` are as in daybook.append. Returns the last position; a repeated call with the same
-- (instance, batch number) changes nothing and returns the result of the first one.
--
-- Two corrections of a request are never decided on the same state of the request: `_seen` is the head of the
-- log that they were decided at, and a correction behind it is a conflict. So is a reference that the request
-- was corrected with before.
-- Raises DB001 if the instance is not live, DB002 on a conflict.
create or replace function daybook.append_corrections(
  _instance integer, _batch_no bigint, _seen bigint, _lines text[]
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _head bigint;
  _taken uuid;
  _windows bigint[];
  _units bigint[];
begin
  -- The instance's row, allowances, log: the one lock order.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live and may not append', _instance using errcode = 'DB001';
  end if;
  select array_agg(w.id), array_agg(w.units) into _windows, _units from daybook.corrected_windows(_lines) w;
  perform 1 from daybook.allowance a where a.id = any(_windows)
    order by a.subject, a.meter, a.window_kind, a.window_start, a.reset_position
    for update of a;

  _head := daybook.begin_append(_instance, _batch_no, _lines);
  if _head is not null then
    return _head;
  end if;
  -- Under the log's lock, so that no correction of the same request is decided meanwhile.
  select c.request into _taken
    from unnest(_lines) as e(line), unnest(array[e.line::daybook.event_fields]) as f,
      daybook.correction c
    where c.request = f.request and (c.position > _seen or c.reference = f.body::jsonb ->> 'reference')
    limit 1;
  if found then
    raise exception 'request % was corrected meanwhile', _taken using errcode = 'DB002';
  end if;
  -- What a hard limit has left can be less than a correction takes: the window is overdrawn then.
  update daybook.allowance a set adjusted = a.adjusted + w.units,
      ceiling = greatest(a.cap - a.adjusted - w.units, a.granted - a.returned)
    from unnest(_windows, _units) as w(id, units) where a.id = w.id;
  -- Servers that know a window as exhausted ask again, and those with surplus units of one that is charged
  -- more return them.
  perform pg_notify('daybook_recall', case when w.units < 0 then 'adjusted ' || w.id else w.id::text end)
    from unnest(_windows, _units) as w(id, units);

  _head := daybook.write_batch(0::smallint, _instance, _batch_no, _lines);
  insert into daybook.correction (position, at, request, account, key, model, route, upstream, end_user,
      session, tags, status, end_reason, cost_nanousd, upstream_cost_nanousd, input_tokens,
      cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, hold_tokens, reference, reason,
      adjusted_by)
    select _head - cardinality(_lines) + e.number, b.at, f.request, f.account, f.key, f.model, f.route,
        f.upstream, f.end_user, f.session, f.tags, f.status, f.end_reason, f.cost_nanousd,
        f.upstream_cost_nanousd, f.input_tokens, f.cache_read_tokens, f.cache_write_tokens, f.output_tokens,
        f.reasoning_tokens, f.hold_tokens, t.body ->> 'reference', t.body ->> 'reason',
        t.body ->> 'adjusted_by'
      from daybook.log_batch b, unnest(_lines) with ordinality as e(line, number),
        unnest(array[e.line::daybook.event_fields]) as f, lateral (select f.body::jsonb as body) t
      where b.shard = 0 and b.last_position = _head;
  perform pg_notify('daybook_log', _head::text);
  return _head;
end
$$;

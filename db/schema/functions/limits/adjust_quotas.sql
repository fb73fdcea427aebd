-- Changes the usage of quota windows and appends the events that record it, in one transaction. `_amount` are
-- units to add; below zero they are given back. Windows are one element per allowance, ordered by identity,
-- which is the one order in which allowances are locked. Lines are as in daybook.append_control.
-- Returns the last position; a repeated call with the same (instance, batch number) changes nothing and
-- returns the result of the first one.
--
-- Units are given back only out of settled usage, and added only out of units that no instance has leased, so
-- that usage never falls below zero and no limit is exceeded.
-- Raises DB001 if the instance is not live, DB002 if a stream has moved on or a claim is taken, DB003 if a
-- window has too few units or isn't the current one.
create or replace function daybook.adjust_quotas(
  _instance integer, _batch_no bigint,
  _subject text[], _meter smallint[], _kind smallint[], _start integer[], _reset bigint[], _cap bigint[],
  _terms bigint[], _amount bigint[],
  _lines text[], _claim text[]
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _a daybook.allowance;
  _allowances daybook.allowance[] := '{}';
  _head bigint;
  _units bigint;
begin
  -- The instance's row, allowances, log: the one lock order.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live and may not adjust usage', _instance using errcode = 'DB001';
  end if;
  for _i in 1 .. coalesce(cardinality(_subject), 0) loop
    loop
      select * into _a from daybook.allowance
        where subject = _subject[_i] and meter = _meter[_i] and window_kind = _kind[_i]
          and window_start = _start[_i] and reset_position = _reset[_i]
        for update;
      exit when found;
      insert into daybook.allowance
          (subject, meter, window_kind, window_start, reset_position, cap, ceiling, terms_position,
            since_terms)
        values (_subject[_i], _meter[_i], _kind[_i], _start[_i], _reset[_i], _cap[_i], _cap[_i], _terms[_i],
          _terms[_i])
        on conflict do nothing;
    end loop;
    _allowances := _allowances || _a;
  end loop;

  -- After the locks, so that a repeated call sees what the first one wrote.
  select last_position into _head from daybook.log_batch where instance = _instance and batch_no = _batch_no
    order by last_position desc limit 1;
  if found then
    return _head;
  end if;

  for _i in 1 .. cardinality(_allowances) loop
    _a := _allowances[_i];
    if _terms[_i] > _a.terms_position then
      _a.cap := _cap[_i];
      _a.terms_position := _terms[_i];
    end if;
    if daybook.window_start(_kind[_i], floor(extract(epoch from clock_timestamp()) / 60)::integer)
        <> _start[_i] then
      raise exception 'the window of % is not the current one', _subject[_i]
        using errcode = 'DB003', detail = 'window';
    end if;
    _units := case when _amount[_i] < 0 then _a.used + _a.overdrawn + _a.adjusted
      else _a.cap - (_a.granted - _a.returned) - _a.overdrawn - _a.adjusted end;
    if abs(_amount[_i]) > _units then
      raise exception 'the window of % has only % units for this', _subject[_i], _units
        using errcode = 'DB003', detail = (_i || ' ' || greatest(0, _units));
    end if;
    update daybook.allowance a set cap = _a.cap, terms_position = _a.terms_position,
        adjusted = a.adjusted + _amount[_i],
        ceiling = greatest(_a.cap - a.adjusted - _amount[_i], a.granted - a.returned)
      where a.id = _a.id;
  end loop;
  return daybook.append_control(0::smallint, _instance, _batch_no, _lines, _claim);
end
$$;

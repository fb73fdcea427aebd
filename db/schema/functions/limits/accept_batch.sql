-- Accepts the lines of a batch, or none of them: charges their reservations to the windows, appends their
-- events and stores them, in one transaction. Windows are one element per allowance, ordered by identity;
-- `_units` are those that all lines together need of each. `_chunks` are lines of request.accepted as in
-- daybook.append, some hundred in each with a line feed between them: every slice of one large array would
-- read the whole array. `_rows` is a JSON array of rows of daybook.batch_line, `_row` is the batch. Rates are
-- not charged: a batch takes as long as its provider needs.
--
-- The reservation is charged as usage that no instance has leased, and not by a lease: no instance has to
-- live for it. daybook.settle_batch replaces it by the usage of each line.
--
-- `short` is the number of the window that has too few units, with its figures, and null where the batch was
-- accepted; a repeated call returns the same. With `recallable` other units of that window may come back: the
-- instances that have leased them are notified. 0: the account has too many lines in progress.
-- Raises DB001 if the instance is not live.
create or replace function daybook.accept_batch(
  _instance integer,
  _subject text[], _meter smallint[], _kind smallint[], _start integer[], _reset bigint[], _cap bigint[],
  _terms bigint[], _since bigint, _units bigint[],
  _row jsonb, _rows jsonb, _chunks text[], _lines_max integer,
  out short integer, out free bigint, out used bigint, out held bigint, out recallable boolean
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _batch daybook.batch := jsonb_populate_record(null::daybook.batch, _row);
  _a daybook.allowance;
  _allowances daybook.allowance[] := '{}';
  _chunk text;
  _head bigint;
begin
  -- The instance's row, allowances, log: the one lock order.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live and may not append', _instance using errcode = 'DB001';
  end if;
  perform from daybook.batch b where b.batch = _batch.batch;
  if found then
    return;
  end if;
  if _lines_max < _batch.line_count + coalesce(
      (select sum(b.line_count) from daybook.batch b where b.account = _batch.account), 0) then
    short := 0;
    return;
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
          _since)
        on conflict do nothing;
    end loop;
    if _terms[_i] > _a.terms_position then
      _a.cap := _cap[_i];
      _a.terms_position := _terms[_i];
    end if;
    _allowances := _allowances || _a;
  end loop;

  for _i in 1 .. cardinality(_allowances) loop
    _a := _allowances[_i];
    free := _a.cap - (_a.granted - _a.returned) - _a.overdrawn - _a.adjusted;
    used := _a.used + _a.overdrawn + _a.adjusted;
    held := _a.held;
    if _units[_i] > free then
      short := _i;
      recallable := _units[_i] <= _a.cap - used;
      if recallable then
        update daybook.allowance set short_until = clock_timestamp() + interval '2 seconds', near = true
          where id = _a.id;
        perform pg_notify('daybook_recall', _a.id::text);
      end if;
      return;
    end if;
  end loop;
  for _i in 1 .. cardinality(_allowances) loop
    _a := _allowances[_i];
    update daybook.allowance a set cap = _a.cap, terms_position = _a.terms_position,
        since_terms = least(a.since_terms, _since), adjusted = a.adjusted + _units[_i],
        ceiling = greatest(_a.cap - a.adjusted - _units[_i], a.granted - a.returned)
      where a.id = _a.id;
  end loop;

  insert into daybook.batch
      (batch, account, key, upstream, credential, input_file, line_count, facts, holder)
    values (_batch.batch, _batch.account, _batch.key, _batch.upstream, _batch.credential,
      _batch.input_file, _batch.line_count, _batch.facts, _instance);
  insert into daybook.batch_line
    select _batch.batch, decode(r.custom_id, 'hex'), r.request, r.model, r.body_bytes, r.prompt_tokens,
        r.output_limit, r.choices, r.hold_tokens, r.hold_cost_nanousd
      from jsonb_to_recordset(_rows) as r(custom_id text, request uuid, model text, body_bytes integer,
        prompt_tokens integer, output_limit integer, choices smallint, hold_tokens bigint,
        hold_cost_nanousd bigint);
  perform daybook.begin_append(_instance, daybook.batch_append_no(), _chunks);
  foreach _chunk in array _chunks loop
    _head := daybook.write_batch(0::smallint, _instance, daybook.batch_append_no(),
      string_to_array(_chunk, e'\n'));
  end loop;
  perform pg_notify('daybook_log', _head::text);
  free := null; used := null; held := null;
end
$$;

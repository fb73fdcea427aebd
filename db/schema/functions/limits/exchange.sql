-- The lease exchange of an instance, in one transaction. The instance
--   reports its returned, spent and held units (as totals, so that a repeated call changes nothing),
--   requests units for its waiting requests, in their order of admission,
--   requests a stock to decide from on its own while the allowance is far from exhausted, and
--   closes leases that are idle.
-- Lines are one element per allowance, ordered by identity, which is the one order in which allowances are
-- locked. Needs are one element each, those of a request side by side; `_line` counts from 1. A request is
-- granted all of its needs or nothing: `grants` is then 0, and -1 at the need that failed.
--
-- Only a grant waits for its flush to disk: a crash that lost a grant would give the same units to others,
-- while this instance lives on and spends them. Everything else is reported again until it is acknowledged.
-- The lease's own totals are returned as well, for an instance that has forgotten an idle lease.
-- Raises DB001 if the instance is not live.
create or replace function daybook.exchange(
  _instance integer, _position bigint,
  _subject text[], _meter smallint[], _kind smallint[], _start integer[], _reset bigint[], _cap bigint[],
  _terms bigint[], _since bigint[], _returned bigint[], _used bigint[], _overdrawn bigint[], _held bigint[],
  _strict boolean[], _closes boolean[], _stock bigint[],
  _request integer[], _line integer[], _minimum bigint[], _wanted bigint[],
  out allowance bigint[], out cap bigint[], out granted bigint[], out free bigint[], out near boolean[],
  out used bigint[], out held bigint[], out recallable boolean[],
  out own_returned bigint[], out own_used bigint[], out own_overdrawn bigint[],
  out grants bigint[], out now timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _lines integer := coalesce(cardinality(_subject), 0);
  _needs integer := coalesce(cardinality(_request), 0);
  _a daybook.allowance;
  _l daybook.lease;
  _allowances daybook.allowance[] := '{}';
  _leases daybook.lease[] := '{}';
  _threshold bigint;
  _was_near boolean;
  _recall integer[] := '{}';
  _is_granted boolean := false;
  _first integer;
  _next integer;
  _short integer;
  _amount bigint;
begin
  now := clock_timestamp();
  -- The instance's row stays locked until the commit, so that the instance can't be declared dead in between,
  -- and recovery finds every lease.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live and may not spend', _instance using errcode = 'DB001';
  end if;
  allowance := '{}'; granted := '{}'; free := '{}'; near := '{}';
  used := '{}'; held := '{}'; recallable := '{}'; grants := '{}';

  for _i in 1 .. _lines loop
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
          _since[_i])
        on conflict do nothing;
    end loop;
    select * into _l from daybook.lease l where l.allowance = _a.id and l.instance = _instance;
    if not found then
      _l := row(_a.id, _instance, 0, 0, 0, 0, 0, _position, _since[_i], false, false)::daybook.lease;
      insert into daybook.lease select _l.*;
      _a.sharers := _a.sharers + 1;
    elsif _l.closed then
      -- The instance closed it while it was idle. Its totals continue.
      _l.closed := false;
      _l.since_terms := _since[_i];
      _a.sharers := _a.sharers + 1;
    end if;
    if _terms[_i] > _a.terms_position then
      _a.cap := _cap[_i];
      _a.terms_position := _terms[_i];
    end if;

    _a.returned := _a.returned + greatest(0, _returned[_i] - _l.returned);
    _a.used := _a.used + greatest(0, _used[_i] - _l.used);
    _a.overdrawn := _a.overdrawn + greatest(0, _overdrawn[_i] - _l.overdrawn);
    _a.held := _a.held + _held[_i] - _l.held;
    _l.returned := greatest(_l.returned, _returned[_i]);
    _l.used := greatest(_l.used, _used[_i]);
    _l.overdrawn := greatest(_l.overdrawn, _overdrawn[_i]);
    _l.held := _held[_i];
    _l.position := greatest(_l.position, _position);
    _l.since_terms := least(_l.since_terms, _since[_i]);
    _a.since_terms := least(_a.since_terms, _since[_i]);
    -- Both rows are written once, after all needs were decided; they stay locked until then.
    _allowances := _allowances || _a;
    _leases := _leases || _l;

    allowance := allowance || _a.id;
    cap := cap || _a.cap;
    granted := granted || _l.granted;
    free := free || (_a.cap - (_a.granted - _a.returned) - _a.overdrawn - _a.adjusted);
    used := used || (_a.used + _a.overdrawn + _a.adjusted);
    held := held || _a.held;
    own_returned := own_returned || _l.returned;
    own_used := own_used || _l.used;
    own_overdrawn := own_overdrawn || _l.overdrawn;
  end loop;

  _first := 1;
  while _first <= _needs loop
    _next := _first;
    _short := null;
    while _next <= _needs and _request[_next] = _request[_first] loop
      if _short is null and _minimum[_next] > free[_line[_next]] then
        _short := _next;
      end if;
      _next := _next + 1;
    end loop;
    for _n in _first .. _next - 1 loop
      if _short is not null then
        grants := grants || case when _n = _short then -1 else 0 end::bigint;
      else
        _amount := least(_wanted[_n], free[_line[_n]]);
        grants := grants || _amount;
        granted[_line[_n]] := granted[_line[_n]] + _amount;
        free[_line[_n]] := free[_line[_n]] - _amount;
      end if;
    end loop;
    -- If the unspent units of all instances were enough, they are recalled.
    if _short is not null and _minimum[_short] <= cap[_line[_short]] - used[_line[_short]]
        and not _line[_short] = any (_recall) then
      _recall := _recall || _line[_short];
    end if;
    _first := _next;
  end loop;

  for _i in 1 .. _lines loop
    _a := _allowances[_i];
    _l := _leases[_i];
    _was_near := _a.near;
    _threshold := ceil(_a.cap / 20.0)::bigint;
    if _i = any (_recall) then
      _a.short_until := now + interval '2 seconds';
    end if;
    -- Far from exhaustion: a stock, at most half of a fair share, that leaves the threshold untouched.
    if _stock[_i] > 0 and _a.short_until < now and not (_was_near and free[_i] < 2 * _threshold) then
      _amount := least(_stock[_i], free[_i] / (2 * _a.sharers), free[_i] - _threshold);
      if _amount > 0 then
        granted[_i] := granted[_i] + _amount;
        free[_i] := free[_i] - _amount;
      end if;
    end if;
    _a.near := free[_i] < _threshold or _a.short_until >= now or (_was_near and free[_i] < 2 * _threshold);
    near := near || _a.near;
    _is_granted := _is_granted or granted[_i] > _l.granted;
    _a.granted := _a.granted + granted[_i] - _l.granted;
    _l.granted := granted[_i];
    -- The instance's own report counts only while the allowance is near exhaustion.
    _l.is_strict := _strict[_i] and _a.near;
    -- Of an idle lease that has no units left, recovery has nothing to do.
    if _closes[_i] and _l.held = 0 and _l.granted - _l.returned = _l.used then
      _l.closed := true;
      _a.sharers := _a.sharers - 1;
    end if;
    update daybook.allowance a set cap = _a.cap,
        ceiling = greatest(_a.cap - _a.adjusted, _a.granted - _a.returned),
        granted = _a.granted, returned = _a.returned, overdrawn = _a.overdrawn, used = _a.used,
        held = _a.held, near = _a.near, short_until = _a.short_until, terms_position = _a.terms_position,
        since_terms = _a.since_terms, sharers = _a.sharers
      where a.id = _a.id;
    update daybook.lease l set granted = _l.granted, returned = _l.returned, used = _l.used,
        overdrawn = _l.overdrawn, held = _l.held, position = _l.position, since_terms = _l.since_terms,
        is_strict = _l.is_strict, closed = _l.closed
      where l.allowance = _a.id and l.instance = _instance;
    recallable := recallable || (_a.near and exists (select from daybook.lease l
      where l.allowance = _a.id and l.instance <> _instance and not l.is_strict and not l.closed
        and l.granted - l.returned > l.used));
    if recallable[_i] and (not _was_near or _i = any (_recall)) then
      perform pg_notify('daybook_recall', _a.id::text);
    end if;
  end loop;
  if not _is_granted then
    perform set_config('synchronous_commit', 'off', true);
  end if;
end
$$;

-- Limits that hold over all instances. An allowance is one limit of one account or key in one
-- window; a lease is the part of it that an instance may spend on its own. Both counters of each
-- only rise, and the constraint makes exceeding impossible whatever the program does.
--
-- No event is written for a lease: which calls were admitted, under which terms, with which hold
-- and at which cost is in the log, and that alone proves that a limit held.

-- The first minute of the UTC calendar window that a minute (since 1970) lies in. Its twin is
-- windowStart in db/limits/windows.ts; the kinds are those of db/limits/limits.ts.
create function daybook.window_start(_kind smallint, _minute integer) returns integer
language sql immutable set search_path = pg_catalog, pg_temp
begin atomic
  select case _kind
    when 0 then 0
    when 1 then _minute
    when 2 then _minute - _minute % 60
    when 3 then _minute - _minute % 1440
    when 4 then _minute - (_minute + 4320) % 10080
    when 5 then (extract(epoch from date_trunc('month', to_timestamp(_minute * 60::bigint) at time zone 'UTC')) / 60)::integer
  end;
end;

create table daybook.allowance (
  id bigint generated always as identity primary key,
  cap bigint not null,
  -- What the constraint holds to: the cap, or what was given out before the cap was lowered.
  ceiling bigint not null,
  granted bigint not null default 0,
  returned bigint not null default 0,
  -- Spent beyond what had been leased: replies that a soft landing let finish.
  overdrawn bigint not null default 0,
  -- Of what was granted, for the figures that people see: settled, and held by running requests.
  used bigint not null default 0,
  held bigint not null default 0,
  -- The newest control event that set the cap, and the one that began the windows anew.
  terms_position bigint not null,
  reset_position bigint not null,
  window_start integer not null,
  -- How many instances have a lease.
  sharers integer not null default 0,
  shard smallint not null default 0,
  meter smallint not null,
  window_kind smallint not null,
  -- Near its end every admission is decided here. Stored, with hysteresis: a state that was only
  -- inferred from a crossing would be missed by those who were not looking.
  near boolean not null default false,
  -- It also counts as near for a while after a call was short of it, so that the others give back
  -- what they can and the next refusal is certain.
  short_until timestamptz not null default '-infinity',
  subject text collate "C" not null,
  unique (subject, meter, window_kind, window_start, reset_position),
  constraint within_ceiling check (granted - returned <= ceiling)
) with (fillfactor = 70);
create index allowance_ended on daybook.allowance (window_kind, window_start);

create table daybook.lease (
  allowance bigint not null references daybook.allowance on delete cascade,
  instance integer not null,
  granted bigint not null default 0,
  returned bigint not null default 0,
  -- Settled out of this lease by endings up to `position` of the log.
  used bigint not null default 0,
  overdrawn bigint not null default 0,
  held bigint not null default 0,
  position bigint not null,
  -- Requests that were admitted under older terms than these are not charged to it.
  since_terms bigint not null,
  -- Whether its instance knows that the end is near, and is told so still: then it keeps nothing beyond its
  -- holds.
  is_strict boolean not null default false,
  closed boolean not null default false,
  primary key (allowance, instance)
) with (fillfactor = 70);
create index lease_open on daybook.lease (instance) where not closed;

grant select on daybook.allowance, daybook.lease to daybook_relay, daybook_worker, daybook_auditor;

-- One call for all that an instance has to say and to ask, in one transaction:
--   it reports what it returned, spent and holds (as totals, so that a repeated call changes
--   nothing), asks for what its waiting requests need, in their order of arrival, and for a stock
--   to decide from on its own while the end is far.
-- Lines are one element per allowance, in the order of their identity, which is the one order in
-- which everybody locks. Needs are one element each, those of a request side by side; `_line` counts from
-- 1. A request is given all that it needs or nothing: `given` is then 0, and -1 at the need that failed.
--
-- Only a grant waits for its flush to disk: a crash that forgot one would give the same units to
-- others, while this instance lives on and spends them. All else is told again until it is known.
-- The lease's own totals come back as well, for an instance that had forgotten an idle lease.
-- Raises DB001 when the instance is not live.
create function daybook.exchange(
  _instance integer, _position bigint,
  _subject text[], _meter smallint[], _kind smallint[], _start integer[], _reset bigint[], _cap bigint[], _terms bigint[],
  _since bigint[], _returned bigint[], _used bigint[], _overdrawn bigint[], _held bigint[], _strict boolean[], _stock bigint[],
  _request integer[], _line integer[], _minimum bigint[], _wanted bigint[],
  out allowance bigint[], out cap bigint[], out granted bigint[], out free bigint[], out near boolean[], out used bigint[],
  out held bigint[], out loose boolean[], out own_returned bigint[], out own_used bigint[], out own_overdrawn bigint[],
  out given bigint[], out now timestamptz
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
  -- Its row is locked until the end, so that nobody can declare it dead between this look and the
  -- commit, and recovery finds every lease there is.
  perform 1 from daybook.instance where id = _instance and dead_at is null for share;
  if not found then
    raise exception 'instance % is not live and may not spend', _instance using errcode = 'DB001';
  end if;
  allowance := '{}'; granted := '{}'; free := '{}'; near := '{}'; used := '{}'; held := '{}'; loose := '{}'; given := '{}';

  for _i in 1 .. _lines loop
    loop
      select * into _a from daybook.allowance
        where subject = _subject[_i] and meter = _meter[_i] and window_kind = _kind[_i]
          and window_start = _start[_i] and reset_position = _reset[_i]
        for update;
      exit when found;
      insert into daybook.allowance (subject, meter, window_kind, window_start, reset_position, cap, ceiling, terms_position)
        values (_subject[_i], _meter[_i], _kind[_i], _start[_i], _reset[_i], _cap[_i], _cap[_i], _terms[_i])
        on conflict do nothing;
    end loop;
    select * into _l from daybook.lease l where l.allowance = _a.id and l.instance = _instance;
    if not found then
      _l := row(_a.id, _instance, 0, 0, 0, 0, 0, _position, _since[_i], false, false)::daybook.lease;
      insert into daybook.lease select _l.*;
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
    -- Both are written once, when all is known; their rows are locked until then.
    _allowances := _allowances || _a;
    _leases := _leases || _l;

    allowance := allowance || _a.id;
    cap := cap || _a.cap;
    granted := granted || _l.granted;
    free := free || (_a.cap - (_a.granted - _a.returned) - _a.overdrawn);
    used := used || (_a.used + _a.overdrawn);
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
        given := given || case when _n = _short then -1 else 0 end::bigint;
      else
        _amount := least(_wanted[_n], free[_line[_n]]);
        given := given || _amount;
        granted[_line[_n]] := granted[_line[_n]] + _amount;
        free[_line[_n]] := free[_line[_n]] - _amount;
      end if;
    end loop;
    -- If all that is not spent came back it would do: then it is called back.
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
    -- Far from the end: a stock, half of a fair share at most, that leaves the threshold untouched.
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
    -- What it says of itself holds for as long as it is told that the end is near.
    _l.is_strict := _strict[_i] and _a.near;
    update daybook.allowance a set cap = _a.cap, ceiling = greatest(_a.cap, _a.granted - _a.returned), granted = _a.granted,
        returned = _a.returned, overdrawn = _a.overdrawn, used = _a.used, held = _a.held, near = _a.near,
        short_until = _a.short_until, terms_position = _a.terms_position, sharers = _a.sharers
      where a.id = _a.id;
    update daybook.lease l set granted = _l.granted, returned = _l.returned, used = _l.used, overdrawn = _l.overdrawn,
        held = _l.held, position = _l.position, since_terms = _l.since_terms, is_strict = _l.is_strict
      where l.allowance = _a.id and l.instance = _instance;
    loose := loose || (_a.near and exists (select from daybook.lease l
      where l.allowance = _a.id and l.instance <> _instance and not l.is_strict and not l.closed
        and l.granted - l.returned > l.used));
    if loose[_i] and (not _was_near or _i = any (_recall)) then
      perform pg_notify('daybook_recall', _a.id::text);
    end if;
  end loop;
  if not _is_granted then
    perform set_config('synchronous_commit', 'off', true);
  end if;
end
$$;

-- Windows that have ended limit nothing any more. Kept a little longer than a call can run, for
-- those who look at the figures of the window before.
create function daybook.drop_ended_allowances() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _minute constant integer := (extract(epoch from clock_timestamp()) / 60)::integer;
  _count bigint;
begin
  delete from daybook.allowance
    where (window_kind = 1 and window_start < _minute - 10)
      or (window_kind = 2 and window_start < _minute - 2 * 60 - 60)
      or (window_kind = 3 and window_start < _minute - 3 * 1440)
      or (window_kind = 4 and window_start < _minute - 9 * 1440)
      or (window_kind = 5 and window_start < _minute - 64 * 1440);
  get diagnostics _count = row_count;
  return _count;
end
$$;

do $$
declare
  _function regprocedure;
begin
  for _function in select oid::regprocedure from pg_proc
    where pronamespace = 'daybook'::regnamespace and proname in ('exchange', 'drop_ended_allowances')
  loop
    execute format('revoke all on function %s from public', _function);
    execute format('grant execute on function %s to daybook_relay, daybook_worker', _function);
  end loop;
  revoke all on function daybook.window_start(smallint, integer) from public;
  grant execute on function daybook.window_start(smallint, integer) to daybook_relay, daybook_worker, daybook_auditor;
end
$$;

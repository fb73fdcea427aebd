-- Who may append. A row per process that ever ran; an instance that was declared dead cannot
-- append any more, so it cannot deliver a byte either: this fence, not clocks, makes recovery exact.
create table daybook.instance (
  id integer generated always as identity primary key,
  name text not null,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  dead_at timestamptz,
  -- When nothing of it was open any more: at once for one that retired, else after recovery.
  closed_at timestamptz,
  -- No request of this instance that is still open was accepted before this position. Recovery
  -- reads the log from here instead of from the beginning.
  open_from bigint not null
);
create index instance_open on daybook.instance (id) where closed_at is null;
grant select on daybook.instance to daybook_relay, daybook_worker, daybook_auditor;

create function daybook.head(_shard smallint) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select coalesce((select last_position from daybook.log_batch where shard = _shard
    order by last_position desc limit 1), 0);
end;

create function daybook.register_instance(_name text) returns integer
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  insert into daybook.instance (name, open_from) values (_name, daybook.head(0::smallint) + 1) returning id;
end;

-- Returns Postgres time, which is the clock that decides expiry; null once the instance is dead.
create function daybook.heartbeat(_instance integer, _open_from bigint) returns timestamptz
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  update daybook.instance
    set heartbeat_at = clock_timestamp(), open_from = greatest(open_from, _open_from)
    where id = _instance and dead_at is null
    returning clock_timestamp();
end;

create function daybook.retire_instance(_instance integer) returns void
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  update daybook.instance set dead_at = clock_timestamp(), closed_at = clock_timestamp()
    where id = _instance and dead_at is null;
end;

-- The one way into the log. One transaction per batch under the shard's lock: positions are dense
-- and commit in order, so whoever reads `position > p` never skips. Returns the last position of
-- the batch; a repeated call with the same (instance, batch number) returns the first one's result.
--
-- Arrays, one element per event; a null array stands for a column of nulls. `_version` is the
-- version that a control event takes in its stream (one more than the writer has read); `_claim`
-- is a stream name that must not exist yet, such as an account's name.
-- Raises DB001 when the instance is not live, DB002 when a stream has moved on or a claim is taken.
create function daybook.append(
  _shard smallint, _instance integer, _batch_no bigint,
  _type smallint[], _request uuid[], _account text[], _key text[], _model text[], _upstream text[],
  _sse boolean[], _body_bytes integer[], _hold_tokens bigint[], _retry_count smallint[],
  _status smallint[], _end_reason smallint[], _usage_source smallint[],
  _input_tokens integer[], _cached_tokens integer[], _output_tokens integer[], _reasoning_tokens integer[],
  _attempts smallint[], _first_byte_ms integer[], _duration_ms integer[],
  _stream text[] default null, _version integer[] default null, _body text[] default null,
  _claim text[] default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _head bigint;
  _chain bytea;
  _at timestamptz;
  _at_us bigint;
  _count integer := cardinality(_type);
  _digest bytea;
  _moved text;
begin
  -- The lock has a statement of its own: a read in the same statement would use a snapshot taken
  -- before the lock was granted.
  perform pg_advisory_xact_lock(19, _shard);

  select last_position into _head from daybook.log_batch where instance = _instance and batch_no = _batch_no;
  if found then
    return _head;
  end if;

  perform 1 from daybook.instance where id = _instance and dead_at is null;
  if not found then
    raise exception 'instance % is not live and may not append', _instance using errcode = 'DB001';
  end if;

  if _count is null or _count = 0 then
    raise exception 'a batch holds at least one event' using errcode = 'invalid_parameter_value';
  end if;

  if _stream is not null then
    insert into daybook.stream_head (stream, version)
      select claim, 0 from unnest(_claim) as claim where claim is not null
      on conflict do nothing;
    get diagnostics _head = row_count;
    if _head <> (select count(claim) from unnest(_claim) as claim) then
      raise exception 'a name in % is taken', _claim using errcode = 'DB002';
    end if;
    -- Within a batch a stream's versions must follow one another from what is stored.
    select s.stream into _moved
      from (select u.stream, u.version,
              u.version - row_number() over (partition by u.stream order by u.ordinal) as before
            from unnest(_stream, _version) with ordinality as u(stream, version, ordinal)) s
      left join daybook.stream_head h on h.stream = s.stream
      where s.before <> coalesce(h.version, 0)
      limit 1;
    if found then
      raise exception 'stream % has moved on', _moved using errcode = 'DB002';
    end if;
    insert into daybook.stream_head as h (stream, version)
      select u.stream, max(u.version) from unnest(_stream, _version) as u(stream, version) group by u.stream
      on conflict (stream) do update set version = excluded.version;
  end if;

  select last_position, chain, greatest(at, clock_timestamp()) into _head, _chain, _at
    from daybook.log_batch where shard = _shard order by last_position desc limit 1;
  if not found then
    _head := 0;
    _at := clock_timestamp();
    select sha256(convert_to('daybook log ' || log_id, 'UTF8')) into _chain from daybook.install;
  end if;

  _at_us := (extract(epoch from _at) * 1000000)::bigint;

  -- Leaf hash per row, RFC 6962 style (0x00 first), over the text of format 1: the stored columns
  -- in this order as a composite value. Every field is ASCII by contract, so its quoting does not
  -- depend on the server's locale. One digest per batch.
  with written as (
    insert into daybook.log (
      shard, position, at, type, instance, request, account, key, model, upstream, sse, body_bytes, hold_tokens,
      retry_count, status, end_reason, usage_source, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
      attempts, first_byte_ms, duration_ms, stream, version, body)
    select _shard, _head + u.ordinal, _at, u.type, _instance, u.request, u.account, u.key, u.model, u.upstream,
      u.sse, u.body_bytes, u.hold_tokens, u.retry_count, u.status, u.end_reason, u.usage_source, u.input_tokens,
      u.cached_tokens, u.output_tokens, u.reasoning_tokens, u.attempts, u.first_byte_ms, u.duration_ms,
      u.stream, u.version, u.body
    from unnest(_type, _request, _account, _key, _model, _upstream, _sse, _body_bytes, _hold_tokens, _retry_count,
      _status, _end_reason, _usage_source, _input_tokens, _cached_tokens, _output_tokens, _reasoning_tokens,
      _attempts, _first_byte_ms, _duration_ms, _stream, _version, _body) with ordinality
      as u(type, request, account, key, model, upstream, sse, body_bytes, hold_tokens, retry_count,
        status, end_reason, usage_source, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
        attempts, first_byte_ms, duration_ms, stream, version, body, ordinal)
    returning position, sha256('\x00'::bytea || convert_to(row(
      shard, position, _at_us, type, instance, request, account, key, model,
      upstream, sse, body_bytes, hold_tokens, retry_count, status, end_reason, usage_source, input_tokens,
      cached_tokens, output_tokens, reasoning_tokens, attempts, first_byte_ms, duration_ms,
      stream, version, body)::text, 'UTF8')) as leaf
  )
  select sha256(string_agg(leaf, ''::bytea order by position)) into _digest from written;

  _head := _head + _count;
  insert into daybook.log_batch (shard, last_position, event_count, instance, batch_no, at, format, chain)
    values (_shard, _head, _count, _instance, _batch_no, _at, 1, sha256(_chain || _digest || convert_to(row(
      _shard, _head, _count, _instance, _batch_no, _at_us, 1)::text, 'UTF8')));

  perform pg_notify(case when _stream is null then 'daybook_log' else 'daybook_control' end, _head::text);
  return _head;
end
$$;

-- Declares an instance dead. Under the log's lock, so that whatever it had under way is either in
-- the log by now or will be refused.
create function daybook.fence_instance(_dead integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(19, 0);
  update daybook.instance set dead_at = clock_timestamp() where id = _dead and dead_at is null;
end
$$;

-- Ends what a dead instance left open: each such request gets its one ending, with the whole hold
-- charged. Since the instance is fenced, what is found open stays so, and the search needs no lock
-- that appends wait for. Returns how many requests were abandoned; 0 when somebody else was first.
create function daybook.recover_instance(_dead integer, _by integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _from bigint;
  _count integer;
  _request uuid[]; _account text[]; _key text[]; _model text[]; _hold bigint[];
begin
  -- One recoverer at a time for each dead instance.
  perform pg_advisory_xact_lock(21, _dead);
  select open_from into _from from daybook.instance
    where id = _dead and dead_at is not null and closed_at is null;
  if not found then
    return 0;
  end if;
  select count(*), array_agg(a.request), array_agg(a.account), array_agg(a.key), array_agg(a.model),
      array_agg(a.hold_tokens)
    into _count, _request, _account, _key, _model, _hold
    from daybook.log a
    where a.shard = 0 and a.type = 100 and a.instance = _dead and a.position >= _from
      and not exists (select from daybook.log e
        where e.shard = 0 and e.type in (101, 102) and e.request = a.request and e.position > _from);
  if _count > 0 then
    -- A recoverer numbers these batches by the dead instance, below zero, apart from its own. The
    -- codes are those of db/events/events.ts: 102 request.abandoned, 9 abandoned, 3 estimated.
    perform daybook.append(0::smallint, _by, -_dead,
      array_fill(102::smallint, array[_count]), _request, _account, _key, _model, null,
      null, null, _hold, null, null, array_fill(9::smallint, array[_count]), array_fill(3::smallint, array[_count]),
      null, null, null, null, null, null, null);
  end if;
  update daybook.instance set closed_at = clock_timestamp() where id = _dead;
  return _count;
end
$$;

do $$
declare
  _function regprocedure;
begin
  foreach _function in array array[
    'daybook.register_instance(text)', 'daybook.heartbeat(integer,bigint)', 'daybook.retire_instance(integer)',
    'daybook.fence_instance(integer)', 'daybook.recover_instance(integer,integer)']::regprocedure[]
    || (select array_agg(oid::regprocedure) from pg_proc where proname = 'append' and pronamespace = 'daybook'::regnamespace)
  loop
    execute format('revoke all on function %s from public', _function);
    execute format('grant execute on function %s to daybook_relay, daybook_worker', _function);
  end loop;
  revoke all on function daybook.head(smallint) from public;
  grant execute on function daybook.head(smallint) to daybook_relay, daybook_worker, daybook_auditor;
end
$$;

-- The only way to write to the log. One transaction per batch under the shard's lock: positions are dense and
-- commit in order, so a reader of `position > p` never skips an event. Returns the last position of the
-- batch; a repeated call with the same (instance, batch number) returns the result of the first one.
--
-- Arrays, one element per event; a null array stands for a column of nulls. `_version` is the version of a
-- control event within its stream (one more than the writer has read); `_claim` is a stream name that must
-- not exist yet, such as an account's name.
-- Raises DB001 if the instance is not live, DB002 if a stream has moved on or a claim is taken.
create or replace function daybook.append(
  _shard smallint, _instance integer, _batch_no bigint,
  _type smallint[], _request uuid[] default null, _account text[] default null, _key text[] default null,
  _model text[] default null, _upstream text[] default null, _sse boolean[] default null,
  _body_bytes integer[] default null, _hold_tokens bigint[] default null,
  _retry_count smallint[] default null, _status smallint[] default null,
  _end_reason smallint[] default null, _usage_source smallint[] default null,
  _input_tokens integer[] default null, _cached_tokens integer[] default null,
  _output_tokens integer[] default null, _reasoning_tokens integer[] default null,
  _attempt_count smallint[] default null, _first_byte_ms integer[] default null,
  _duration_ms integer[] default null,
  _stream text[] default null, _version integer[] default null, _body text[] default null,
  _claim text[] default null,
  _terms_position bigint[] default null, _hold_cost_microusd bigint[] default null,
  _cost_microusd bigint[] default null, _admitted_minute integer[] default null,
  _price_version integer[] default null, _rejected_count integer[] default null,
  _error_code text[] default null
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
  lock table daybook_lock.log in share update exclusive mode;

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
    -- Within a batch a stream's versions must be consecutive, starting after the stored version.
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
      shard, position, at, type, instance, request, account, key, model, upstream, sse, body_bytes,
      hold_tokens, retry_count, status, end_reason, usage_source, input_tokens, cached_tokens, output_tokens,
      reasoning_tokens, attempt_count, first_byte_ms, duration_ms, stream, version, body,
      terms_position, hold_cost_microusd, cost_microusd, admitted_minute, price_version, rejected_count,
      error_code)
    select _shard, _head + u.ordinal, _at, u.type, _instance, u.request, u.account, u.key, u.model,
      u.upstream, u.sse, u.body_bytes, u.hold_tokens, u.retry_count, u.status, u.end_reason, u.usage_source,
      u.input_tokens, u.cached_tokens, u.output_tokens, u.reasoning_tokens, u.attempt_count, u.first_byte_ms,
      u.duration_ms, u.stream, u.version, u.body,
      u.terms_position, u.hold_cost_microusd, u.cost_microusd, u.admitted_minute, u.price_version,
      u.rejected_count, u.error_code
    from unnest(_type, _request, _account, _key, _model, _upstream, _sse, _body_bytes, _hold_tokens,
      _retry_count, _status, _end_reason, _usage_source, _input_tokens, _cached_tokens, _output_tokens,
      _reasoning_tokens, _attempt_count, _first_byte_ms, _duration_ms, _stream, _version, _body,
      _terms_position, _hold_cost_microusd, _cost_microusd, _admitted_minute, _price_version,
      _rejected_count, _error_code)
      with ordinality
      as u(type, request, account, key, model, upstream, sse, body_bytes, hold_tokens, retry_count,
        status, end_reason, usage_source, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
        attempt_count, first_byte_ms, duration_ms, stream, version, body,
        terms_position, hold_cost_microusd, cost_microusd, admitted_minute, price_version, rejected_count,
        error_code, ordinal)
    returning position, sha256('\x00'::bytea || convert_to(row(
      shard, position, _at_us, type, instance, request, account, key, model,
      upstream, sse, body_bytes, hold_tokens, retry_count, status, end_reason, usage_source, input_tokens,
      cached_tokens, output_tokens, reasoning_tokens, attempt_count, first_byte_ms, duration_ms,
      stream, version, body,
      terms_position, hold_cost_microusd, cost_microusd, admitted_minute, price_version, rejected_count,
      error_code)::text, 'UTF8')) as leaf
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

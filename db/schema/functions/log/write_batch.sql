-- Writes lines to the end of the log as one batch, or as one in each of the partitions that they reach into:
-- a batch lies in one partition. The caller holds the log's lock, and notifies the readers. Returns the last
-- position.
-- Raises DB004 if a row that no append wrote stands behind the head of the log, check_violation if no
-- partition has the next position.
create or replace function daybook.write_batch(
  _shard smallint, _instance integer, _batch_no bigint, _lines text[]
) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  _head bigint;
  _chain bytea;
  _at timestamptz;
  _end bigint;
  _part text[] := _lines;
  _count integer;
  _written integer := 0;
  _events text;
begin
  select last_position, chain, greatest(at, clock_timestamp()) into _head, _chain, _at
    from daybook.log_batch where shard = _shard order by last_position desc limit 1;
  if not found then
    _head := 0;
    _at := clock_timestamp();
    select sha256(convert_to('daybook log ' || log_id, 'UTF8')) into _chain from daybook.install;
  end if;
  loop
    select end_position into _end from daybook.log_partition where first_position <= _head + 1
      order by first_position desc limit 1;
    if not found or _end <= _head + 1 then
      raise exception 'no partition of relation "log" has position %', _head + 1
        using errcode = 'check_violation';
    end if;
    -- In this partition: rows of later ones are refused when the log reaches them.
    perform from daybook.log where shard = _shard and last_position > _head and last_position < _end limit 1;
    if found then
      raise exception 'a row of no batch stands behind the head of the log' using errcode = 'DB004',
        detail = (select min(last_position) from daybook.log where shard = _shard and last_position > _head);
    end if;
    _count := least(cardinality(_lines) - _written, _end - 1 - _head);
    if _count < cardinality(_lines) then
      _part := _lines[_written + 1 : _written + _count];
    end if;
    _events := array_to_string(_part, e'\n');
    _head := _head + _count;
    insert into daybook.log (shard, last_position, event_count, instance, at, events)
      values (_shard, _head, _count, _instance, _at, _events);
    _chain := sha256(_chain || sha256(convert_to(_events, 'UTF8')) || convert_to(row(
      _shard, _head, _count, _instance, _batch_no, (extract(epoch from _at) * 1000000)::bigint, 1)::text,
      'UTF8'));
    insert into daybook.log_batch (shard, last_position, event_count, instance, batch_no, at, format, chain)
      values (_shard, _head, _count, _instance, _batch_no, _at, 1, _chain);
    _written := _written + _count;
    exit when _written = cardinality(_lines);
  end loop;
  return _head;
end
$$;

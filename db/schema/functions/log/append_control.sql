-- Appends control events, see daybook.append. The version of each is one more than the writer has read of its
-- stream. `_claim` has the names of streams that must not exist yet, such as an account's name.
-- Raises DB001 if the instance is not live, DB002 if a stream has moved on or a claim is taken, DB004 if a
-- row that no append wrote is in the way.
create or replace function daybook.append_control(
  _shard smallint, _instance integer, _batch_no bigint, _lines text[], _claim text[]
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _head bigint := daybook.begin_append(_instance, _batch_no, _lines);
  _moved text;
  _claimed integer;
begin
  if _head is not null then
    return _head;
  end if;
  insert into daybook.stream_head (stream, version)
    select claim, 0 from unnest(_claim) as claim where claim is not null
    on conflict do nothing;
  get diagnostics _claimed = row_count;
  if _claimed <> (select count(claim) from unnest(_claim) as claim) then
    raise exception 'a name in % is taken', _claim using errcode = 'DB002';
  end if;
  -- Within a batch a stream's versions must be consecutive, starting after the stored version.
  select s.stream into _moved
    from (select f.stream, f.version - row_number() over (partition by f.stream order by e.number) as before
          from unnest(_lines) with ordinality as e(line, number),
            unnest(array[e.line::daybook.event_fields]) as f) s
    left join daybook.stream_head h on h.stream = s.stream
    where s.before <> coalesce(h.version, 0)
    limit 1;
  if found then
    raise exception 'stream % has moved on', _moved using errcode = 'DB002';
  end if;
  insert into daybook.stream_head as h (stream, version)
    select f.stream, max(f.version)
      from unnest(_lines) as e(line), unnest(array[e.line::daybook.event_fields]) as f
      group by f.stream
    on conflict (stream) do update set version = excluded.version;

  _head := daybook.write_batch(_shard, _instance, _batch_no, _lines);
  insert into daybook.control_event (shard, position, at, instance, type, stream, version, account, key, line)
    select b.shard, _head - cardinality(_lines) + e.number, b.at, b.instance,
        f.type, f.stream, f.version, f.account, f.key, e.line
      from daybook.log_batch b, unnest(_lines) with ordinality as e(line, number),
        unnest(array[e.line::daybook.event_fields]) as f
      where b.shard = _shard and b.last_position = _head;
  perform pg_notify('daybook_control', _head::text);
  return _head;
end
$$;

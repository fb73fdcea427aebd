-- Appends request events; daybook.append_control appends control events. One transaction per batch under the
-- log's lock: positions are dense and commit in order, so a reader of `position > p` never skips an event.
-- `_lines` are values of daybook.event_fields as text, one per event, in printable ASCII. Returns the last
-- position of the batch; a repeated call with the same (instance, batch number) returns the result of the
-- first one. With `_notifies` the readers of the log are notified as it commits.
-- Raises DB001 if the instance is not live, DB004 if a row that no append wrote is in the way.
create or replace function daybook.append(
  _shard smallint, _instance integer, _batch_no bigint, _lines text[], _notifies boolean default true
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _written bigint := daybook.begin_append(_instance, _batch_no, _lines);
begin
  if _written is null then
    _written := daybook.write_batch(_shard, _instance, _batch_no, _lines);
    if _notifies then
      perform pg_notify('daybook_log', _written::text);
    end if;
  end if;
  return _written;
end
$$;

-- Records that a verified archive file holds all of a partition. Partitions are archived in the order of the
-- log. Only the owner may call this: the owner then drops the table.
create or replace function daybook.record_archived(_number integer, _manifest jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  _part daybook.log_partition;
begin
  select * into strict _part from daybook.log_partition where number = _number for update;
  if _part.archived_at is not null
      or exists (select from daybook.log_partition where number < _number and archived_at is null) then
    raise exception 'partition % is not the next to be archived', _number
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  -- Triggers inherited from the log are removed by detaching; these stay as long as the table does.
  execute format('create trigger append_only_alone before update or delete on daybook.%I
    for each row execute function daybook.refuse_change()', _part.name);
  update daybook.log_partition set archived_at = clock_timestamp(), manifest = _manifest
    where number = _number;
end
$$;

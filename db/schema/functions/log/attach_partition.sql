-- Makes a table the partition of this number. The check constraint spares Postgres a scan of every row.
create or replace function daybook.attach_partition(_number integer, _table text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  _part daybook.log_partition;
begin
  select * into strict _part from daybook.log_partition where number = _number;
  execute format(
    'alter table daybook.%I add constraint %I check (last_position >= %s and last_position < %s)',
    _table, _table || '_range', _part.first_position, _part.end_position);
  execute format('alter table daybook.log attach partition daybook.%I for values from (%s) to (%s)',
    _table, _part.first_position, _part.end_position);
  execute format('alter table daybook.%I drop constraint %I', _table, _table || '_range');
  -- TRUNCATE triggers are not inherited: without this the owner could truncate a partition.
  execute format('create trigger append_only_truncate before truncate on daybook.%I
    for each statement execute function daybook.refuse_change()', _table);
end
$$;

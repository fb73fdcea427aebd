-- Creates partitions until `_ahead` of them begin above the head, and returns how many it created. There is
-- no default partition: it would rule out DETACH CONCURRENTLY.
create or replace function daybook.create_partitions(_ahead integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _head bigint;
  _size bigint;
  _number integer;
  _first bigint;
  _name text;
  _made integer := 0;
begin
  lock table daybook_lock.partitions in share update exclusive mode;
  _head := daybook.head(0::smallint);
  select partition_size into _size from daybook.install;
  loop
    select coalesce(max(number), -1) + 1, coalesce(max(end_position), 0) into _number, _first
      from daybook.log_partition;
    exit when _first > _head + 1
      and (select count(*) from daybook.log_partition where first_position > _head) >= _ahead;
    insert into daybook.log_partition (number, first_position, end_position)
      values (_number, _first, _first + _size) returning name into _name;
    -- Created as a table of its own and then attached: ATTACH takes a weaker lock than
    -- CREATE … PARTITION OF, so appends continue meanwhile.
    execute format('create table daybook.%I (like daybook.log including all)', _name);
    perform daybook.attach_partition(_number, _name);
    _made := _made + 1;
  end loop;
  return _made;
end
$$;

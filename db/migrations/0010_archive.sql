-- Partitions of the log from their making to their archive, and what stays behind of archived ones.

-- How many positions a partition that is made from now on holds. Fifty million are about seven gigabytes.
alter table daybook.install
  add column partition_size bigint not null default 50000000 check (partition_size between 10 and 1000000000);

-- Every partition that was ever made, without a gap between them. Whether one is attached is told by
-- Postgres' own catalogue, since a concurrent detach can't be one transaction with a row of ours.
create table daybook.log_partition (
  number integer primary key check (number >= 0),
  name text collate "C" not null unique generated always as ('log_' || lpad(number::text, 6, '0')) stored,
  first_position bigint not null unique,
  -- The first position behind it.
  end_position bigint not null,
  made_at timestamptz not null default clock_timestamp(),
  -- Since then a verified file has all of it, and daybook.log_kept its control events.
  archived_at timestamptz,
  manifest jsonb,
  -- Leaf hashes of its rows in a batch that goes on in the next one, which needs them for its own
  -- proof; 32 bytes each, empty when a batch ended with it.
  open_leaves bytea,
  -- Loaded from its file again: it stays until somebody drops it.
  restored_at timestamptz,
  check (first_position < end_position),
  check ((archived_at is null) = (manifest is null) and (archived_at is null) = (open_leaves is null))
);
grant select on daybook.log_partition to daybook_relay, daybook_worker, daybook_auditor;

insert into daybook.log_partition (number, first_position, end_position)
  select number, number * 50000000::bigint, (number + 1) * 50000000::bigint
  from (select substr(c.relname, 5)::integer as number from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'daybook.log'::regclass) made;

-- The control events of archived partitions: servers begin with all of them, and a decision reads its
-- subject's whole stream. They are few. Whoever adds a column to the log adds it here, too.
create table daybook.log_kept (like daybook.log including all, check (stream is not null));
create trigger append_only before update or delete on daybook.log_kept
  for each row execute function daybook.refuse_change();
create trigger append_only_truncate before truncate on daybook.log_kept
  for each statement execute function daybook.refuse_change();
grant select on daybook.log_kept to daybook_relay, daybook_worker, daybook_auditor;

-- Up to here control events are read from daybook.log_kept, and above from the log. It moves on in
-- one transaction with the events, and long before they leave the log: no reader misses or repeats any.
create function daybook.kept_through(_shard smallint) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select coalesce((select position from daybook.log_kept where shard = _shard order by position desc limit 1), 0);
end;

-- Whether a partition is part of the log for statements that begin now.
create function daybook.is_attached(_partition text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select exists (select from pg_inherits where inhparent = 'daybook.log'::regclass
    and inhrelid = to_regclass('daybook.' || quote_ident(_partition)) and not inhdetachpending);
end;

-- From here to the head the log is whole; what is before has left it, at least in part.
create function daybook.first_position() returns bigint
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select greatest(1, coalesce(max(end_position), 1)) from daybook.log_partition where not daybook.is_attached(name);
end;

-- Partitions by position, created ahead, none by default: a default partition would stand in the
-- way of DETACH CONCURRENTLY. Makes what is missing until so many begin above the head.
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
  perform pg_advisory_xact_lock(20, 0);
  _head := daybook.head(0::smallint);
  select partition_size into _size from daybook.install;
  loop
    select coalesce(max(number), -1) + 1, coalesce(max(end_position), 0) into _number, _first from daybook.log_partition;
    exit when _first > _head + 1 and (select count(*) from daybook.log_partition where first_position > _head) >= _ahead;
    insert into daybook.log_partition (number, first_position, end_position)
      values (_number, _first, _first + _size) returning name into _name;
    -- Made aside and attached: ATTACH takes a weaker lock than CREATE … PARTITION OF, and
    -- appends go on beside it.
    execute format('create table daybook.%I (like daybook.log including all)', _name);
    perform daybook.attach_partition(_number, _name);
    _made := _made + 1;
  end loop;
  return _made;
end
$$;

-- Makes a table the partition of this number. The constraint spares Postgres a look at every row.
create function daybook.attach_partition(_number integer, _table text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  _part daybook.log_partition;
begin
  select * into strict _part from daybook.log_partition where number = _number;
  execute format('alter table daybook.%I add constraint %I check (position >= %s and position < %s)',
    _table, _table || '_range', _part.first_position, _part.end_position);
  execute format('alter table daybook.log attach partition daybook.%I for values from (%s) to (%s)',
    _table, _part.first_position, _part.end_position);
  execute format('alter table daybook.%I drop constraint %I', _table, _table || '_range');
  -- TRUNCATE triggers are not inherited: without this the owner could empty a partition.
  execute format('create trigger append_only_truncate before truncate on daybook.%I
    for each statement execute function daybook.refuse_change()', _table);
end
$$;

-- Notes that a verified file has all of a partition, and keeps its control events. In the order of
-- the log, one after another. Only the owner may: it is the owner who then takes the table away.
create function daybook.keep_partition(_number integer, _manifest jsonb, _open_leaves bytea) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  _part daybook.log_partition;
begin
  select * into strict _part from daybook.log_partition where number = _number for update;
  if _part.archived_at is not null or exists (select from daybook.log_partition where number < _number and archived_at is null) then
    raise exception 'partition % is not the next to be archived', _number using errcode = 'object_not_in_prerequisite_state';
  end if;
  insert into daybook.log_kept
    select * from daybook.log where shard = 0 and position >= _part.first_position and position < _part.end_position
      and stream is not null;
  -- The triggers that it has from the log go with the detachment; these stay as long as the table does.
  execute format('create trigger append_only_alone before update or delete on daybook.%I
    for each row execute function daybook.refuse_change()', _part.name);
  update daybook.log_partition set archived_at = clock_timestamp(), manifest = _manifest, open_leaves = _open_leaves
    where number = _number;
end
$$;
revoke all on function daybook.attach_partition(integer, text), daybook.keep_partition(integer, jsonb, bytea) from public;

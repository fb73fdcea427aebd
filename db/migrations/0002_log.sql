-- The log. Typed columns for what every request event carries, `body` for what is rare: twice the
-- append speed and a quarter of the size of jsonb. Wide columns first, so that padding is small.
create table daybook.log (
  position bigint not null,
  at timestamptz not null,
  request uuid,
  hold_tokens bigint,
  instance integer not null,
  input_tokens integer,
  cached_tokens integer,
  output_tokens integer,
  reasoning_tokens integer,
  first_byte_ms integer,
  duration_ms integer,
  body_bytes integer,
  version integer,
  shard smallint not null,
  type smallint not null,
  status smallint,
  end_reason smallint,
  usage_source smallint,
  attempts smallint,
  retry_count smallint,
  sse boolean,
  account text collate "C",
  key text collate "C",
  model text collate "C",
  upstream text collate "C",
  stream text collate "C",
  body text collate "C",
  primary key (shard, position)
) partition by range (position);

-- Control events are few among millions of requests. Servers follow only these, and these partial
-- indexes keep that reading free of the request rows without costing the request rows anything.
create index log_control on daybook.log (shard, position) where stream is not null;
create index log_stream on daybook.log (stream, version) where stream is not null;

-- One row per append: the chain. `format` names the list of columns that the leaf hashes cover,
-- so that a later column does not change what an earlier row proves.
create table daybook.log_batch (
  last_position bigint not null,
  batch_no bigint not null,
  at timestamptz not null,
  event_count integer not null,
  instance integer not null,
  shard smallint not null,
  format smallint not null,
  chain bytea not null,
  primary key (shard, last_position),
  unique (instance, batch_no)
);

-- The version that each control stream has reached, and names that are taken. Rebuildable from
-- the log; written only by the append function.
create table daybook.stream_head (
  stream text collate "C" primary key,
  version integer not null
);

create function daybook.refuse_change() returns trigger
language plpgsql as $$
begin
  raise exception 'the log is append-only: % on %.% is refused', tg_op, tg_table_schema, tg_table_name
    using errcode = 'insufficient_privilege';
end
$$;
create trigger append_only before update or delete on daybook.log
  for each row execute function daybook.refuse_change();
create trigger append_only before update or delete on daybook.log_batch
  for each row execute function daybook.refuse_change();
create trigger append_only_truncate before truncate on daybook.log
  for each statement execute function daybook.refuse_change();
create trigger append_only_truncate before truncate on daybook.log_batch
  for each statement execute function daybook.refuse_change();

-- Partitions by position, created ahead, none by default: a default partition would stand in the
-- way of DETACH CONCURRENTLY. Fifty million positions are about seven gigabytes.
create function daybook.create_partitions(_ahead integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _size constant bigint := 50000000;
  _head bigint := coalesce((select max(last_position) from daybook.log_batch), 0);
  _number bigint;
  _name text;
  _made integer := 0;
begin
  perform pg_advisory_xact_lock(20, 0);
  for _number in _head / _size .. _head / _size + _ahead loop
    _name := format('log_%s', lpad(_number::text, 6, '0'));
    if to_regclass('daybook.' || _name) is null then
      -- Made aside and attached: ATTACH takes a weaker lock than CREATE … PARTITION OF, and
      -- appends go on beside it.
      execute format('create table daybook.%I (like daybook.log including all)', _name);
      execute format('alter table daybook.%I add constraint %I check (position >= %s and position < %s)',
        _name, _name || '_range', _number * _size, (_number + 1) * _size);
      execute format('alter table daybook.log attach partition daybook.%I for values from (%s) to (%s)',
        _name, _number * _size, (_number + 1) * _size);
      execute format('alter table daybook.%I drop constraint %I', _name, _name || '_range');
      -- TRUNCATE triggers are not inherited: without this the owner could empty a partition.
      execute format('create trigger append_only_truncate before truncate on daybook.%I
        for each statement execute function daybook.refuse_change()', _name);
      _made := _made + 1;
    end if;
  end loop;
  return _made;
end
$$;
revoke all on function daybook.create_partitions(integer) from public;
grant execute on function daybook.create_partitions(integer) to daybook_relay, daybook_worker;
select daybook.create_partitions(1);

grant select on daybook.log, daybook.log_batch, daybook.stream_head
  to daybook_relay, daybook_worker, daybook_auditor;

-- The Merkle tree over the log (RFC 6962), signed heads of it, and who has read the log.

-- Hashes of complete subtrees: level 1 of 256 leaves, level 2 of 256 of those, and so on; number n is
-- the n-th of its level. Leaves are made from the log's rows where they are needed. Everything here
-- can be made anew from the log, and whoever verifies does.
create table daybook.log_node (
  shard smallint not null,
  level smallint not null check (level between 1 and 6),
  number bigint not null check (number >= 0),
  hash bytea not null check (octet_length(hash) = 32),
  primary key (shard, level, number)
);

-- Every head that was signed and published, as the note that was. Of an epoch no two have one size.
create table daybook.checkpoint (
  shard smallint not null default 0,
  epoch integer not null check (epoch >= 1),
  size bigint not null check (size >= 0),
  note text not null,
  published_at timestamptz not null default clock_timestamp(),
  primary key (shard, epoch, size)
);

-- What witnesses have signed of them, each as the line that stands below the note.
create table daybook.cosignature (
  shard smallint not null default 0,
  epoch integer not null,
  size bigint not null,
  witness text collate "C" not null,
  line text not null,
  received_at timestamptz not null default clock_timestamp(),
  primary key (shard, epoch, size, witness),
  foreign key (shard, epoch, size) references daybook.checkpoint on delete cascade
);
create index cosignature_by_witness on daybook.cosignature (witness, received_at);

do $$
declare
  _table text;
begin
  foreach _table in array array['log_node', 'checkpoint', 'cosignature'] loop
    execute format('grant select on daybook.%I to daybook_relay, daybook_worker, daybook_auditor', _table);
  end loop;
end
$$;
create trigger append_only before update or delete on daybook.log_node
  for each row execute function daybook.refuse_change();
create trigger append_only_truncate before truncate on daybook.log_node
  for each statement execute function daybook.refuse_change();
grant insert on daybook.log_node, daybook.checkpoint to daybook_worker;
-- Those that stand close together are thinned out when they are old.
grant delete on daybook.checkpoint to daybook_worker;
grant insert on daybook.cosignature to daybook_relay;

-- Puts down that somebody has read the log, for a role that may do nothing else to it: who, what and
-- which positions is all that can be said. The codes are those of db/events/events.ts: 82 log.read.
create function daybook.record_reading(_actor text, _what text, _from bigint, _to bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _instance integer;
  _version integer;
  _position bigint;
begin
  if _actor !~* '^[a-z][a-z0-9/._-]{0,99}$' or _what !~ '^[a-z]{1,20}$' or _from < 0 or _to < 0 then
    raise exception 'that is no reading of the log' using errcode = 'invalid_parameter_value';
  end if;
  -- In its own statement, before anything is read of what it protects.
  perform pg_advisory_xact_lock(19, 0);
  select coalesce(max(version), 0) + 1 into _version from daybook.stream_head where stream = 'log/readings';
  select daybook.register_instance('reading') into _instance;
  _position := daybook.append(0::smallint, _instance, 1, array[82::smallint],
    _stream => array['log/readings'], _version => array[_version],
    _body => array[format('{"actor":"%s","what":"%s","from_position":%s,"to_position":%s}', _actor, _what, _from, _to)]);
  perform daybook.retire_instance(_instance);
  return _position;
end
$$;
revoke all on function daybook.record_reading(text, text, bigint, bigint) from public;
grant execute on function daybook.record_reading(text, text, bigint, bigint) to daybook_relay, daybook_worker, daybook_auditor;

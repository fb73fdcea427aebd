-- Every partition of the log that was ever created, without gaps. Whether one is attached is read from
-- PostgreSQL's own catalog, because DETACH CONCURRENTLY can't share a transaction with a row of ours.
create table daybook.log_partition (
  number integer primary key check (number >= 0),
  name text collate "C" not null unique generated always as ('log_' || lpad(number::text, 6, '0')) stored,
  first_position bigint not null unique,
  -- Exclusive.
  end_position bigint not null,
  made_at timestamptz not null default clock_timestamp(),
  -- When a verified archive file held the whole partition.
  archived_at timestamptz,
  manifest jsonb,
  -- When it was loaded from its archive file again. It stays until an operator drops it.
  restored_at timestamptz,
  check (first_position < end_position),
  check ((archived_at is null) = (manifest is null))
);

-- The processes that may append, one row for each that ever ran. An instance that was declared dead can't
-- append any more, so it can't deliver a byte either: this fence, not clocks, makes recovery exact.
create table daybook.instance (
  id integer generated always as identity primary key,
  name text not null,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  dead_at timestamptz,
  -- When the instance had no open requests left: at once if it retired, otherwise after recovery.
  closed_at timestamptz,
  -- No open request of this instance was accepted before this position. Recovery reads the log from here
  -- instead of from the beginning.
  open_from bigint not null,
  -- Diagnostic lines that the process has dropped, and the code of the error that its output fails with.
  dropped_lines bigint not null default 0,
  output_failure text
);
create index instance_open on daybook.instance (id) where closed_at is null;

-- What each instance reported with its last heartbeat of its streamed calls without a hard limit: how much
-- each is charged if the instance dies before its next heartbeat. One row, written only while such calls run,
-- so that it costs nothing for each call. Deleted when the instance is closed.
create table daybook.call_progress (
  instance integer primary key references daybook.instance,
  request uuid[] not null,
  tokens bigint[] not null,
  cost_nanousd bigint[] not null
);

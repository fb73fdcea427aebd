-- Sinks: receivers of spend events. An ordinary table that can't be rebuilt from the log: configurations
-- contain addresses and secrets, which have to be erasable, and the state of delivery is the receivers'.

create table daybook.sink (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  name text collate "C" not null unique check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
  kind text collate "C" not null,
  -- Sealed under the pepper (db/spend/sink-config.ts): a backup of the database doesn't show it.
  sealed_config bytea not null,
  -- The one account whose spend events are sent; null: all accounts.
  account text collate "C",
  -- The receiver acknowledged every spend event up to this position of the log.
  position bigint not null check (position >= 0),
  created_at timestamptz not null default clock_timestamp(),
  paused_at timestamptz,
  -- Events acknowledged since the sink was added, repetitions included, and the time of the newest.
  delivered bigint not null default 0,
  delivered_at timestamptz,
  -- Failed deliveries since the last successful one, and the reason of the newest.
  failures integer not null default 0 check (failures >= 0),
  failing_since timestamptz,
  fault text collate "C",
  retry_at timestamptz,
  -- The worker that delivers, until this time or its death: one at a time.
  holder integer references daybook.instance,
  held_until timestamptz,
  -- The newest test event: asked for, taken by a worker, and sent, with the reason of its failure.
  test_requested_at timestamptz,
  test_taken_at timestamptz,
  tested_at timestamptz,
  test_fault text collate "C",
  check ((failures = 0) = (failing_since is null)),
  check ((holder is null) = (held_until is null)),
  check (test_taken_at is null or test_requested_at is not null),
  check (tested_at is null or test_taken_at is not null)
);

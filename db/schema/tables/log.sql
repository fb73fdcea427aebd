-- The fields of an event, all but its place in the log. The text of such a value is the event's line.
create type daybook.event_fields as (
  type smallint,
  request uuid,
  account text collate "C",
  key text collate "C",
  model text collate "C",
  route smallint,
  end_user text collate "C",
  session text collate "C",
  tags text collate "C",
  parents text collate "C",
  upstream text collate "C",
  sse boolean,
  body_bytes integer,
  hold_tokens bigint,
  retry_count smallint,
  status smallint,
  end_reason smallint,
  usage_source smallint,
  input_tokens integer,
  cache_read_tokens integer,
  cache_write_tokens integer,
  output_tokens integer,
  reasoning_tokens integer,
  attempt_count smallint,
  first_byte_ms integer,
  duration_ms integer,
  stream text collate "C",
  version integer,
  body text collate "C",
  terms_position bigint,
  hold_cost_nanousd bigint,
  cost_nanousd bigint,
  upstream_cost_nanousd bigint,
  stated_cost_nanousd bigint,
  admitted_minute integer,
  price_version integer,
  rejected_count integer,
  error_code text collate "C",
  credential text collate "C",
  answered_model text collate "C",
  finish_reason text collate "C",
  service_tier text collate "C",
  provider_request text collate "C",
  prompt_estimate integer,
  max_output_tokens integer
);

-- The log: one row per batch with the lines of its events. Typed rows, one per event, cost PostgreSQL half as
-- much CPU time again for a single event and five times as much in large batches. To read events, see
-- daybook.events. The time, count and instance are those of the batch's row in daybook.log_batch: no reader
-- needs a join.
create table daybook.log (
  last_position bigint not null,
  at timestamptz not null,
  event_count integer not null,
  instance integer not null,
  shard smallint not null,
  events text collate "C" not null,
  primary key (shard, last_position)
) partition by range (last_position);

-- The header of each batch, with the hash chain. It stays when the events move to the archive.
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
  -- An append that crosses the border of two partitions writes two batches under its number.
  unique (instance, batch_no, last_position)
);

-- The control events once more: they are few among millions of requests, servers start by reading all of
-- them, and a decision reads its subject's whole stream. They stay when their partition is archived.
create table daybook.control_event (
  position bigint not null,
  at timestamptz not null,
  instance integer not null,
  version integer not null,
  shard smallint not null,
  type smallint not null,
  stream text collate "C" not null,
  account text collate "C",
  key text collate "C",
  line text collate "C" not null,
  primary key (shard, position),
  unique (stream, version)
);

-- The corrections of requests once more: a request's are found by its id, those of a period by their time.
-- Their figures are what each adds. They stay when their partition is archived. Written only by
-- daybook.append_corrections.
create table daybook.correction (
  position bigint primary key,
  at timestamptz not null,
  cost_nanousd bigint,
  -- Null: the same as `cost_nanousd`.
  upstream_cost_nanousd bigint,
  hold_tokens bigint,
  input_tokens integer,
  cache_read_tokens integer,
  cache_write_tokens integer,
  output_tokens integer,
  reasoning_tokens integer,
  route smallint,
  status smallint,
  end_reason smallint not null,
  request uuid not null,
  account text collate "C" not null,
  key text collate "C" not null,
  model text collate "C" not null,
  upstream text collate "C",
  end_user text collate "C",
  session text collate "C",
  tags text collate "C",
  reference text collate "C" not null,
  reason text not null,
  adjusted_by text collate "C" not null,
  unique (request, reference)
);
create index correction_at on daybook.correction using brin (at);
create index correction_account on daybook.correction (account, position);

-- The current version of each control stream, and names that are taken. Rebuildable from the log; written
-- only by the functions that append.
create table daybook.stream_head (
  stream text collate "C" primary key,
  version integer not null
);

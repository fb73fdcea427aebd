-- The log. Typed columns for the fields of request events, `body` for rare fields: twice the append speed
-- and a quarter of the size of jsonb. Wide columns first, so that padding is small.
create table daybook.log (
  position bigint not null,
  at timestamptz not null,
  request uuid,
  hold_tokens bigint,
  hold_cost_microusd bigint,
  cost_microusd bigint,
  terms_position bigint,
  instance integer not null,
  input_tokens integer,
  cached_tokens integer,
  output_tokens integer,
  reasoning_tokens integer,
  first_byte_ms integer,
  duration_ms integer,
  body_bytes integer,
  admitted_minute integer,
  price_version integer,
  rejected_count integer,
  version integer,
  shard smallint not null,
  type smallint not null,
  status smallint,
  end_reason smallint,
  usage_source smallint,
  attempt_count smallint,
  retry_count smallint,
  sse boolean,
  account text collate "C",
  key text collate "C",
  model text collate "C",
  upstream text collate "C",
  error_code text collate "C",
  stream text collate "C",
  body text collate "C",
  primary key (shard, position)
) partition by range (position);

-- Control events are few among millions of requests. Servers follow only these, and these partial indexes
-- keep that reading independent of the request rows at no cost to the request rows.
create index log_control on daybook.log (shard, position) where stream is not null;
create index log_stream on daybook.log (stream, version) where stream is not null;

-- One row per append: the hash chain. `format` names the list of columns that the leaf hashes cover, so
-- that adding a column later does not change the proof of an earlier row.
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

-- The current version of each control stream, and names that are taken. Rebuildable from the log; written
-- only by daybook.append.
create table daybook.stream_head (
  stream text collate "C" primary key,
  version integer not null
);

-- Batches whose lines are not all settled. A line is a request of its own in the log: it is accepted when its
-- batch is created, and ends when its output appears. A batch is deleted with its last line.
create table daybook.batch (
  -- The request that created it.
  batch uuid primary key,
  account text collate "C" not null,
  key text collate "C" not null,
  upstream text collate "C" not null,
  -- Null: the credential of the environment.
  credential text collate "C",
  -- The provider's id; null while it is not known whether the provider has created the batch.
  id text collate "C" check (octet_length(id) between 1 and 512),
  -- The files of the batch, which must not be deleted before its lines are settled.
  input_file text collate "C" not null,
  output_file text collate "C",
  error_file text collate "C",
  line_count integer not null,
  -- What the endings of all its lines follow from (server/batches/batch-facts.ts).
  facts text not null,
  -- The instance that is creating it; null: any server may follow it.
  holder integer references daybook.instance,
  -- The instance that follows it, until due_at. Its recovery makes the row due.
  taken_by integer references daybook.instance,
  created_at timestamptz not null default statement_timestamp(),
  -- When its provider was first seen to have ended it.
  ended_at timestamptz,
  due_at timestamptz not null default statement_timestamp(),
  unique (account, id)
);
create index batch_due on daybook.batch (due_at);

-- The lines of batches that have no ending yet, each with its reservation, which it is charged until then.
create table daybook.batch_line (
  batch uuid not null references daybook.batch,
  -- SHA-256 of the client's custom_id.
  custom_id bytea not null check (octet_length(custom_id) = 32),
  request uuid not null,
  model text collate "C" not null,
  body_bytes integer not null,
  -- The likely tokens of the prompt, for output without a report of usage.
  prompt_tokens integer not null,
  -- The line's own limit on its reply, over all choices.
  output_limit integer,
  choices smallint not null,
  hold_tokens bigint not null,
  hold_cost_nanousd bigint,
  primary key (batch, custom_id)
);

-- Numbers the log batches with events of batch lines.
create sequence daybook.batch_append as bigint;

-- Responses, files and batches that providers store: which upstream and credential hold one, and the account
-- that made it. An ordinary table that can't be rebuilt from the log, which has no ids of replies. A row is
-- written when the id is seen in a reply, and deleted with the object, or after as long as OpenAI keeps one.
create table daybook.stored_object (
  account text collate "C" not null,
  -- The provider's own text.
  id text collate "C" not null check (octet_length(id) between 1 and 512),
  -- 1 response, 2 file, 3 batch: STORED_KINDS in db/stored/places.ts.
  kind smallint not null,
  upstream text collate "C" not null,
  -- Null: the credential of the environment.
  credential text collate "C",
  created_at timestamptz not null default statement_timestamp(),
  -- The object as its provider last described it, for the lists of its account; null: it is in no list.
  content text check (octet_length(content) <= 16384),
  -- Ids of two accounts may be equal: nothing says that two upstreams choose different ones.
  primary key (account, id)
);
create index stored_object_age on daybook.stored_object (created_at);
create index stored_object_list on daybook.stored_object (account, kind, created_at, id)
  where content is not null;

-- Calls whose responses go on in the background of their provider: the server that made the call hands it
-- over, and any server polls the provider and settles it. A row is deleted in the transaction that appends
-- the ending of its call, so that each call has one. Only a call with a row outlives its server.
create table daybook.background_response (
  request uuid primary key,
  -- Numbers the batch with the ending of the call.
  number bigint not null generated always as identity unique,
  account text collate "C" not null,
  id text collate "C" not null check (octet_length(id) between 1 and 512),
  upstream text collate "C" not null,
  credential text collate "C",
  -- The facts of the call that its ending follows from (server/stored/background-call.ts).
  call text not null,
  -- The ending, where a stream reported its usage before it ended; null: the provider is asked.
  ending text,
  -- What the call is charged until it has ended.
  hold_tokens bigint not null,
  hold_cost_nanousd bigint,
  -- The instance that still relays the reply; null: it has recorded that the call is handed over.
  holder integer references daybook.instance,
  -- The instance that asks the provider, until due_at. Its recovery makes the row due.
  taken_by integer references daybook.instance,
  created_at timestamptz not null default statement_timestamp(),
  due_at timestamptz not null default statement_timestamp(),
  unique (account, id)
);
create index background_response_due on daybook.background_response (due_at);

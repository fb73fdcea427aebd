-- Keys of the header Idempotency-Key, each with the request that claimed it. Ordinary tables that can't be
-- rebuilt from the log, which has neither keys nor replies. The states and their transitions are those of
-- server/idempotency/key-state.ts.
create table daybook.idempotency_key (
  -- HMAC-SHA-256 of the API key's id and the header, under the pepper.
  digest bytea primary key check (octet_length(digest) = 32),
  account text collate "C" not null,
  -- The same of the request's method, target, protocol headers and body.
  fingerprint bytea not null check (octet_length(fingerprint) = 32),
  request uuid not null unique,
  -- The instance that relays the request, and the newest position that it knew before.
  instance integer not null references daybook.instance,
  position bigint not null,
  -- 0 running, 1 ended, 2 lost: its server ended, and the outcome is unknown.
  state smallint not null default 0 check (state between 0 and 2),
  -- Whether another server waits for the end.
  is_awaited boolean not null default false,
  created_at timestamptz not null default statement_timestamp()
);
create index idempotency_key_account on daybook.idempotency_key (account);
create index idempotency_key_age on daybook.idempotency_key (created_at);

-- The replies to requests that have ended, where the plan of the account keeps them. They are not in backups,
-- so that erasing one here erases it everywhere.
create table daybook.idempotent_reply (
  request uuid primary key,
  account text collate "C" not null,
  -- The account's key of attribution that it is sealed under; see daybook.attribution_key.
  generation integer not null check (generation > 0),
  -- The end user, the session and the tags of the request, whose erasure deletes it.
  pseudonyms text[] collate "C" not null,
  -- Compressed before: its size is that of the compressed reply.
  sealed bytea not null,
  created_at timestamptz not null default statement_timestamp()
);
create index idempotent_reply_account on daybook.idempotent_reply (account);
create index idempotent_reply_age on daybook.idempotent_reply (created_at);

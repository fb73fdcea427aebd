-- What upstreams ask for, sealed. A secret is no fact of the log and has to be erasable, so the log
-- knows a credential by its id, its label and the end of its secret alone; its row comes and goes in
-- the transaction of the event that tells of it.
create table daybook.credential (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  upstream text collate "C" not null check (upstream ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
  -- Sealed under a data key of its own, and that data key under the master key, which is in a file
  -- outside the database (db/secrets/envelope.ts): a backup of the database shows neither.
  sealed_secret bytea not null,
  wrapped_key bytea not null,
  -- By which of the master keys: an id that does not tell it.
  master_key text collate "C" not null check (master_key ~ '^[0-9a-f]{16}$'),
  -- Tells whoever can open the data key whether a secret is this one, without opening the secret.
  fingerprint bytea not null check (length(fingerprint) = 32),
  created_at timestamptz not null default clock_timestamp()
);
create index credential_upstream on daybook.credential (upstream);

-- A secret is never changed: another one is another credential. Only what its data key is wrapped by changes.
grant select, insert, delete, update (wrapped_key, master_key) on daybook.credential to daybook_relay;

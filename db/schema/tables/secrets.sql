-- The last use of each secret of a key during a rotation: before revoking the old secret, its owner wants to
-- know whether a client still uses it. Request events don't say which secret a request came with, and one
-- more event per request would be a high price, so servers keep it in memory and write it about once a
-- minute. That makes this table one that can't be rebuilt from the log; a crash loses this information only.
create table daybook.secret_use (
  key text collate "C" not null,
  -- The part of a secret that people see. Two secrets of one key share it once in fifteen million.
  last4 text collate "C" not null,
  used_at timestamptz not null,
  primary key (key, last4)
);

-- The credentials of upstreams, sealed. A secret is not part of the log and has to be erasable, so the log
-- knows a credential by its id, its label and the last characters of its secret; the row is inserted and
-- deleted in the transaction of the corresponding event.
create table daybook.credential (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  upstream text collate "C" not null check (upstream ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
  -- Sealed under a data key of its own, and that data key under the master key, which is in a file outside
  -- the database (db/secrets/envelope.ts): a backup of the database shows neither.
  sealed_secret bytea not null,
  wrapped_key bytea not null,
  -- The id of the master key, which does not reveal the key.
  master_key text collate "C" not null check (master_key ~ '^[0-9a-f]{16}$'),
  -- Lets a holder of the data key compare a secret with this one without opening it.
  fingerprint bytea not null check (length(fingerprint) = 32),
  created_at timestamptz not null default clock_timestamp()
);
create index credential_upstream on daybook.credential (upstream);

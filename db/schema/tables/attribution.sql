-- End users, sessions and tags. The log knows them by pseudonyms only: HMACs under a key of the account
-- (db/attribution/keys.ts). The readable values lie here, sealed, and can be erased.

-- The key of each account, sealed under the master key. Once it is destroyed, pseudonyms and values that were
-- made with it can't be reproduced or opened. A later call makes a new one.
create table daybook.attribution_key (
  account text collate "C" primary key check (account ~ '^[0-9A-Za-z]{8}$'),
  -- Of each account's keys the number of this one: values sealed with another are not stored.
  generation integer not null check (generation > 0),
  -- Both null: destroyed.
  sealed bytea,
  master_key text collate "C" check (master_key ~ '^[0-9a-f]{16}$'),
  created_at timestamptz not null default clock_timestamp(),
  destroyed_at timestamptz,
  check ((sealed is null) = (master_key is null))
);

-- The readable values. They are not in backups, so that erasing one here erases it everywhere; the next call
-- with a value stores it again.
create table daybook.attribution_value (
  account text collate "C" not null,
  -- db/attribution/value.ts
  kind smallint not null check (kind between 1 and 3),
  pseudonym text collate "C" not null check (pseudonym ~ '^[0-9A-Za-z]{16}$'),
  -- Under a key that is derived from the account's.
  sealed bytea not null,
  first_seen_at timestamptz not null default clock_timestamp(),
  primary key (account, kind, pseudonym)
);
create index attribution_value_age on daybook.attribution_value (first_seen_at);

-- Pseudonyms whose values were erased, and must not be stored again.
create table daybook.attribution_erased (
  account text collate "C" not null,
  kind smallint not null check (kind between 1 and 3),
  pseudonym text collate "C" not null check (pseudonym ~ '^[0-9A-Za-z]{16}$'),
  erased_at timestamptz not null default clock_timestamp(),
  primary key (account, kind, pseudonym)
);

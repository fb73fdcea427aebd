-- Alerts, their destinations, and the worker's jobs. These are ordinary tables that can't be rebuilt from the
-- log. Addresses of receivers are often secrets in themselves and have to be erasable, so neither they nor
-- their changes are events.

-- Where alerts are sent. URLs and the signing secrets of webhooks are sealed under the pepper
-- (db/alerts/destinations.ts): a backup of the database shows neither.
create table daybook.alert_destination (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  kind text collate "C" not null check (kind in ('webhook', 'slack', 'teams', 'email')),
  -- Of a URL scheme, host and port, while the rest stays sealed; of email the address.
  label text not null,
  sealed_target bytea not null,
  -- The one account to alert about; null: all accounts, and alerts about no account.
  account text collate "C",
  alerts text[] not null check (cardinality(alerts) > 0),
  -- Only alerts whose details contain this: by key, model, upstream, end user, session or tag.
  filter jsonb not null default '{}' check (jsonb_typeof(filter) = 'object'),
  -- Whether the address may be in a private network or on this machine.
  allow_private boolean not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Failed attempts since the last successful one, and the time of the first of them.
  failures integer not null default 0,
  failing_since timestamptz,
  -- Nothing is sent until a test succeeds.
  switched_off_at timestamptz
);

-- Each alert once, whichever process noticed it: `topic` names the subject, `ordinal` the occurrence. A
-- lasting condition has odd ordinals where it is raised and even ones where it recovers.
create table daybook.alert (
  -- A version 7 UUID, in the order of time; uuidv7() needs PostgreSQL 18. Twelve bits of a fraction of a
  -- millisecond follow the version.
  id uuid primary key default
    (overlay(lpad(to_hex((extract(epoch from clock_timestamp()) * 4096000)::bigint), 15, '0')
      placing '7' from 13 for 0) || substr(gen_random_uuid()::text, 20))::uuid,
  topic text collate "C" not null,
  ordinal integer not null check (ordinal > 0),
  kind text collate "C" not null,
  state text not null check (state in ('raised', 'recovered')),
  account text collate "C",
  details jsonb not null,
  raised_at timestamptz not null default clock_timestamp(),
  unique (topic, ordinal)
);
create index alert_raised on daybook.alert (raised_at);

-- An alert on its way to a destination. Receivers deduplicate repeated attempts by the id.
create table daybook.alert_delivery (
  id uuid primary key default
    (overlay(lpad(to_hex((extract(epoch from clock_timestamp()) * 4096000)::bigint), 15, '0')
      placing '7' from 13 for 0) || substr(gen_random_uuid()::text, 20))::uuid,
  destination text collate "C" not null references daybook.alert_destination on delete cascade,
  alert uuid not null references daybook.alert on delete cascade,
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'failed')),
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  unique (destination, alert)
);
create index alert_delivery_alert on daybook.alert_delivery (alert);

-- Every attempt of a delivery. Of the reply only the status is kept; `fault` says why there was no reply.
create table daybook.alert_attempt (
  delivery uuid not null references daybook.alert_delivery on delete cascade,
  attempted_at timestamptz not null default clock_timestamp(),
  status smallint,
  fault text,
  duration_ms integer not null,
  primary key (delivery, attempted_at),
  check ((status is null) = (fault is not null))
);

-- The position up to which quota windows were checked for alerts.
create table daybook.alert_look (
  kind text collate "C" primary key,
  position bigint not null
);

-- How each of the worker's tasks ended last, over all workers. One row for each task, so it never grows.
create table daybook.job_status (
  task text collate "C" primary key,
  -- Failed runs since the last successful one, and the time of the first and the newest of them.
  failures integer not null default 0 check (failures >= 0),
  failing_since timestamptz,
  failed_at timestamptz,
  -- Why the newest run failed, without any value: the class of the error and its SQLSTATE or code.
  reason text,
  succeeded_at timestamptz,
  check ((failures = 0) = (failing_since is null))
);

-- The name under which a worker locks its jobs. When the worker is dead they are released at once, instead
-- of after the four hours that the queue itself would wait.
create table daybook.queue_pool (
  pool text collate "C" primary key,
  instance integer not null references daybook.instance
);

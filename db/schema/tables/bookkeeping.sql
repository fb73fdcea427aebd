-- What a database has had of the schema. A schema of its own, so that the login of servers and workers can
-- check it before the first migration.
create schema daybook_migrations;

-- Migrations, those that a new database did not need included.
create table daybook_migrations.migration (
  name text collate "C" primary key,
  applied_at timestamptz not null default clock_timestamp()
);

-- Files that are applied again whenever they change: functions and privileges.
create table daybook_migrations.definition (
  name text collate "C" primary key,
  -- SHA-256 of the file, in hexadecimal.
  digest text not null,
  -- The version of Daybook that applied it. An older version leaves it alone.
  version text not null,
  applied_at timestamptz not null default clock_timestamp()
);

-- The versions of Daybook that have migrated this database. A version serves beside the release before it,
-- so a server accepts a database whose newest version here has a `previous` no newer than the server.
create table daybook_migrations.release (
  version text collate "C" primary key,
  -- The release before it; null for the first one.
  previous text collate "C",
  applied_at timestamptz not null default clock_timestamp()
);

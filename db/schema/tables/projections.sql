-- Projections: tables that are rebuilt from the log and never read by enforcement. They belong to the
-- worker's role, which builds a fresh copy in `projection_build` and swaps it for the live one. The other
-- roles only read. daybook.create_projection defines the tables.
create schema projection;
create schema projection_build;

-- The progress of each projection. The process that advances one locks its row, and its tables change in
-- the same transaction: exactly once, across crashes.
create table daybook.projection (
  name text collate "C" primary key,
  position bigint not null default 0,
  -- False: detached. Its tables are missing, or an error stopped it. The other projections continue, and a
  -- rebuild attaches it again.
  is_live boolean not null default true,
  -- The time of the event at `position`: the figures are as of then.
  position_at timestamptz,
  -- Rows that ended before this time were removed by retention, and a rebuild skips them.
  kept_from timestamptz not null default '-infinity',
  rebuilt_at timestamptz
);
insert into daybook.projection (name) values ('requests'), ('usage'), ('history'), ('quotas'), ('directory');

-- Elects the projector: the process with the newest number. A process that sees a newer number than its own
-- stops projecting.
create sequence daybook.projector_epoch;

-- Events that a projection could not apply: damaged, or of a newer version. The projection continues.
create table daybook.parked_event (
  projection text collate "C" not null references daybook.projection on delete cascade,
  position bigint not null,
  -- The code of a type that the projector did not know; null for any other reason. A projector that knows it
  -- has the projection rebuilt.
  type smallint,
  reason text not null,
  parked_at timestamptz not null default clock_timestamp(),
  primary key (projection, position)
);

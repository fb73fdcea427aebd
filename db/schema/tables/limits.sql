-- Limits that hold across all instances. An allowance is one limit of one account or key in one window; a
-- lease is the part of an allowance that an instance may spend on its own. The counters `granted` and
-- `returned` of each only rise, and the constraint makes exceeding a limit impossible whatever the program
-- does.
--
-- No event is written for a lease: which requests were admitted, under which terms, with which hold and at
-- which cost is in the log, and that alone proves that a limit held.

create table daybook.allowance (
  id bigint generated always as identity primary key,
  cap bigint not null,
  -- The bound of the constraint: the cap less the adjustments, or the amount granted before that was lowered.
  ceiling bigint not null,
  granted bigint not null default 0,
  returned bigint not null default 0,
  -- Spent beyond the leases: replies that a soft limit let finish.
  overdrawn bigint not null default 0,
  -- The sum of the administrators' adjustments: below zero, units were given back.
  adjusted bigint not null default 0,
  -- Of the granted amount, for the figures shown to people: settled, and held by running requests.
  used bigint not null default 0,
  held bigint not null default 0,
  -- The newest control event that set the cap, and the one that reset the windows.
  terms_position bigint not null,
  reset_position bigint not null,
  -- The oldest terms of the calls charged to it: calls under older terms had no such limit.
  since_terms bigint not null,
  window_start integer not null,
  -- The number of instances with an open lease.
  sharers integer not null default 0,
  shard smallint not null default 0,
  meter smallint not null,
  window_kind smallint not null,
  -- Near exhaustion every admission is decided in the database. Stored, with hysteresis: instances that did
  -- not look at the moment of crossing would miss a state that was only inferred.
  near boolean not null default false,
  -- The allowance also counts as near for a while after a request was short of units, so that the other
  -- instances return their spare units and the next rejection is certain.
  short_until timestamptz not null default '-infinity',
  subject text collate "C" not null,
  unique (subject, meter, window_kind, window_start, reset_position),
  constraint within_ceiling check (granted - returned <= ceiling)
) with (fillfactor = 70);
-- Partial so that only daybook.drop_ended_allowances can use it. Allowances share their window with others of
-- its kind, a million of a lifetime: a look-up of one subject by this index would read all of them.
create index allowance_ended on daybook.allowance (window_kind, window_start) where window_kind < 6;

create table daybook.lease (
  allowance bigint not null references daybook.allowance on delete cascade,
  instance integer not null,
  granted bigint not null default 0,
  returned bigint not null default 0,
  -- Settled out of this lease by endings up to `position` of the log.
  used bigint not null default 0,
  overdrawn bigint not null default 0,
  held bigint not null default 0,
  position bigint not null,
  -- Requests that were admitted under older terms than these are not charged to this lease.
  since_terms bigint not null,
  -- Whether the instance knows that the allowance is near exhaustion, while it still is: the instance then
  -- keeps no units beyond its holds.
  is_strict boolean not null default false,
  closed boolean not null default false,
  primary key (allowance, instance)
) with (fillfactor = 70);
create index lease_open on daybook.lease (instance) where not closed;
create index lease_closed on daybook.lease (instance) where closed;

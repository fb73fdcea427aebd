-- The locks that processes take on one another, one table each, in SHARE UPDATE EXCLUSIVE mode, which
-- conflicts with itself. A schema of their own, which auditors have no right on: any login of a database can
-- take any advisory lock, and ROW EXCLUSIVE on any table. The first statement of a migration creates the
-- schema before anything else is there, and its own lock: see db/postgres/locks.ts.
create schema if not exists daybook_lock;
create table if not exists daybook_lock.migration ();

-- Appends. One table for the one shard there is: another shard needs a table of its own.
create table daybook_lock.log ();
-- Changes of the log's partitions.
create table daybook_lock.partitions ();
-- Changes of logins.
create table daybook_lock.logins ();
-- The process that moves the projections, and the one that rebuilds a projection.
create table daybook_lock.projecting ();
create table daybook_lock.rebuild ();
create table daybook_lock.archive ();
-- The process that creates the first administrator.
create table daybook_lock.setup ();
-- The process that lets a person in through an identity provider, or changes one.
create table daybook_lock.identity ();
-- The process that signs the head of the log.
create table daybook_lock.checkpoint ();
-- The server that runs a back-test of the dashboard.
create table daybook_lock.backtest ();
-- The process that seals a credential or a key of attribution under the master key, or changes that key.
create table daybook_lock.master_key ();

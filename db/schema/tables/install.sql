create schema daybook;

-- One row: which log this database holds, and proof that a server has the pepper its keys were hashed with.
create table daybook.install (
  only_row boolean primary key default true check (only_row),
  log_id uuid not null default gen_random_uuid(),
  pepper_check text,
  -- Positions per partition, for partitions created from now on. Fifty million are about seven gigabytes.
  partition_size bigint not null default 50000000 check (partition_size between 10 and 1000000000)
);
insert into daybook.install default values;

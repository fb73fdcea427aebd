-- The Merkle tree over the log (RFC 6962) and its signed checkpoints.

-- Hashes of complete subtrees: level 1 covers 256 leaves, level 2 covers 256 of those, and so on; `number`
-- counts within the level. Leaves are computed from the log's rows when they are needed. Every row here can
-- be recomputed from the log, and verification does so.
create table daybook.log_node (
  shard smallint not null,
  level smallint not null check (level between 1 and 6),
  number bigint not null check (number >= 0),
  hash bytea not null check (octet_length(hash) = 32),
  primary key (shard, level, number)
);

-- Every checkpoint that was published, as its signed note. Within an epoch, sizes are unique.
create table daybook.checkpoint (
  shard smallint not null default 0,
  epoch integer not null check (epoch >= 1),
  size bigint not null check (size >= 0),
  note text not null,
  published_at timestamptz not null default clock_timestamp(),
  primary key (shard, epoch, size)
);

-- Cosignatures of checkpoints by witnesses, each as the line that goes below the note.
create table daybook.cosignature (
  shard smallint not null default 0,
  epoch integer not null,
  size bigint not null,
  witness text collate "C" not null,
  line text not null,
  received_at timestamptz not null default clock_timestamp(),
  primary key (shard, epoch, size, witness),
  foreign key (shard, epoch, size) references daybook.checkpoint on delete cascade
);
create index cosignature_by_witness on daybook.cosignature (witness, received_at);

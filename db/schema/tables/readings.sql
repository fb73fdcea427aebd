-- Readings of the log by outside logins that are not in it yet: a row for each login and kind, with the
-- positions from the first reading to the last one. A worker appends them. A login that may write to the log
-- itself would hold its lock for as long as it keeps its transaction open.
create table daybook.reading (
  login text collate "C" not null,
  what text collate "C" not null,
  from_position bigint not null,
  to_position bigint not null,
  primary key (login, what)
);

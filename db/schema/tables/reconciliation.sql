-- Reports of comparisons of a provider's bill with the log. The event `reconciliation.recorded` has the
-- digest of each, so that a changed report is noticed. db/reconcile/report/store.ts
create table daybook.reconciliation_report (
  -- SHA-256 of the report's text, in hexadecimal.
  digest text collate "C" primary key check (digest ~ '^[0-9a-f]{64}$'),
  report text not null check (octet_length(report) <= 16777216)
);

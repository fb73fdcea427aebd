import { KEY_HOURS, REPLY_HOURS } from '#db/idempotency/bounds.ts';
import { STORED_DAYS } from '#db/stored/bounds.ts';
import { USAGE_HISTORY_KEPT_DAYS } from '#db/projections/bounds.ts';

/**
 * How long each table keeps its rows: the one list. A test compares it with the schema, so that a new table
 * has to say what bounds it, and docs/retention.md shows it.
 */
export type TableRetention =
  /** Grows for as long as the installation lives, and has to. */
  | { kind: 'kept'; why: string }
  /**
   * Rows are deleted when they are old or done. `isAged`: a row stays for a period of hours or days whatever
   * becomes of its subject, so that the table grows until the first period is over.
   */
  | { kind: 'trimmed'; by: string; after: string; isAged: boolean }
  /** The number of rows is limited by something that doesn't grow with calls or time. */
  | { kind: 'bounded'; by: string };

const kept = (why: string): TableRetention => ({ kind: 'kept', why });
const trimmed = (by: string, after: string): TableRetention => ({
  kind: 'trimmed',
  by,
  after,
  isAged: false,
});
const aged = (by: string, after: string): TableRetention => ({ kind: 'trimmed', by, after, isAged: true });
const bounded = (by: string): TableRetention => ({ kind: 'bounded', by });

const REQUEST_DAYS = '`REQUEST_ROWS_DAYS`';
const USAGE_MINUTES = '49 hours';

export const RETENTION: Readonly<Record<string, TableRetention>> = {
  'daybook.alert': aged('`retain`', '90 days'),
  'daybook.alert_attempt': aged('`retain`', 'its alert'),
  'daybook.alert_delivery': aged('`retain`', 'its alert'),
  'daybook.alert_destination': bounded('alert destinations'),
  'daybook.alert_look': bounded('one row'),
  'daybook.allowance': trimmed('`drop_allowances`', 'the end of its window and its readers; lifetimes stay'),
  'daybook.attempt': trimmed('the sign-in throttle', 'an hour after its period, of an hour at most'),
  'daybook.attribution_erased': bounded('erasures of end users, sessions and tags'),
  'daybook.attribution_key': bounded('accounts'),
  'daybook.attribution_value': aged('the server', '400 days; a later call stores it again'),
  'daybook.background_response': trimmed('`settle_background`', 'its call is settled, a day at most'),
  'daybook.batch': trimmed('`settle_batch`', 'its last line is settled, at most 15 days'),
  'daybook.batch_line': trimmed('`settle_batch`', 'it is settled, at most 15 days'),
  'daybook.call_progress': trimmed('`retire_instance` or `recover_instance`', 'its instance is closed'),
  'daybook.checkpoint': aged('`retain`', '48 hours, but for one an hour'),
  'daybook.control_event': kept('every change of accounts, keys, plans and the like once more'),
  'daybook.correction': kept('every correction of a request once more: repeating one must be noticed'),
  'daybook.cosignature': aged('`retain`', 'its checkpoint'),
  'daybook.credential': bounded('upstream credentials'),
  'daybook.idempotency_key': aged('`retain`', `${KEY_HOURS} hours, or its request was rejected`),
  'daybook.idempotent_reply': aged('`retain`', `${REPLY_HOURS} to ${KEY_HOURS} hours`),
  'daybook.identity': bounded('members'),
  'daybook.install': bounded('one row'),
  'daybook.instance': kept('names the process of each batch; about 100 bytes for each start of a process'),
  'daybook.job_status': bounded('one row for each task'),
  'daybook.lease': trimmed('`drop_allowances`', 'its allowance, or its process'),
  'daybook.link': trimmed('the server', 'its use or expiry'),
  'daybook.log': aged('`archive`', 'its partition is archived; otherwise kept'),
  'daybook.log_batch': kept('the hash chain; about 170 bytes for each append, of one event or hundreds'),
  'daybook.log_node': kept('hashes of the log’s tree that proofs need; about 1 byte for each event'),
  'daybook.log_partition': kept('where each archived part of the log is; one row for 50 million events'),
  'daybook.member': bounded('members'),
  'daybook.parked_event': trimmed('a rebuild of its projection', 'the event can be applied'),
  'daybook.projection': bounded('one row for each projection'),
  'daybook.provider_secret': bounded('identity providers'),
  'daybook.queue_pool': trimmed('the workers', 'its worker is dead'),
  'daybook.reading': trimmed('`append_readings`', 'it is in the log'),
  'daybook.reconciliation_report': kept('the reports of recorded comparisons, at most 16 MiB each'),
  'daybook.secret_use': aged('the server', 'its rotation is over'),
  'daybook.session': trimmed('the server', 'its end or expiry'),
  'daybook.sink': bounded('sinks'),
  'daybook.statement_email': aged('`retain`', '400 days'),
  'daybook.statement_recipient': bounded('accounts'),
  'daybook.statement_schedule': bounded('one row'),
  'daybook.stored_object': aged('`retain`', `${STORED_DAYS} days, or the object is deleted`),
  'daybook.stream_head': kept(
    'the version of each control stream; one row for each account, key and the like',
  ),
  'daybook.token_exchange': trimmed(
    'the server',
    'its token, of a day at most, and its key have expired; 10,000 live ones of a workload',
  ),
  'daybook_migrations.definition': bounded('files of the schema'),
  'daybook_migrations.migration': bounded('migrations'),
  'daybook_migrations.release': bounded('releases'),
  'projection.account': bounded('accounts'),
  'projection.key': kept('one row for each key that ever was'),
  'projection.key_use': kept('one row for each key that ever was'),
  'projection.model_price': bounded('models with a price'),
  'projection.open_hold': bounded('running calls'),
  'projection.plan': bounded('plans'),
  'projection.quota_source': kept('one row for each account, plan and key'),
  'projection.quota_terms': kept('one row for each change of a quota, by which older calls are charged'),
  'projection.quota_window': aged('`retain`', `its window ended ${REQUEST_DAYS} days ago`),
  'projection.request': aged('`retain`, a partition at a time', `${REQUEST_DAYS} days after its end`),
  'projection.running_request': bounded('running calls'),
  'projection.statement_day': kept('what statements add up, by key, model and day'),
  'projection.usage_day': kept('usage by key, model and day'),
  'projection.usage_day_account': kept('usage by account and day'),
  'projection.usage_history': aged('`retain`', `${USAGE_HISTORY_KEPT_DAYS} days`),
  'projection.usage_hour': kept('usage by account and hour'),
  'projection.usage_hour_key': aged('`retain`', USAGE_MINUTES),
  'projection.usage_hour_total': kept('24 rows a day'),
  'projection.usage_minute': aged('`retain`', USAGE_MINUTES),
  'projection.usage_minute_total': aged('`retain`', USAGE_MINUTES),
};

/** One line for a table of docs/retention.md. */
export function retentionLine(table: string, retention: TableRetention): string {
  switch (retention.kind) {
    case 'kept':
      return `| \`${table}\` | forever | ${retention.why} |`;
    case 'trimmed':
      return `| \`${table}\` | ${retention.after} | by ${retention.by} |`;
    case 'bounded':
      return `| \`${table}\` | bounded | ${retention.by} |`;
  }
}

/** Whether a table grows with every call, or with time, in a run that is shorter than its retention. */
export function growsInUse(table: string): boolean {
  const retention = RETENTION[table];
  return retention?.kind === 'kept' || (retention?.kind === 'trimmed' && retention.isAged);
}

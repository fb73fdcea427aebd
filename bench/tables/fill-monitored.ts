import { Client } from 'pg';
import { withTimeout, type Store } from '#db/postgres/connect.ts';
import { METERS } from '#db/limits/meters.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { ACCOUNTS } from './fill.ts';

/** The other tables that monitors read: keys, most of them expired, and quota windows, most of them over. */

const KEYS = 100_000;
/** One quota window for so many requests. */
const REQUESTS_PER_WINDOW = 10;
const FILL_TIMEOUT_MS = 600_000;

const FILL_KEYS = `insert into projection.key (id, account, name, last4, created_at, expires_at, expired_at,
      version, position)
    select lpad(n::text, 8, '0'), 'Acct' || lpad((n % ${ACCOUNTS})::text, 4, '0'), 'key', 'aaaa',
        now() - interval '400 days', now() + (n - ${KEYS}) * interval '5 minutes' + interval '30 days',
        case when n < ${KEYS} - 8640 then now() end, 1, n
      from generate_series(1, ${KEYS}) n`;
const FILL_WINDOWS = `insert into projection.quota_window (cap, used, reset_position, position, window_start,
      meter, window_kind, per, is_hard, subject, holder, account)
    select 1000, n % 1000, 0, n * ${REQUESTS_PER_WINDOW},
        (extract(epoch from now()) / 60)::integer - ($1::integer - n) / 40,
        ${METERS.tokens.code}, ${WINDOW_KINDS.hour}, 0, false,
        'account/Acct' || lpad((n % ${ACCOUNTS})::text, 4, '0') || n,
        'account/Acct' || lpad((n % ${ACCOUNTS})::text, 4, '0') || n,
        'Acct' || lpad((n % ${ACCOUNTS})::text, 4, '0')
      from generate_series(1, $1::integer) n`;

/** Fills keys and quota windows, as many of the latter as so many requests leave behind. */
export async function fillMonitored(store: Store, requestCount: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const client = new Client(withTimeout(store.config('worker'), FILL_TIMEOUT_MS));
  await client.connect();
  try {
    await client.query('set synchronous_commit = off');
    await client.query(FILL_KEYS);
    await client.query(FILL_WINDOWS, [Math.ceil(requestCount / REQUESTS_PER_WINDOW)]);
    await client.query('vacuum (analyze) projection.key, projection.quota_window');
  } finally {
    await client.end();
  }
}

import path from 'node:path';
import type { EventOf } from '#db/events/events.ts';
import { publicId } from '#db/ids.ts';
import type { Store } from '#db/postgres/connect.ts';
import { readStatement } from '#db/statement/read.ts';
import { proveStatement } from '#db/statement/prove.ts';
import type { StatementFile } from '#db/statement/file.ts';
import { publishNow } from './audit/publishing.ts';
import { accepted, connectAs, registered, settled, type Writer } from './log/log-writer.ts';
import { projectAll } from './projections/projected.ts';

/** The whole time in which a test writes. */
export const period = (): { from: Date; to: Date } => ({
  from: new Date(Date.now() - 86_400_000),
  to: new Date(Date.now() + 86_400_000),
});

export const STATEMENT_KEY = 'Key00001';

/** Writes a prepaid account with a key, a top-up, calls of each kind, a correction and an adjustment. */
export async function writeBilledAccount(writer: Writer, name = 'Ana’s 株式会社'): Promise<string> {
  const account = publicId();
  const actor = 'command-line';
  const control = await writer.control([
    { event: registered(account, name), version: 1 },
    {
      event: { type: 'account.terms_overridden', account, terms: { prepaid: true }, windows: 'keep', actor },
      version: 2,
    },
    {
      event: {
        type: 'account.topped_up',
        account,
        amount_nanousd: 50_000_000_000,
        reference: 'wire 1',
        actor,
      },
      version: 3,
    },
  ]);
  const begin = (changes: Partial<EventOf<'request.accepted'>> = {}) =>
    accepted({ account, key: STATEMENT_KEY, model: 'gpt-5', terms_position: control, ...changes });
  const terms = { terms_position: control };
  for (let batch = 0; batch < 5; batch++)
    await writer.append(
      Array.from({ length: 12 }, (_, index) => {
        const begun = begin({ model: index % 3 === 0 ? 'claude-opus' : 'gpt-5' });
        const foreign = accepted({ account: 'Account1' });
        return index % 4 === 3
          ? [foreign, settled(foreign, { cost_nanousd: 1 })]
          : [
              begun,
              settled(begun, { cost_nanousd: 1_000_003 * (index + 1), input_tokens: 100 + index, ...terms }),
            ];
      }).flat(),
    );
  const lost = begin();
  const counted = begin({ end_user: 'EndUser000000001' });
  const unpriced = begin({ model: 'local' });
  await writer.append([
    lost,
    counted,
    unpriced,
    {
      type: 'request.abandoned',
      request: lost.request,
      ...{
        account,
        key: STATEMENT_KEY,
        model: lost.model,
        hold_tokens: 500,
        hold_cost_nanousd: 77,
        ...terms,
      },
      end_reason: 'abandoned',
      usage_source: 'estimated',
    },
    settled(counted, { cost_nanousd: 5, usage_source: 'counted', ...terms }),
    settled(unpriced, terms),
    {
      type: 'request.rejected',
      route: '/v1/chat/completions',
      request: accepted().request,
      ...{ account, key: STATEMENT_KEY, error_code: 'rate_limit_exceeded', status: 429, rejected_count: 3 },
    },
  ]);
  await writer.correct([
    {
      type: 'usage.adjusted',
      request: counted.request,
      ...{ account, key: STATEMENT_KEY, model: counted.model, end_reason: 'completed', ...terms },
      cost_nanousd: -2,
      reference: 'bill-7',
      reason: 'billed twice',
      adjusted_by: 'command-line',
    },
  ]);
  return account;
}

/** Projects and publishes all that was written, and proves the statement of an account. */
export async function proveAccount(store: Store, account: string, directory: string): Promise<StatementFile> {
  await projectAll(store);
  await publishNow(store, {
    keyFile: path.join(directory, 'key'),
    directory: path.join(directory, 'published'),
  });
  const client = await connectAs(store, 'relay');
  try {
    const read = await readStatement(
      client,
      { account, ...period(), group_by: ['key'] },
      { entriesMax: 10_000 },
    );
    const file = await proveStatement(client, read, null, []);
    if (file === null) throw new Error('no checkpoint covers the statement');
    return file;
  } finally {
    await client.end();
  }
}

import type { ClientBase } from 'pg';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { openBillingClient } from '#server/billing-api/billing-client.ts';
import { fetchBill } from '#server/billing-api/fetch-bill.ts';
import type { BillingApiName } from '#server/billing-api/reports.ts';
import type { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { requireUpstream } from '#server/decide/upstream.ts';
import type { Config } from '#server/process/config.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';

/** The interval of a bill, and the API if it isn't that of the upstream's protocol. */
export type BillRequest = { api: BillingApiName | null; from: Date; to: Date };

/**
 * Fetches the bill of an upstream's provider with its newest billing credential, which is decrypted for this
 * alone.
 * @throws {DecisionError} if the upstream has no such credential or no billing API.
 * @throws {BillingError | BillFormatError} when the provider doesn't reply as it must.
 */
export async function fetchUpstreamBill(
  {
    control,
    client,
    config,
  }: {
    control: Control;
    client: ClientBase;
    config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE'>;
  },
  name: string,
  request: BillRequest,
): Promise<Bill> {
  const { terms, billingCredentials } = requireUpstream(await control.loadUpstream(name), name);
  const api = request.api ?? billingApiOf(terms);
  if (api === null || terms.base_url === undefined)
    throw new DecisionError(
      'invalid',
      `Upstream "${name}" has no billing API that can be fetched. Import a file of its provider's bill.`,
    );
  const credential = billingCredentials.at(-1);
  if (!credential)
    throw new DecisionError(
      'not_found',
      `Upstream "${name}" has no billing credential. Add an admin key of the provider: ` +
        `daybook credential add ${name} --billing --label billing`,
    );
  const { secrets, unopened } = await openCredentials(client, readKeys(masterKeyFile(config)), [
    credential.id,
  ]);
  const secret = secrets.get(credential.id);
  if (secret === undefined)
    throw new DecisionError(
      'not_allowed',
      `Billing credential ${credential.id} can't be decrypted: ` +
        `${unopened[0]?.why ?? 'it is not in the database'}.`,
    );
  await using billing = openBillingClient({
    api,
    baseUrl: terms.base_url,
    network: terms.network,
    secret,
  });
  return await fetchBill(billing, { api, from: request.from, to: request.to });
}

/** The billing API that belongs to an upstream's protocol; null: none is known. */
function billingApiOf({ provider, dialect }: UpstreamTerms): BillingApiName | null {
  if (provider === 'anthropic') return 'anthropic';
  return dialect === 'openai' || dialect === 'openrouter' ? dialect : null;
}

import type { Bill, BillLine } from '#db/reconcile/bill/line.ts';
import type { Report } from '#db/reconcile/report/report.ts';
import { withControl } from '#server/control/control.ts';
import { compareBill, type CompareTerms } from '#server/control/reconcile/compare.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { declare } from '../support/upstream/upstreams-live.ts';
import {
  type BillingProvider,
  type Booked,
  type Parts,
  type Reply,
  startBillingProvider,
} from '../support/providers/billing-provider.ts';
import { openRequests } from '../support/faults.ts';
import { EURO, FLEX, HOUR_MS, REPRICED, STANDARD } from './plants.ts';

/** A relay and a provider that bills its calls by its own ledger. */
export type World = AsyncDisposable & {
  relay: TestRelay;
  provider: BillingProvider;
  /** Calls a model through the relay. @returns the rows of the provider's ledger. */
  call(model: string, reply: Reply): Promise<Booked[]>;
  /** Compares a bill with these lines. */
  compare(lines: readonly BillLine[], terms?: Partial<CompareTerms>): Promise<Report>;
  /** Compares a bill. */
  compareBill(bill: Bill, terms?: Partial<CompareTerms>): Promise<Report>;
};

export async function startWorld(prefix: string): Promise<World> {
  const provider = await startBillingProvider(prefix);
  const relay = await startRelay();
  await declare(
    relay,
    {
      upstreams: {
        provider: {
          base_url: provider.baseUrl,
          models: ['chat*', 'repriced*', 'unpriced*'],
          credentials: [
            { label: 'main', secret: '${MAIN}' },
            { label: 'spare', secret: '${SPARE}' },
          ],
        },
      },
    },
    { MAIN: 'sk-main', SPARE: 'sk-spare' },
  );
  await relay.control(async (control) => {
    await control.setPrice('chat*', {
      base: STANDARD,
      rules: [{ when: { service_tier: 'flex' }, rate: FLEX }],
    });
    await control.setPrice('repriced*', { base: STANDARD });
    await control.setPrice('repriced*', { base: REPRICED });
  });
  const send = async (model: string, stream: boolean): Promise<number> => {
    const reply = await fetch(`${relay.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${relay.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model,
        stream,
        messages: [{ role: 'user', content: 'When does the tide turn?' }],
      }),
    });
    await reply.arrayBuffer().catch(() => undefined);
    return reply.status;
  };
  // The server opens a credential a moment after it has applied its event. These calls are billed as well.
  await until(
    async () => {
      await send('chat', false);
      return new Set(provider.ledger.map(({ credential }) => credential)).size;
    },
    (credentials) => credentials === 2,
    'both credentials',
  );
  const world: World = {
    relay,
    provider,
    async call(model, reply) {
      const before = provider.ledger.length;
      // The reply to a further attempt is left where the retry budget had none.
      provider.replies.splice(0, Infinity, reply);
      if (reply.ending === 'error') provider.replies.push({ parts: reply.parts });
      await send(model, reply.ending === 'cut');
      return provider.ledger.slice(before);
    },
    compare(lines, terms) {
      const now = Date.now();
      return world.compareBill(
        {
          source: 'csv',
          provider: 'scripted',
          from: new Date(now - 40 * HOUR_MS),
          to: new Date(now + 120 * HOUR_MS),
          timeZone: 'UTC',
          lines: [...lines],
          unsupported: [],
          rounded: [],
        },
        terms,
      );
    },
    async compareBill(bill, terms = {}) {
      await relay.waitFor((events) => openRequests(events).length === 0);
      return withControl(relay.store, 'test', (_, client) =>
        compareBill(client, bill, {
          upstreams: [],
          models: new Map(),
          credentials: new Map(),
          rates: new Map([['EUR', EURO]]),
          tolerance: { nanousd: 0n, ppm: 0 },
          ...terms,
        }),
      );
    },
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
    },
  };
  return world;
}

/** Parts of an ordinary call. */
export const someParts = (random: (below: number) => number, more: Parts = {}): Parts => ({
  input: 200 + random(3_000),
  output: 50 + random(900),
  ...(random(2) === 0 ? { cache_read: 100 + random(900) } : {}),
  ...(random(3) === 0 ? { reasoning: 20 + random(300) } : {}),
  ...more,
});

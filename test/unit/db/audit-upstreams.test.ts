import { expect, test } from 'vitest';
import { showSnapshot } from '#db/audit/commands/replay-text.ts';
import { snapshotOf } from '#db/audit/replay/snapshot.ts';
import { ReplayState } from '#db/audit/replay/state.ts';
import { UpstreamTerms } from '#db/events/upstream-events.ts';
import { LogInMemory } from '../../support/log/log-in-memory.ts';

const actor = 'command-line';
const terms = UpstreamTerms.parse({
  provider: 'openai',
  dialect: 'groq',
  base_url: 'https://api.example.com/v1',
  models: ['llama*'],
});
const fast = { targets: [{ upstream: 'one', model: 'llama-3', weight: 3, order: 0 }] };

test('replay: shows the upstreams, credentials and models at any position', async () => {
  const log = new LogInMemory(Date.now(), 1);
  await log.control([{ event: { type: 'upstream.added', upstream: 'one', terms, actor }, version: 1 }]);
  await log.control([
    {
      event: {
        type: 'upstream.credential_added',
        upstream: 'one',
        credential: 'Cred0001',
        label: 'main',
        last4: 'be02',
        actor,
      },
      version: 2,
    },
  ]);
  await log.control([{ event: { type: 'model.defined', model: 'fast', terms: fast, actor }, version: 1 }]);
  await log.control([
    { event: { type: 'model.defined', model: 'quick', terms: { alias_of: 'fast' }, actor }, version: 1 },
  ]);
  await log.control([
    {
      event: { type: 'upstream.changed', upstream: 'one', terms: { ...terms, paused: true }, actor },
      version: 3,
    },
  ]);
  await log.control([
    { event: { type: 'model.retired', model: 'quick', actor }, version: 2 },
    { event: { type: 'upstream.removed', upstream: 'one', actor }, version: 4 },
  ]);
  const at = (position: number) => {
    const state = new ReplayState();
    for (const event of log.events) if (event.position <= position) state.apply(event);
    return snapshotOf(state, state.at);
  };
  const text = (position: number): string =>
    showSnapshot({
      ...at(position),
      read: { first_position: 1, events: position, elapsed_ms: 1, events_per_s: 1 },
    });

  const then = at(4);
  expect(then.upstreams).toEqual([
    {
      name: 'one',
      state: 'active',
      terms,
      credentials: [
        {
          id: 'Cred0001',
          label: 'main',
          last4: 'be02',
          purpose: 'calls',
          added_at: log.events[1]?.at.toISOString(),
        },
      ],
    },
  ]);
  expect(then.models).toEqual([
    { name: 'fast', state: 'active', terms: fast },
    { name: 'quick', state: 'active', terms: { alias_of: 'fast' } },
  ]);
  expect(text(4)).toMatch(
    /\none +active +groq +https:\/\/api\.example\.com\/v1 +llama\* +main \(Cred0001, …be02\)\n/,
  );
  expect(text(4)).toMatch(
    /\nfast +active +one:llama-3 \(order 0, weight 3\)\nquick +active +alias of fast\n/,
  );
  expect(text(5)).toMatch(/\none +paused /);
  expect(at(7)).toMatchObject({
    fault_count: 0,
    upstreams: [{ state: 'removed', credentials: [] }],
    models: [
      { name: 'fast', state: 'active' },
      { name: 'quick', state: 'retired' },
    ],
  });
  expect(text(0)).toContain('Upstreams: none.');
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { KEYS_ACTIVE_MAX } from '#server/decide/bounds.ts';
import { publicId } from '#db/ids.ts';
import { commandLine } from '../support/servers/command-line.ts';
import type { TestDatabase } from '../support/database.ts';
import { openWriter } from '../support/log/log-writer.ts';
import { makePlace, type Place } from '../support/relay.ts';
import { offerFirstKey } from '#server/process/first-key.ts';
import { prepareStore } from '#server/process/prepare-store.ts';
import { readConfig } from '#server/process/config.ts';

/** Keys by the commands. */

let place: Place;
let store: TestDatabase;
beforeAll(async () => {
  place = await makePlace();
  store = place.store as TestDatabase;
  await prepareStore(store, readConfig(place.env));
  await offerFirstKey(store, readConfig(place.env), true);
});
afterAll(() => place?.[Symbol.asyncDispose]());

const { daybook, json } = commandLine(() => place.env);

test('key create is held to the number of active keys that an account may have', async () => {
  const { id: account } = await json<{ id: string }>('account', 'create', 'crowded');
  const keys = Array.from({ length: KEYS_ACTIVE_MAX }, () => publicId());
  const writer = await openWriter(store);
  try {
    await writer.control(
      keys.map((key) => ({
        event: {
          type: 'key.created' as const,
          account,
          key,
          name: 'key',
          digest: 'a'.repeat(64),
          last4: 'aaaa',
          actor: 'test',
        },
        version: 1,
      })),
    );
  } finally {
    await writer[Symbol.asyncDispose]();
  }
  const refused = await daybook('key', 'create', '--account', 'crowded');
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(`already has ${KEYS_ACTIVE_MAX} active keys`);

  await daybook('key', 'revoke', keys[0] as string);
  expect((await daybook('key', 'create', '--account', 'crowded')).code).toBe(0);
});

import { createHash, randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from 'pg';
import { uuidv7 } from '#db/ids.ts';
import {
  claimKey,
  deleteOldKeys,
  endKey,
  findClaim,
  KEY_STATES,
  releaseKey,
  resolveClaim,
} from '#db/idempotency/keys.ts';
import { recoverInstance, retireInstance } from '#db/instances/instance.ts';
import { evolveKey, type KeyState } from '#server/idempotency/key-state.ts';
import { createDatabase, openSession, type TestDatabase } from '../support/database.ts';
import { accepted, openWriter, settled, type Writer } from '../support/log/log-writer.ts';

/** The rows of idempotency keys follow the state machine, whatever servers do with them. */

let database: TestDatabase;
let relay: Client;
let recoverer: Writer;

beforeAll(async () => {
  database = await createDatabase();
  relay = await openSession(database.config('relay'));
  recoverer = await openWriter(database);
});

afterAll(async () => {
  await relay?.end();
  await recoverer?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
});

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();
const FINGERPRINT = sha256('request');

async function stateOf(digest: Buffer): Promise<KeyState> {
  const found = await findClaim(relay, digest);
  if (found === null) return { kind: 'free' };
  const claimed = { request: found.request, fingerprint: found.fingerprint.toString('hex') };
  switch (found.state) {
    case KEY_STATES.running:
      return { kind: 'running', ...claimed };
    case KEY_STATES.ended:
      return { kind: 'ended', hasReply: found.hasReply, ...claimed };
    default:
      return { kind: 'lost', ...claimed };
  }
}

const claimOf = (digest: Buffer, request: string, { instance }: Writer, position: number) => ({
  digest,
  account: 'Account1',
  fingerprint: FINGERPRINT,
  request,
  instance,
  position,
});

/** A step of one of three requests with the same key, each on an instance of its own. */
const anyStep = fc.record({
  of: fc.integer({ min: 0, max: 2 }),
  does: fc.constantFrom('claim', 'accept', 'settle', 'release', 'end', 'close', 'resolve'),
});

async function positionOf(): Promise<number> {
  const { rows } = await relay.query<{ head: string }>('select daybook.head(0::smallint) as head');
  return Number(rows[0]?.head ?? 0);
}

test('a key in the database follows the state machine, at any order of steps', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: 3, maxLength: 14 }), async (steps) => {
      await using one = await openWriter(database);
      await using two = await openWriter(database);
      await using three = await openWriter(database);
      const writers = [one, two, three];
      const digest = sha256(randomUUID());
      const calls = writers.map((writer) => ({
        writer,
        event: accepted({ request: uuidv7() }),
        inLog: 'nothing' as 'nothing' | 'accepted' | 'settled',
        isClosed: false,
        isClaimed: false,
      }));
      let state: KeyState = { kind: 'free' };
      for (const { of, does } of steps) {
        const call = calls[of] as (typeof calls)[number];
        const { writer, event } = call;
        const { request } = event;
        switch (does) {
          case 'claim': {
            if (call.isClaimed) break;
            const isFree = state.kind === 'free' && !call.isClosed;
            expect(await claimKey(relay, claimOf(digest, request, writer, await positionOf()))).toBe(isFree);
            if (!isFree) break;
            call.isClaimed = true;
            state = evolveKey(state, { type: 'claimed', request, fingerprint: FINGERPRINT.toString('hex') });
            break;
          }
          case 'accept':
            if (call.isClosed || !call.isClaimed || call.inLog !== 'nothing') break;
            await writer.append([event]);
            call.inLog = 'accepted';
            break;
          case 'settle':
            if (call.isClosed || call.inLog !== 'accepted') break;
            await writer.append([settled(event)]);
            call.inLog = 'settled';
            break;
          case 'release':
            await releaseKey(relay, request);
            state = evolveKey(state, { type: 'released', request });
            break;
          case 'end':
            await endKey(relay, request, null);
            state = evolveKey(state, { type: 'ended', request, isKept: false });
            break;
          case 'close':
            if (call.isClosed) break;
            if (call.inLog === 'accepted') {
              await recoverer.client.query('select daybook.fence_instance($1)', [writer.instance]);
              await recoverInstance(recoverer.client, writer.instance, recoverer.instance);
            } else await retireInstance(recoverer.client, writer.instance);
            call.isClosed = true;
            break;
          case 'resolve':
            await resolveClaim(relay, request);
            if (call.isClosed) state = evolveKey(state, { type: 'recovered', request, inLog: call.inLog });
            break;
        }
        expect(await stateOf(digest)).toEqual(state);
      }
    }),
    { numRuns: 60 },
  );
});

test('of claims at the same time one gets the key', async () => {
  const clients = await Promise.all(Array.from({ length: 8 }, () => openSession(database.config('relay'))));
  try {
    for (let round = 0; round < 20; round++) {
      const digest = sha256(randomUUID());
      const position = await positionOf();
      const claims = await Promise.all(
        clients.map((client) => claimKey(client, claimOf(digest, uuidv7(), recoverer, position))),
      );
      expect(claims.filter(Boolean)).toHaveLength(1);
    }
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
});

test('a key is free a day after its claim, and its row is deleted', async () => {
  const owner = await openSession(database.config('owner'));
  const worker = await openSession(database.config('worker'));
  const age = (digest: Buffer) =>
    owner.query(
      `update daybook.idempotency_key set created_at = created_at - interval '25 hours' where digest = $1`,
      [digest],
    );
  try {
    const position = await positionOf();
    const digest = sha256(randomUUID());
    const [first, second] = [uuidv7(), uuidv7()];
    expect(await claimKey(relay, claimOf(digest, first, recoverer, position))).toBe(true);
    expect(await claimKey(relay, claimOf(digest, second, recoverer, position))).toBe(false);
    await age(digest);
    expect(await claimKey(relay, claimOf(digest, second, recoverer, position))).toBe(true);
    expect(await stateOf(digest)).toMatchObject({ kind: 'running', request: second });
    await age(digest);
    expect(await deleteOldKeys(worker)).toBe(1);
    expect(await stateOf(digest)).toEqual({ kind: 'free' });
  } finally {
    await owner.end();
    await worker.end();
  }
});

import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { linkBatch, verifyBatch } from '#db/log/chain.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { readBatches, verifyChain } from '../../support/audit/verify-chain.ts';
import { controller } from '../../support/controller.ts';
import { createDatabase } from '../../support/database.ts';
import { anyRequestEvent } from '../../support/log/arbitrary-event.ts';
import { appendFirstControls, appendFirstRequests } from '../../support/audit/first-events.ts';
import { connectAs, openWriter, readLog } from '../../support/log/log-writer.ts';

describe('an intact hash chain', () => {
  test('equals the chain recomputed outside Postgres, over hundreds of batches of 3 writers', async () => {
    await using database = await createDatabase();
    await using one = await openWriter(database);
    await using two = await openWriter(database);
    await using three = await openWriter(database);
    const control = controller(three);
    const random = (max: number): number => 1 + Math.floor(Math.random() * max);
    await Promise.all([
      ...[one, two].map(async (writer) => {
        for (let batch = 0; batch < 120; batch++) await writer.append(fc.sample(anyRequestEvent, random(12)));
      }),
      (async () => {
        for (let batch = 0; batch < 60; batch++) await control(random(5));
      })(),
    ]);
    const auditor = await connectAs(database, 'auditor');
    try {
      expect(await verifyChain(auditor)).toBeNull();
      expect(await readBatches(auditor)).toHaveLength(300);
    } finally {
      await auditor.end();
    }
  });

  test('can be verified from any batch whose hash was kept', async () => {
    await using database = await createDatabase();
    await using writer = await openWriter(database);
    for (let batch = 0; batch < 10; batch++) await writer.append(fc.sample(anyRequestEvent, 4));
    const batches = await readBatches(writer.client);
    for (const [index, batch] of batches.entries()) {
      const next = batches[index + 1];
      if (next === undefined) break;
      const position = Number(batch.row.lastPosition);
      expect(verifyBatch({ position, chain: batch.row.chain }, next)).toBeNull();
      expect(verifyBatch({ position, chain: Buffer.alloc(32) }, next)).not.toBeNull();
    }
  });

  test('covers lines byte by byte, which are read as the events that they were written for', async () => {
    await using database = await createDatabase();
    const relay = await connectAs(database, 'relay');
    const instance = await registerInstance(relay, 'first');
    await appendFirstControls(relay, instance, 1, 1);
    await appendFirstRequests(relay, instance, 2);
    await using writer = await openWriter(database);
    const control = controller(writer);
    await writer.append(fc.sample(anyRequestEvent, 20));
    await control(20);
    await appendFirstRequests(relay, instance, 3);
    await appendFirstControls(relay, instance, 4, 4);
    await relay.end();
    await writer.append(fc.sample(anyRequestEvent, 20));

    expect(await verifyChain(writer.client)).toBeNull();
    expect((await readBatches(writer.client)).map(({ row }) => row.format)).toEqual(Array(7).fill('1'));
    const log = await readLog(database);
    const call = {
      request: '01900000-0000-7000-8000-000000000001',
      account: 'Account1',
      key: 'Key00001',
      model: 'a "b", \\c',
    };
    expect(log.slice(0, 6).map(({ event }) => event)).toEqual([
      { type: 'account.registered', account: 'Account1', name: 'caf\u00e9', actor: 'command-line' },
      { type: 'account.suspended', account: 'Account1', actor: 'command-line' },
      { type: 'account.reinstated', account: 'Account1', actor: 'command-line' },
      {
        type: 'request.accepted',
        ...call,
        route: '/v1/chat/completions',
        sse: true,
        body_bytes: 40,
        hold_tokens: 500,
        retry_count: 3,
      },
      {
        type: 'request.settled',
        ...call,
        end_reason: 'completed',
        usage_source: 'provider',
        upstream: 'one',
        status: 200,
        input_tokens: 10,
        cache_read_tokens: 4,
        output_tokens: 20,
        reasoning_tokens: 0,
        attempt_count: 1,
        first_byte_ms: 5,
        duration_ms: 50,
      },
      {
        type: 'request.abandoned',
        request: '01900000-0000-7000-8000-000000000002',
        account: 'Account2',
        key: 'Key00002',
        model: '',
        end_reason: 'abandoned',
        usage_source: 'estimated',
        hold_tokens: Number.MAX_SAFE_INTEGER,
      },
    ]);
  });
});

describe('a batch that does not agree with its hash', () => {
  const chain = Buffer.alloc(32, 1);
  const row = {
    shard: '0',
    lastPosition: '13',
    eventCount: '3',
    instance: '7',
    batchNo: '5',
    at: '1764000000000000',
    format: '1',
  };
  const events = '(100,a)\n(101,b)\n(102,c)';
  const stored = { ...row, chain: linkBatch(chain, { row: { ...row, chain }, events }) };
  const verify = (change: Partial<typeof stored>, lines = events) =>
    verifyBatch({ position: 10, chain }, { row: { ...stored, ...change }, events: lines });

  test('is named with its first damaged position, as far as its count shows it', () => {
    expect(verify({})).toBeNull();
    expect(verify({}, events.replace('b', 'x'))).toEqual({ position: 11, problem: 'hash differs' });
    expect(verify({}, '(101,b)\n(100,a)\n(102,c)')).toEqual({ position: 11, problem: 'hash differs' });
    expect(verify({}, '(100,a)\n(101,b)')).toEqual({ position: 13, problem: 'missing' });
    expect(verify({}, `${events}\n(100,d)`)).toEqual({ position: 14, problem: 'belongs to no batch' });
  });

  test.each([
    ['shard', '1'],
    ['instance', '8'],
    ['batchNo', '6'],
    ['at', '1764000000000001'],
  ])('is noticed where its %s was changed', (name, value) => {
    expect(verify({ [name]: value })).toEqual({ position: 11, problem: 'hash differs' });
  });

  test('is noticed where its row fits neither its place nor its format', () => {
    expect(verify({ lastPosition: '14' })).toEqual({ position: 11, problem: 'batch row disagrees' });
    expect(verify({ eventCount: '4' })).toEqual({ position: 11, problem: 'batch row disagrees' });
    expect(verify({ format: '2' })).toEqual({ position: 11, problem: 'unknown format' });
  });
});

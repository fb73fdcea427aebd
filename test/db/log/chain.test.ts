import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compositeText, verifyBatches } from '#db/log/chain.ts';
import { registerInstance } from '#db/instances/instance.ts';
import { verifyChain, readBatches, readRows } from '../../support/audit/verify-chain.ts';
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
    const [batches, rows] = [await readBatches(writer.client), await readRows(writer.client)];
    for (const [index, { lastPosition, chain }] of batches.entries()) {
      const position = Number(lastPosition);
      expect(verifyBatches({ position, chain }, batches.slice(index + 1), rows.slice(position))).toBeNull();
      const other = { position, chain: Buffer.alloc(32) };
      expect(
        index === 9 || verifyBatches(other, batches.slice(index + 1), rows.slice(position)) !== null,
      ).toBe(true);
    }
  });

  test('includes appends without the optional last arguments, whose events are read as written', async () => {
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
    expect((await readBatches(writer.client)).map(({ format }) => format)).toEqual(Array(7).fill('1'));
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
      { type: 'request.accepted', ...call, sse: true, body_bytes: 40, hold_tokens: 500, retry_count: 3 },
      {
        type: 'request.settled',
        ...call,
        end_reason: 'completed',
        usage_source: 'provider',
        upstream: 'one',
        status: 200,
        input_tokens: 10,
        cached_tokens: 4,
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

  test('hashes rows in the text form that Postgres produces', async () => {
    await using database = await createDatabase();
    const client = await connectAs(database, 'auditor');
    // White space of all kinds among it: Postgres takes some of it for a reason to quote, and other languages
    // take more.
    const white = fc.constantFrom(...'\t\n\v\f\r \u0085\u00a0\u1680\u2003\u2028\u3000\ufeff'.split(''));
    const field = fc.option(
      fc.string({
        unit: fc.oneof(
          fc.integer({ min: 1, max: 0x7f }).map((unit) => String.fromCharCode(unit)),
          white,
          fc.constantFrom('é', '漢', '😀'),
        ),
        maxLength: 8,
      }),
    );
    try {
      await fc.assert(
        fc.asyncProperty(fc.tuple(field, field, field), async (fields) => {
          const { rows } = await client.query<{ text: string }>(
            'select row($1::text, $2::text, $3::text)::text as text',
            fields,
          );
          expect(compositeText(fields)).toBe(rows[0]?.text);
        }),
      );
    } finally {
      await client.end();
    }
  });
});

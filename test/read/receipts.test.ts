import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { verifyMerkleInclusion } from '@sigstore/verify/dist/tlog/merkle.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { uuidv7 } from '#db/ids.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import {
  formatNote,
  formatVerifierKey,
  parseNote,
  parseVerifierKey,
  signerOf,
  signText,
} from '#db/tlog/note.ts';
import { verifyReceipt, type Receipt, ReceiptError } from '#db/tlog/receipt.ts';
import { chat } from '../support/client.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { addMember, setUp, visit } from '../support/dashboard.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, extended, openLivingWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { publishNow } from '../support/audit/publishing.ts';
import { type ApiReader, readerWith, type Refused } from '../support/reader.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Receipts of real calls, checked by whoever holds them with no server at hand. */

const newSigner = (name: string, kind: 'ed25519' | 'cosignature') =>
  signerOf(name, kind, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
const witness = newSigner('witness.example', 'cosignature');

let directory: string;
let upstream: ScriptedUpstream;
let relay: TestRelay;
let writer: Writer;
let reader: ApiReader;
/** The log's key, as its operator gives it. */
let key: string;

/** The account and the key that make them. */
let own: { account: string; key: string };

/** A request of each kind of ending, by what its receipt is to say. */
const requests = { completed: '', aborted: '', refused: '', extended: '', abandoned: '', corrected: '' };
type Kind = keyof typeof requests;

const call = (script: string, more: object = {}) =>
  chat({
    port: relay.port,
    key: relay.key,
    body: {
      model: `s:${script}`,
      stream: true,
      messages: [{ role: 'user', content: 'What is said stays out of it.' }],
    },
    ...more,
  });

async function publish(): Promise<void> {
  await projectAll(relay.store);
  await publishNow(relay.store, {
    keyFile: path.join(directory, 'key'),
    directory: path.join(directory, 'published'),
  });
}

beforeAll(async () => {
  directory = await makeTestDirectory();
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream], env: { WITNESSES: formatVerifierKey(witness) } });
  reader = readerWith(relay.port, relay.key);
  writer = await openLivingWriter(relay.store);

  requests.completed = (await call('tokens=5')).requestId as string;
  requests.aborted = (await call('tokens=500,every=5ms', { abortAfterTokens: 3 })).requestId as string;
  const first = (await relay.readLog()).find(({ event }) => event.type === 'request.accepted')?.event as {
    key: string;
    account: string;
  };
  own = { account: first.account, key: first.key };
  requests.refused = uuidv7();
  const [grown, lost] = [accepted(own), accepted(own)];
  [requests.extended, requests.abandoned] = [grown.request, lost.request];
  await writer.append([grown, lost]);
  await writer.append([
    extended(grown),
    {
      type: 'request.rejected',
      route: '/v1/chat/completions',
      request: requests.refused,
      ...own,
      error_code: 'rate_limit_exceeded',
      status: 429,
      rejected_count: 3,
    },
  ]);
  await writer.append([
    settled(grown, { cost_nanousd: 1_234, price_version: 7 }),
    {
      type: 'request.abandoned',
      request: lost.request,
      ...own,
      model: lost.model,
      hold_tokens: lost.hold_tokens,
      end_reason: 'abandoned',
      usage_source: 'estimated',
    },
  ]);
  const fixed = accepted(own);
  requests.corrected = fixed.request;
  await writer.append([fixed, settled(fixed, { cost_nanousd: 9 })]);
  await writer.correct([
    {
      type: 'usage.adjusted',
      request: fixed.request,
      ...own,
      model: fixed.model,
      end_reason: 'completed',
      cost_nanousd: -4,
      reference: 'bill 7',
      reason: 'billed twice',
      adjusted_by: 'test',
    },
  ]);
  await relay.waitFor((events) => events.filter(({ event }) => event.type === 'request.settled').length >= 4);
  await publish();
  const keys = await (await fetch(`http://127.0.0.1:${relay.port}/log/keys`)).text();
  key = keys.trim();
});
afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
  await removeTestDirectory(directory);
});

const receiptOf = async (request: string): Promise<{ text: string; receipt: Receipt }> => {
  const { status, text, json } = await reader.get<Receipt>(`/v1/requests/${request}/receipt`);
  expect([status, status === 200 ? '' : text]).toEqual([200, '']);
  return { text, receipt: json };
};

const line = commandLine(() => ({}));
/** Checks a receipt as its holder does. @returns what is printed. */
async function audit(
  text: string,
  ...args: string[]
): Promise<{ code: number; stdout: string; stderr: string }> {
  const file = path.join(directory, 'receipt.json');
  await writeFile(file, text);
  return line.daybook('audit', 'receipt', file, ...args);
}

describe('a receipt', () => {
  test.each<[Kind, string[], RegExp]>([
    [
      'completed',
      ['accepted', 'settled'],
      /settled \(completed\), status 200, by .*, as the provider reported/,
    ],
    ['aborted', ['accepted', 'settled'], /settled \(client_disconnected\)/],
    ['refused', ['refused'], /rejected with 429 rate_limit_exceeded .*, with 2 more requests/],
    ['extended', ['accepted', 'extended', 'settled'], /settled .*; \$0\.000001234 by price version 7/],
    ['abandoned', ['accepted', 'abandoned'], /abandoned because its server stopped/],
    [
      'corrected',
      ['accepted', 'settled', 'corrected'],
      /corrected by test, reference bill 7: cost_nanousd -4; "billed twice"/,
    ],
  ])(
    'of a request that was %s proves all of its events offline, in plain words',
    async (kind, types, words) => {
      const { text, receipt } = await receiptOf(requests[kind]);
      expect(receipt.events).toHaveLength(types.length);
      expect(receipt).toMatchObject({ request: requests[kind], has_all_events: true, keys: [key] });
      const { code, stdout, stderr } = await audit(text, '--key', key);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toMatch(words);
      expect(stdout).toContain(`Proven: `);
      expect(stdout).toContain(key);
      expect(stdout).not.toContain('Compare it');
      // Without a key of one's own it is only as good as the one in it, and that is said.
      expect((await audit(text)).stdout).toContain('That key came with the receipt');
    },
  );

  test.each<Kind>(['completed', 'aborted', 'refused'])(
    'of a request that was %s proves nothing any more with any byte of it changed',
    async (kind) => {
      const { text, receipt } = await receiptOf(requests[kind]);
      const known = { keys: [parseVerifierKey(key)], witnesses: [] };
      expect(verifyReceipt(JSON.parse(text), known).checkpoint.origin).toBe(receipt.log);
      const bytes = Buffer.from(text);
      const passed: string[] = [];
      for (let at = 0; at < bytes.length; at++) {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] as number) ^ ([1, 2, 0x20][at % 3] as number);
        try {
          verifyReceipt(JSON.parse(changed.toString()), known);
          passed.push(`byte ${at}: ${text.slice(Math.max(0, at - 20), at + 20)}`);
        } catch (error) {
          if (!(error instanceof ReceiptError || error instanceof SyntaxError)) throw error;
        }
        // The relay is in this process, and takes it for stopped where it never has its turn.
        if (at % 100 === 0) await setImmediate();
      }
      expect(passed).toEqual([]);
    },
  );

  test('with parts exchanged, missing or respelled is invalid, with the reason', async () => {
    const { receipt } = await receiptOf(requests.extended);
    const { receipt: other } = await receiptOf(requests.completed);
    const [first, middle, last] = receipt.events as [
      Receipt['events'][number],
      Receipt['events'][number],
      Receipt['events'][number],
    ];
    const otherLog = newSigner(receipt.log, 'ed25519');
    const forged = formatNote({
      text: parseNote(receipt.checkpoint).text,
      signatures: [signText(parseNote(receipt.checkpoint).text, otherLog)],
    });
    const wrong: [RegExp, unknown][] = [
      [/another request/, { ...receipt, request: other.request }],
      [/another request/, { ...receipt, events: [first, ...other.events.slice(1)] }],
      [/not those of a complete request/, { ...receipt, events: [first, middle] }],
      [/not those of a complete request/, { ...receipt, events: [middle, last] }],
      [/not those of a complete request/, { ...receipt, events: [first] }],
      [/not in the order/, { ...receipt, events: [last, middle, first] }],
      [/not in the order/, { ...receipt, events: [first, first, last] }],
      [
        /another position or index/,
        {
          ...receipt,
          events: [{ ...first, position: first.position + 1, index: first.index + 1 }, middle, last],
        },
      ],
      [
        /another position or index/,
        { ...receipt, events: [{ ...first, index: first.index + 1 }, middle, last] },
      ],
      [
        /not included in the log/,
        {
          ...receipt,
          events: [{ ...first, entry: first.entry.replace(',500,', ',400,') }, middle, last],
        },
      ],
      ...[`${first.entry} `, first.entry.slice(0, -1), '', '(0,1,2)', '{}'].map(
        (entry): [RegExp, unknown] => [
          /is not an entry of a log/,
          { ...receipt, events: [{ ...first, entry }, middle, last] },
        ],
      ),
      [/does not support/, { ...receipt, events: [{ ...first, format: '9' }, middle, last] }],
      [/names the log/, { ...receipt, log: 'daybook/another' }],
      [
        /is invalid/,
        {
          ...receipt,
          checkpoint: receipt.checkpoint.replace(
            `\n${String(verifyReceipt(receipt, { keys: [], witnesses: [] }).checkpoint.size)}\n`,
            '\n9999\n',
          ),
        },
      ],
      [/is invalid|not signed/, { ...receipt, checkpoint: forged }],
      [
        /not signed by the given key/,
        { ...receipt, checkpoint: forged, keys: [formatVerifierKey(otherLog)] },
      ],
      [
        /without a key in the file/,
        {
          ...receipt,
          checkpoint:
            receipt.checkpoint +
            formatNote({
              text: '',
              signatures: [signText('', newSigner('nobody.example', 'cosignature'))],
            }).trimStart(),
        },
      ],
      [/not a receipt of this format/, { ...receipt, more: true }],
      [/not a receipt of this format/, []],
    ];
    for (const [why, made] of wrong) {
      const { code, stdout } = await audit(JSON.stringify(made), '--key', key);
      expect([code, stdout]).toEqual([1, expect.stringMatching(why)]);
      expect(stdout).toMatch(/^Not proven: /);
    }
    expect((await audit('not JSON', '--key', key)).stdout).toBe('Not proven: not a receipt: invalid JSON.\n');
    // Under its own key a forged one is proven, and that is why one names the key that one knows.
    expect(
      (await audit(JSON.stringify({ ...receipt, checkpoint: forged, keys: [formatVerifierKey(otherLog)] })))
        .stdout,
    ).toContain('That key came with the receipt');
  });

  test('holds nothing of anybody else, and nothing that was said', async () => {
    const { text, receipt } = await receiptOf(requests.completed);
    expect(receipt.events.every((event) => event.entry.includes(requests.completed))).toBe(true);
    for (const another of [requests.aborted, requests.extended, 'What is said', relay.key])
      expect(text).not.toContain(another);
  });

  test('verifies in another implementation, in the tlog-proof format', async () => {
    const { status, text } = await reader.get(`/v1/requests/${requests.completed}/receipt?format=tlog-proof`);
    expect(status).toBe(200);
    const [head, note] = [text.slice(0, text.indexOf('\n\n')), text.slice(text.indexOf('\n\n') + 2)];
    const [format, extra = '', index = '', ...hashes] = head.split('\n');
    expect(format).toBe('c2sp.org/tlog-proof@v1');
    const { checkpoint } = openCheckpoint(note, [parseVerifierKey(key)]);
    const content = Buffer.from(extra.replace(/^extra /, ''), 'base64');
    expect(content.toString()).toContain(requests.completed);
    const inclusionProof = {
      logIndex: index.replace(/^index /, ''),
      rootHash: checkpoint.root,
      treeSize: String(checkpoint.size),
      hashes: hashes.map((each) => Buffer.from(each, 'base64')),
    };
    const head2 = { logSize: BigInt(checkpoint.size), logHash: checkpoint.root } as never;
    verifyMerkleInclusion({ canonicalizedBody: content, inclusionProof } as never, head2);
    expect(() =>
      verifyMerkleInclusion(
        { canonicalizedBody: Buffer.concat([content, Buffer.of(0)]), inclusionProof } as never,
        head2,
      ),
    ).toThrow();
  });

  test("includes witnesses' cosignatures; a missing one is reported", async () => {
    const bare = await receiptOf(requests.completed);
    const witnessKey = formatVerifierKey(witness);
    expect((await audit(bare.text, '--key', key, '--witness', witnessKey)).stdout).toBe(
      'Not proven: witness.example has not cosigned its checkpoint.\n',
    );
    const { text } = parseNote(bare.receipt.checkpoint);
    const cosigned = formatNote({ text, signatures: [signText(text, witness, 1_800_000_000)] });
    expect(
      (await fetch(`http://127.0.0.1:${relay.port}/log/cosignatures`, { method: 'POST', body: cosigned }))
        .status,
    ).toBe(200);
    // A newer checkpoint that nobody has cosigned yet does not take its place.
    await writer.append([accepted()]);
    await publish();
    const { text: full, receipt } = await receiptOf(requests.completed);
    expect(receipt.witnesses).toEqual([witnessKey]);
    const { code, stdout } = await audit(full, '--key', key, '--witness', witnessKey);
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining(`Cosigned by ${witnessKey} at 2027-01-15T08:00:00.000Z`),
    ]);
    const changed = full.replace(
      /(— witness\.example .{30})(.)/,
      (_all, before: string, one: string) => before + (one === 'A' ? 'B' : 'A'),
    );
    expect((await audit(changed, '--key', key)).code).toBe(1);
  });

  test('is rejected with invalid keys, never reported as proven', async () => {
    const { text } = await receiptOf(requests.completed);
    const empty = path.join(directory, 'empty');
    await writeFile(empty, '\n');
    for (const wrong of ['nonsense', key.slice(0, -2), formatVerifierKey(witness), empty]) {
      const { code, stdout, stderr } = await audit(text, '--key', wrong);
      expect([wrong, code, stdout]).toEqual([wrong, 1, '']);
      expect(stderr).toMatch(/key/);
    }
    const keys = path.join(directory, 'keys');
    await writeFile(keys, `${key}\n`);
    expect((await audit(text, '--key', keys)).code).toBe(0);
    expect(
      (await audit(text, '--key', formatVerifierKey(newSigner('other.example', 'ed25519')))).stdout,
    ).toContain('not signed by the given key');
  });
});

describe('whoever asks for a receipt', () => {
  const refusalOf = ({ status, json }: { status: number; json: Refused }): string =>
    `${status} ${json.error.code}`;

  test('with a key of another account gets the same as for what never was', async () => {
    await relay.createAccount('stranger');
    const { secret } = await relay.createKey({ account: 'stranger' });
    const stranger = readerWith(relay.port, secret);
    for (const id of [requests.completed, uuidv7(), 'nonsense']) {
      expect(refusalOf(await stranger.get(`/v1/requests/${id}/receipt?wait=0`))).toBe(
        '404 request_not_found',
      );
      expect(refusalOf(await stranger.get(`/v1/requests/${id}`))).toBe('404 request_not_found');
    }
    const sibling = readerWith(relay.port, (await relay.createKey()).secret);
    expect(refusalOf(await sibling.get(`/v1/requests/${requests.completed}/receipt?wait=0`))).toBe(
      '404 request_not_found',
    );
    const reply = await fetch(`http://127.0.0.1:${relay.port}/v1/requests/${requests.completed}/receipt`);
    expect(reply.status).toBe(401);
  });

  test("signed in sees those of the own account, and administrators everybody's", async () => {
    const place = `/api/v1/requests/${requests.completed}/receipt`;
    const [administrator, outsider, insider] = [
      await setUp(relay),
      await addMember(relay),
      await addMember(relay, { account: own.account }),
    ];
    await projectAll(relay.store);
    expect((await administrator.get<Receipt>(place)).body.request).toBe(requests.completed);
    expect((await insider.get<Receipt>(place)).status).toBe(200);
    expect(await outsider.get(`${place}?wait=0`)).toMatchObject({ status: 404, code: 'request_not_found' });
    expect(await visit(relay).get(place)).toMatchObject({ status: 401, code: 'unauthenticated' });
  });

  test('before a checkpoint covers the end is told to ask again, or waits for it', async () => {
    const { requestId } = await call('tokens=2');
    await relay.waitFor((events) =>
      events.some(({ event }) => event.type === 'request.settled' && event.request === requestId),
    );
    await projectAll(relay.store);
    const early = await reader.get(`/v1/requests/${requestId}/receipt?wait=0`);
    expect([refusalOf(early), early.headers.get('retry-after')]).toEqual(['409 receipt_not_ready', '5']);
    const waiting = reader.get<Receipt>(`/v1/requests/${requestId}/receipt`);
    await publish();
    expect(await waiting).toMatchObject({ status: 200, json: { request: requestId } });
    expect(refusalOf(await reader.get(`/v1/requests/${requestId}/receipt?wait=100`))).toBe(
      '400 invalid_value',
    );
  });

  test('while the request is under way is told so', async () => {
    const running = accepted(own);
    await writer.append([running]);
    await publish();
    const early = await reader.get(`/v1/requests/${running.request}/receipt?wait=0`);
    expect([refusalOf(early), early.json.error.message]).toEqual([
      '409 receipt_not_ready',
      expect.stringContaining('still running'),
    ]);
  });
});

import { hash, generateKeyPairSync } from 'node:crypto';
import path from 'node:path';
import { verifyCheckpoint } from '@sigstore/verify/dist/tlog/checkpoint.js';
import { verifyMerkleInclusion } from '@sigstore/verify/dist/tlog/merkle.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leafHash } from '#db/log/chain.ts';
import { type Checkpoint, openCheckpoint } from '#db/tlog/checkpoint.ts';
import {
  formatNote,
  formatSignature,
  formatVerifierKey,
  parseNote,
  parseVerifierKey,
  type Signer,
  signerOf,
  signText,
} from '#db/tlog/note.ts';
import { isConsistent } from '#db/tlog/proof.ts';
import { TILE_BYTES } from '#db/tlog/publish-directory.ts';
import { readEntries } from '../support/audit/verify-chain.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, connectAs, openLivingWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { publishNow } from '../support/audit/publishing.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';

/** What the log publishes of itself by HTTP, to whoever asks. */

const newSigner = (name: string, kind: 'ed25519' | 'cosignature'): Signer =>
  signerOf(name, kind, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
const witness = newSigner('witness.example', 'cosignature');

let relay: TestRelay;
let writer: Writer;
let directory: string;

beforeAll(async () => {
  directory = await makeTestDirectory();
  relay = await startRelay({
    env: {
      WITNESSES: [witness, newSigner('another.example', 'cosignature')].map(formatVerifierKey).join(', '),
    },
  });
  writer = await openLivingWriter(relay.store);
});
afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

const ask = (place: string, init?: RequestInit): Promise<Response> =>
  fetch(`http://127.0.0.1:${relay.port}${place}`, init);
const textOf = async (place: string): Promise<string> => {
  const reply = await ask(place);
  const text = await reply.text();
  expect([place, reply.status, text.slice(0, 200)]).toEqual([place, 200, text.slice(0, 200)]);
  return text;
};
const refusalOf = async (reply: Response): Promise<string> =>
  `${reply.status} ${((await reply.json()) as { error: { code: string } }).error.code}`;
const publish = async (): Promise<Checkpoint> =>
  (await publishNow(relay.store, {
    keyFile: path.join(directory, 'key'),
    directory: path.join(directory, 'published'),
  })) as Checkpoint;

async function grow(count: number): Promise<Checkpoint> {
  const calls = Array.from({ length: count }, () => accepted());
  await writer.append(calls);
  await writer.append(calls.map((each) => settled(each)));
  const checkpoint = await publish();
  // What is told may be a second old.
  await until(
    () => textOf('/log/checkpoint'),
    (note) => note.includes(`\n${checkpoint.size}\n`),
    'the newest checkpoint',
  );
  return checkpoint;
}

test('before the first checkpoint there is none, and that is said with when to ask again', async () => {
  for (const place of [
    '/log/checkpoint',
    '/log/keys',
    '/log/consistency?from=1&to=2',
    '/log/inclusion?position=1&size=1',
  ]) {
    const reply = await ask(place);
    expect(reply.headers.get('retry-after')).toBe('10');
    expect(await refusalOf(reply)).toBe('404 checkpoint_not_found');
  }
});

describe('with checkpoints', () => {
  const heads: Checkpoint[] = [];
  let leaves: { content: string; leaf: Buffer }[];

  beforeAll(async () => {
    for (const more of [3, 200, 190]) heads.push(await grow(more));
    const client = await connectAs(relay.store, 'auditor');
    const entries = await readEntries(client);
    await client.end();
    leaves = entries.map((content) => ({ content, leaf: leafHash(content) }));
  });
  const newest = (): Checkpoint => heads.at(-1) as Checkpoint;

  test('the newest checkpoint and its key verify in another implementation, uncached', async () => {
    const reply = await ask('/log/checkpoint');
    expect(Number(/max-age=(\d+)/.exec(reply.headers.get('cache-control') ?? '')?.[1])).toBeLessThanOrEqual(
      5,
    );
    expect(reply.headers.get('content-type')).toMatch(/^text\/plain/);
    const envelope = await reply.text();
    const [line = ''] = (await textOf('/log/keys')).split('\n');
    const key = parseVerifierKey(line);
    expect(openCheckpoint(envelope, [key]).checkpoint).toEqual(newest());
    const entry = { inclusionProof: { checkpoint: { envelope }, rootHash: newest().root } };
    const read = verifyCheckpoint(
      entry as never,
      [
        { logID: Buffer.from(key.keyId, 'hex'), publicKey: key.publicKey, baseURL: `https://${key.name}` },
      ] as never,
    );
    expect([read.logSize, Buffer.from(read.logHash)]).toEqual([BigInt(newest().size), newest().root]);
  });

  test('each published size is proved to continue each one before it, by hashes a line', async () => {
    for (const [at, newer] of heads.entries()) {
      for (const older of heads.slice(0, at + 1)) {
        const reply = await ask(`/log/consistency?from=${older.size}&to=${newer.size}`);
        expect(reply.headers.get('cache-control')).toContain('immutable');
        const proof = (await reply.text())
          .split('\n')
          .slice(0, -1)
          .map((hashOf) => Buffer.from(hashOf, 'base64'));
        expect(isConsistent(older, newer, proof)).toBe(true);
        if (older !== newer)
          expect(isConsistent({ ...older, root: Buffer.alloc(32) }, newer, proof)).toBe(false);
      }
    }
    expect(await textOf(`/log/consistency?from=0&to=${newest().size}`)).toBe('');
  });

  test('inclusion proofs verify in another implementation, for published sizes only', async () => {
    for (const [position, { size, root }] of [
      [1, heads[0]],
      [5, heads[1]],
      [256, newest()],
      [257, newest()],
      [newest().size, newest()],
    ] as [number, Checkpoint][]) {
      const proof = JSON.parse(await textOf(`/log/inclusion?position=${position}&size=${size}`)) as {
        index: number;
        leaf: string;
        proof: string[];
      };
      const { content, leaf } = leaves[position - 1] as (typeof leaves)[number];
      expect(proof).toMatchObject({ position, index: position - 1, size, leaf: leaf.toString('base64') });
      const inclusionProof = {
        logIndex: String(proof.index),
        rootHash: root,
        treeSize: String(size),
        hashes: proof.proof.map((each) => Buffer.from(each, 'base64')),
      };
      verifyMerkleInclusion(
        { canonicalizedBody: Buffer.from(content), inclusionProof } as never,
        { logSize: BigInt(size), logHash: root } as never,
      );
    }
    const { size } = newest();
    await writer.append([accepted()]);
    for (const place of [
      `/log/inclusion?position=1&size=${size + 1}`,
      `/log/inclusion?position=${size + 1}&size=${size}`,
      '/log/inclusion?position=0&size=1',
      '/log/inclusion?position=1',
      `/log/inclusion?position=1&size=1&size=1`,
      `/log/consistency?from=${size}&to=${size + 1}`,
      '/log/consistency?from=2&to=1',
      '/log/consistency?from=-1&to=1',
      '/log/consistency?from=1e400&to=1',
      '/log/checkpoint?size=1',
    ])
      expect([place, await refusalOf(await ask(place))]).toEqual([place, '400 invalid_value']);
  });

  test('the tiles of the tree have every leaf', async () => {
    const tile = async (name: string): Promise<Buffer> =>
      Buffer.from(await (await ask(`/log/tile/${name}`)).arrayBuffer());
    const all = Buffer.concat(leaves.map(({ leaf }) => leaf));
    expect((await tile('0/001')).equals(all.subarray(TILE_BYTES, 2 * TILE_BYTES))).toBe(true);
    expect(
      (await tile(`0/${String(Math.floor(newest().size / 256)).padStart(3, '0')}.p/5`)).equals(
        all.subarray(Math.floor(newest().size / 256) * TILE_BYTES).subarray(0, 5 * 32),
      ),
    ).toBe(true);
    expect(await tile('1/000.p/3')).toHaveLength(3 * 32);
    for (const [name, refusal] of [
      ['0/900', '400 invalid_value'],
      ['0/000.p/300', '404 route_not_found'],
      ['7/000', '404 route_not_found'],
      ['0/x999/x999/x999/x999/x999/999', '400 invalid_value'],
    ]) {
      expect([name, await refusalOf(await ask(`/log/tile/${name}`))]).toEqual([name, refusal]);
    }
  });

  describe('cosignatures', () => {
    const handIn = (body: string): Promise<Response> => ask('/log/cosignatures', { method: 'POST', body });
    const signedBy = async (signer: Signer, text?: string): Promise<string> => {
      const note = parseNote(await textOf('/log/checkpoint'));
      return formatNote({
        text: text ?? note.text,
        signatures: [...note.signatures.slice(0, 1), signText(text ?? note.text, signer, 1_800_000_000)],
      });
    };

    test('of a configured witness are served with the checkpoint, idempotently', async () => {
      const cosigned = await signedBy(witness);
      for (let again = 0; again < 3; again++) expect((await handIn(cosigned)).status).toBe(200);
      const [key = ''] = (await textOf('/log/keys')).split('\n');
      const { verified, note } = openCheckpoint(await textOf('/log/checkpoint'), [
        parseVerifierKey(key),
        witness,
      ]);
      expect(verified.map(({ verifier, timeSecs }) => [verifier.name, timeSecs]).slice(1)).toEqual([
        ['witness.example', 1_800_000_000],
      ]);
      expect(note.signatures).toHaveLength(2);
    });

    test('of unknown witnesses, other texts or changed bytes are rejected and not stored', async () => {
      const before = await textOf('/log/checkpoint');
      const { text } = parseNote(before);
      const otherKey = { ...newSigner('witness.example', 'cosignature'), keyId: witness.keyId };
      const wrong = [
        ['403 cosignature_rejected', await signedBy(newSigner('stranger.example', 'cosignature'))],
        ['403 cosignature_rejected', await signedBy(newSigner('witness.example', 'cosignature'))],
        ['403 cosignature_rejected', await signedBy(otherKey)],
        ['403 cosignature_rejected', before.replace(/\n— witness[^\n]*/, '')],
        [
          '403 cosignature_rejected',
          (await signedBy(witness)).replace(`\n${newest().size}\n`, `\n${newest().size - 1}\n`),
        ],
        [
          '409 cosignature_rejected',
          await signedBy(witness, text.replace(`\n${newest().size}\n`, `\n${newest().size - 1}\n`)),
        ],
        ['409 cosignature_rejected', await signedBy(witness, `${text}more\n`)],
        ['403 cosignature_rejected', 'no note at all'],
        ['403 cosignature_rejected', ''],
        [
          '413 request_too_large',
          `${await signedBy(witness)}${formatSignature(signText(text, witness, 5)).repeat(200)}`,
        ],
      ] as const;
      for (const [refusal, body] of wrong)
        expect([body.slice(0, 40), await refusalOf(await handIn(body))]).toEqual([
          body.slice(0, 40),
          refusal,
        ]);
      expect(await textOf('/log/checkpoint')).toBe(before);
    });
  });

  test('other methods are rejected with the allowed ones, and unknown paths with 404', async () => {
    for (const place of [
      '/log/checkpoint',
      '/log/keys',
      '/log/consistency',
      '/log/inclusion',
      '/log/tile/0/000',
    ]) {
      const reply = await ask(place, { method: 'DELETE' });
      expect(reply.headers.get('allow')).toBe('GET, HEAD');
      expect(await refusalOf(reply)).toBe('405 method_not_allowed');
    }
    expect(await refusalOf(await ask('/log/cosignatures'))).toBe('405 method_not_allowed');
    expect(await refusalOf(await ask('/log/entries', { headers: { accept: 'text/html' } }))).toBe(
      '404 route_not_found',
    );
  });

  test("a flood of anonymous requests is bounded and doesn't block keys' reads", async () => {
    const flood = Promise.all(
      Array.from({ length: 100 }, (_, at) =>
        ask(`/log/inclusion?position=${at + 1}&size=${newest().size}`).then(async (reply) =>
          reply.status === 200 ? '200' : refusalOf(reply),
        ),
      ),
    );
    const usage = await ask('/v1/requests?limit=1', { headers: { authorization: `Bearer ${relay.key}` } });
    expect(usage.status).toBe(200);
    expect(
      [...new Set(await flood)].filter((each) => !['200', '429 rate_limit_exceeded'].includes(each)),
    ).toEqual([]);
  });

  test('no reply tells anything that an event says', async () => {
    const places = [
      '/log/checkpoint',
      '/log/keys',
      `/log/inclusion?position=5&size=${newest().size}`,
      `/log/consistency?from=5&to=${newest().size}`,
    ];
    const told = (await Promise.all(places.map(textOf))).join('\n');
    for (const secret of ['Account1', 'Key00001', relay.account, relay.key])
      expect(told).not.toContain(secret);
    expect(hash('sha256', Buffer.from(`\0${(leaves[4] as { content: string }).content}`), 'base64')).toBe(
      (JSON.parse(await textOf(`/log/inclusion?position=5&size=${newest().size}`)) as { leaf: string }).leaf,
    );
  });
});

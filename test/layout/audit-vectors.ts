import { createPrivateKey } from 'node:crypto';
import { END_REASONS, USAGE_SOURCES } from '#db/events/endings.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { originOf } from '#db/fold/signing.ts';
import {
  type Batch,
  batchRowText,
  entriesOf,
  genesis,
  leafHash,
  LINE_FORMAT,
  linkBatch,
} from '#db/log/chain.ts';
import { FIELDS } from '#db/log/columns.ts';
import { textCell } from '#db/log/line.ts';
import { signCheckpoint } from '#db/tlog/checkpoint.ts';
import { encodeBundle } from '#db/tlog/entries.ts';
import { formatVerifierKey, signerOf } from '#db/tlog/note.ts';
import { GrowingTree } from '../support/audit/growing-tree.ts';

/** The test vectors of docs/audit-format.md, as docs/audit-vectors.json has them. */

const LOG_ID = '01900000-0000-7000-8000-0000000000aa';
/** An Ed25519 private key in PKCS #8: its fixed prefix, and 32 bytes that anyone may know. */
const PRIVATE_KEY = Buffer.concat([
  Buffer.from('302e020100300506032b657004220420', 'hex'),
  Buffer.alloc(32, 7),
]);

type Fields = Readonly<Record<string, string>>;
const call: Fields = {
  request: '01900000-0000-7000-8000-000000000001',
  account: 'Account1',
  key: 'Key00001',
  model: 'gpt-5',
};
const type = (name: keyof typeof EVENT_CODES): string => String(EVENT_CODES[name]);

/** Each batch with its events, which have every kind of field and of quoting. */
const BATCHES: readonly (readonly Fields[])[] = [
  [
    {
      type: type('account.registered'),
      account: 'Account1',
      stream: 'account/Account1',
      version: '1',
      body: '{"actor":"command-line","name":"caf\\u00e9, \\"north\\""}',
    },
  ],
  [
    {
      ...call,
      type: type('request.accepted'),
      route: '1',
      sse: 't',
      body_bytes: '40',
      hold_tokens: '9007199254740991',
    },
    {
      ...call,
      type: type('request.accepted'),
      sse: 'f',
      route: '4',
      body_bytes: '0',
      hold_tokens: '1',
      retry_count: '3',
    },
    { ...call, type: type('request.extended'), hold_tokens: '600', hold_cost_nanousd: '12' },
  ],
  [
    {
      ...call,
      model: 'a "b", \\c (d)',
      type: type('request.settled'),
      end_user: '0123456789abcdef',
      tags: '0123456789abcdef fedcba9876543210',
      upstream: 'openai',
      credential: 'Cred0001',
      status: '200',
      end_reason: String(END_REASONS.completed),
      usage_source: String(USAGE_SOURCES.provider),
      input_tokens: '10',
      cache_read_tokens: '4',
      output_tokens: '20',
      reasoning_tokens: '0',
      attempt_count: '1',
      first_byte_ms: '5',
      duration_ms: '50',
      cost_nanousd: '1234',
      answered_model: 'a-2026-11-01',
      body: '{"usage_details":{"web_searches":1}}',
      admitted_minute: '29500000',
      price_version: '2',
      terms_position: '0',
    },
    {
      ...call,
      model: '',
      type: type('request.abandoned'),
      end_reason: String(END_REASONS.abandoned),
      usage_source: String(USAGE_SOURCES.none),
      hold_tokens: '600',
    },
    {
      request: '01900000-0000-7000-8000-000000000002',
      account: 'Account1',
      key: 'Key00001',
      type: type('request.rejected'),
      route: '4',
      status: '429',
      rejected_count: '17',
      error_code: 'rate_limit_exceeded',
    },
  ],
];
const FIRST_AT_US = 1_770_000_000_000_000;
const BATCH_US = 1_500_001;

const lineOf = (fields: Fields): string =>
  `(${FIELDS.map(({ name }) => (fields[name] === undefined ? '' : textCell(fields[name]))).join(',')})`;

/** The vectors. Deterministic. */
export function auditVectors(): object {
  const origin = originOf(LOG_ID, 1);
  const pem = createPrivateKey({ key: PRIVATE_KEY, format: 'der', type: 'pkcs8' });
  const signer = signerOf(origin, 'ed25519', pem.export({ type: 'pkcs8', format: 'pem' }));
  const tree = new GrowingTree();
  const roots = [tree.root().toString('hex')];
  const events: { columns: Fields; entry: string; leaf: string }[] = [];
  const batches: { row: string; lines: string; chain: string }[] = [];
  let chain = genesis(LOG_ID);
  for (const [index, own] of BATCHES.entries()) {
    const batch: Batch = {
      row: {
        shard: '0',
        lastPosition: String(events.length + own.length),
        eventCount: String(own.length),
        instance: '3',
        batchNo: String(index + 1),
        at: String(FIRST_AT_US + index * BATCH_US),
        format: LINE_FORMAT,
        chain,
      },
      events: own.map(lineOf).join('\n'),
    };
    chain = linkBatch(chain, batch);
    batches.push({ row: batchRowText(batch.row), lines: batch.events, chain: chain.toString('hex') });
    const { shard, at, instance } = batch.row;
    for (const [number, entry] of entriesOf(batch).entries()) {
      const leaf = leafHash(entry);
      tree.append(leaf);
      roots.push(tree.root().toString('hex'));
      const columns = { shard, position: String(events.length + 1), at, instance, ...own[number] };
      events.push({ columns, entry, leaf: leaf.toString('hex') });
    }
  }
  const entries = events.map(({ entry }) => entry);
  return {
    log_id: LOG_ID,
    origin,
    verifier_key: formatVerifierKey(signer),
    genesis: genesis(LOG_ID).toString('hex'),
    events,
    batches,
    roots,
    checkpoint: signCheckpoint({ origin, size: tree.size, root: tree.root() }, [signer]),
    bundle: encodeBundle(entries, 1).toString('base64'),
  };
}

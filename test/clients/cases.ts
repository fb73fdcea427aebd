import { isDeepStrictEqual } from 'node:util';
import type { Turns } from './installed-clients.ts';
import type { ScriptedUpstream } from '../support/upstream/upstream.ts';

/** What each client has to do over each upstream, with base address and key changed and nothing else. */

/** Keys of the relay: one that may call, one that doesn't exist, and one without a unit of its quota left. */
export type Keys = { valid: string; wrong: string; spent: string };

export type Place = { baseUrl: string; keys: Keys; upstream: ScriptedUpstream; letter: string };

const TEXT = 'tok0 tok1 tok2 tok3 tok4 tok5 ';
const CALLS = [
  { name: 'tool_0', input: { text: 'tok0 tok1 tok2 tok3 ' } },
  { name: 'tool_1', input: { text: 'tok4 tok5 tok6 tok7 ' } },
];
/** Models that upstreams with the letter have, by the first letter of their names. */
export const SCRIPTS = { text: 'tokens=6,cached=2', long: 'tokens=500,every=5ms', cut: 'end=cut@3' };
/** Both turns of one conversation, for clients that call their tools themselves. */
const TURN = 'tokens=8,tools=2|tokens=6';
/** An upstream call that a client has left ends in milliseconds. */
const LEFT_MS_MAX = 10_000;
const CASE_MS_MAX = 60_000;

let turns = 0;

type Case = (client: Turns, place: Place) => Promise<string | null>;

/** Each gives what differs from what has to be, or null. */
const CASES: Readonly<Record<string, Case>> = {
  async chat(client, { baseUrl, keys, letter }) {
    const reply = await client.chat({ baseUrl, key: keys.valid }, `${letter}-text`);
    return reply.text === TEXT && (reply.outputTokens === 6 || reply.outputTokens === undefined)
      ? null
      : `another reply: ${JSON.stringify(reply)}`;
  },
  async stream(client, { baseUrl, keys, letter }) {
    const pieces = await client.stream({ baseUrl, key: keys.valid }, `${letter}-text`);
    return pieces.join('') === TEXT && pieces.length > 1 ? null : `other pieces: ${JSON.stringify(pieces)}`;
  },
  async 'parallel tools'(client, { baseUrl, keys, letter, upstream }) {
    turns += 1;
    const model = `${letter}-turn-${turns}`;
    upstream.script(model, TURN);
    const { calls, text } = await client.tools({ baseUrl, key: keys.valid }, model, `${letter}-text`);
    return isDeepStrictEqual(calls, CALLS) && text === TEXT
      ? null
      : `another turn: ${JSON.stringify({ calls, text })}`;
  },
  async abort(client, { baseUrl, keys, letter, upstream }) {
    const { length } = upstream.ledger.attempts;
    // Some report their own abort as an error.
    await client.abort({ baseUrl, key: keys.valid }, `${letter}-long`).catch(() => undefined);
    await within(
      LEFT_MS_MAX,
      upstream.ledger.until((rows) => rows.length > length && rows.at(-1)?.endedAt !== null),
    );
    const ended = upstream.ledger.attempts.at(-1)?.ended;
    return ended === 'client_closed' ? null : `the upstream call ended as ${ended ?? 'nothing'}`;
  },
  'wrong key': (client, { baseUrl, keys, letter }) =>
    rejected(
      client.chat({ baseUrl, key: keys.wrong }, `${letter}-text`),
      /401|invalid_api_key|Authentication/i,
    ),
  'spent quota': (client, { baseUrl, keys, letter }) =>
    rejected(client.chat({ baseUrl, key: keys.spent }, `${letter}-text`), /429|insufficient_quota|quota/i),
  'cut stream': (client, { baseUrl, keys, letter }) =>
    rejected(
      client.stream({ baseUrl, key: keys.valid }, `${letter}-cut`),
      /upstream_disconnected|before it was complete|terminated/,
    ),
};
export const CASE_NAMES = Object.keys(CASES);

/**
 * Runs the cases of a client over one upstream.
 * @param lacks cases of things that the client can't do.
 * @returns what failed, by the names of the cases.
 */
export async function runCases(
  client: Turns,
  place: Place,
  lacks: readonly string[],
): Promise<Map<string, string>> {
  const failed = new Map<string, string>();
  for (const [name, check] of Object.entries(CASES)) {
    if (lacks.includes(name)) continue;
    const fault = await within(CASE_MS_MAX, check(client, place)).catch((error: unknown) => textOf(error));
    if (fault !== null) failed.set(name, fault);
  }
  return failed;
}

async function rejected(call: Promise<unknown>, expected: RegExp): Promise<string | null> {
  try {
    return `no error, but ${JSON.stringify(await call)}`;
  } catch (error) {
    return expected.test(textOf(error)) ? null : `another error: ${textOf(error)}`;
  }
}

/** What an error says, with its status, code and cause, as far as it has them. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { status, statusCode, code, stderr, cause } = error as Error & Record<string, unknown>;
  return [error.name, status, statusCode, code, error.message, stderr, cause && textOf(cause)]
    .filter((part) => typeof part === 'string' || typeof part === 'number')
    .join(' ')
    .slice(-600);
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`nothing in ${ms} ms`)), ms);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

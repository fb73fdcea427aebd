import { isUtf8 } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ApiError } from '#server/errors/api-error.ts';
import { JSON_DEPTH_MAX } from '#server/wire/bounds.ts';
import { JsonError, scanObject } from '#server/wire/json.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';
import { parseCompletion, parseEmbeddings, parseMessage, parseResponse } from '#server/wire/route-parsers.ts';
import { bodyForUpstream } from '#server/wire/splice-body.ts';
import type { Random } from '../chaos/random.ts';
import { chance, jsonText, mutated, objectText, pick } from './pieces.ts';

/**
 * Random request bodies: the scanner accepts what JSON.parse accepts, no parser throws, and a body that is
 * changed for an upstream stays valid JSON with the changed members.
 */

const PARSERS = [parseChatCompletion, parseCompletion, parseEmbeddings, parseMessage, parseResponse];
const ROUNDS_PER_TURN = 200;
const VIOLATIONS_MAX = 20;

export type JsonReport = { bodies: number; accepted: number; violations: string[] };

/** `npm run fuzz -- json`. */
export async function run(random: Random, { ms }: { ms: number }): Promise<JsonReport> {
  const report: JsonReport = { bodies: 0, accepted: 0, violations: [] };
  const endMs = performance.now() + ms;
  while (performance.now() < endMs && report.violations.length < VIOLATIONS_MAX) {
    for (let round = 0; round < ROUNDS_PER_TURN; round++) check(bodyOf(random), random, report);
    await nextTurn();
  }
  return report;
}

function bodyOf(random: Random): Buffer {
  const members: Record<string, string> = { model: '"m"', messages: '[{"role":"user","content":"a"}]' };
  for (const name of ['prompt', 'input', 'stream', 'stream_options', 'max_tokens', 'n', 'background'])
    if (chance(random, 4)) members[name] = jsonText(random, 2);
  const text = chance(random, 5) ? jsonText(random) : objectText(random, members);
  const depth = JSON_DEPTH_MAX - 1 + random.below(4);
  const bytes = Buffer.from(chance(random, 20) ? `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}` : text);
  return mutated(random, bytes, 2);
}

function check(bytes: Buffer, random: Random, report: JsonReport): void {
  report.bodies++;
  const fail = (what: string): void => void report.violations.push(`${what}: ${bytes.toString('base64')}`);
  const truth = isUtf8(bytes) ? parsed(bytes) : undefined;
  const isObject = typeof truth === 'object' && truth !== null && !Array.isArray(truth);
  try {
    scanObject(bytes, []);
    if (!isObject) fail('the scanner accepts invalid JSON');
  } catch (error) {
    if (!(error instanceof JsonError)) fail(`the scanner throws ${String(error)}`);
    else if (isObject && error.problem !== 'too_deep') fail('the scanner rejects a JSON object');
  }
  const parse = pick(random, PARSERS);
  try {
    const asked = parse(bytes);
    if (asked instanceof ApiError) return;
    report.accepted++;
    const changes = { model: 'other', tokenLimit: 7, tokenLimitMember: 'max_tokens' } as const;
    const sent = parsed(bodyForUpstream({ bytes, slab: null }, asked, changes)) as
      | { model?: unknown }
      | undefined;
    if (sent?.model !== 'other') fail('the body for an upstream is not valid or lacks its model');
  } catch (error) {
    fail(`a parser throws ${String(error)}`);
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString()) as unknown;
  } catch {
    return undefined;
  }
}

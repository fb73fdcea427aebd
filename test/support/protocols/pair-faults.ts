import type { EventOf } from '#db/events/events.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import {
  BREAKAGES,
  FAULT_DEADLINES,
  type Fault,
  HEALTHY,
  needsDeadline,
  openRequests,
  settledOf,
  STATUSES,
} from '../faults.ts';
import { callPair, type Matrix, type Replied, startMatrix } from './pairs.ts';
import type { Pair } from './read-replies.ts';

/** The faults of an upstream of each protocol, for its own clients and those of each other protocol. */

const FAULTS: readonly Fault[] = [...BREAKAGES, ...STATUSES, ...HEALTHY];
/** A call on a connection that closes in that moment is lost. */
const CLOSING = /idle=/;
const QUICK_CALLS = 8;
/** A busy machine needs longer for the first bytes of some hundred replies at the same time. */
const DEADLINES = {
  ...FAULT_DEADLINES,
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '15000',
  UPSTREAM_TOTAL_TIMEOUT_MS: '24000',
};

type Case = Pair & { fault: string; isStreamed: boolean };
type Played = Case & { reply: Replied; settled: EventOf<'request.settled'> };

/**
 * Plays the faults. Each upstream's own clients see the faults of its share, and those of the other protocols
 * divide the same ones between them, or see all of them.
 * @param parts into which the faults are divided; 1: every pair sees every fault.
 * @returns differences from what the upstream's own clients saw, and what was left behind.
 */
export async function playPairFaults(
  parts: number,
  postgres: 'database' | 'embedded' = 'database',
): Promise<{ calls: number; violations: string[] }> {
  const matrix = await startMatrix(DEADLINES, postgres);
  const violations: string[] = [];
  try {
    const cases = casesOf(parts);
    // All calls of every upstream at the same time would be late.
    const waves =
      parts > 1 ? [cases] : PROTOCOLS.map((each) => cases.filter(({ upstream }) => upstream === each));
    const played = await playAll(matrix, waves);
    for (const each of played) violations.push(...differences(each, nativeOf(played, each)));
    violations.push(...(await leftBehind(matrix)));
    return { calls: played.length, violations };
  } finally {
    await matrix[Symbol.asyncDispose]();
  }
}

function casesOf(parts: number): Case[] {
  const scripts = FAULTS.map(({ script }) => script).filter((script) => !CLOSING.test(script));
  return PROTOCOLS.flatMap((upstream, turn) => {
    const own = scripts.filter((_, index) => index % parts === turn % parts);
    const others = PROTOCOLS.filter((client) => client !== upstream);
    const pairs = own.flatMap((fault, index) => {
      const clients = parts === 1 ? others : [others[index % others.length] as Protocol];
      return [upstream, ...clients].map((client) => ({ upstream, client, fault }));
    });
    return pairs.flatMap((pair) => [false, true].map((isStreamed) => ({ ...pair, isStreamed })));
  });
}

/** @param waves of cases, one after the other. */
async function playAll(matrix: Matrix, waves: readonly (readonly Case[])[]): Promise<Played[]> {
  const calls: Replying[] = [];
  for (const own of waves) {
    const left = own.filter(({ fault }) => !needsDeadline({ script: fault })).values();
    const turns = Array.from({ length: QUICK_CALLS }, async () => {
      for (const each of left) calls.push(await play(matrix, each));
    });
    const waiting = own
      .filter(({ fault }) => needsDeadline({ script: fault }))
      .map((each) => play(matrix, each));
    calls.push(...(await Promise.all(waiting)));
    await Promise.all(turns);
  }
  const events = await matrix.relay.waitFor((log) => openRequests(log).length === 0);
  const settlements = events.filter(({ event }) => event.type === 'request.settled');
  if (settlements.length !== calls.length)
    throw new Error(`${settlements.length} settlements of ${calls.length} calls`);
  return calls.map((call) => {
    const settled = settledOf(events, call.reply.requestId);
    if (!settled) throw new Error(`nothing is settled for the request ${call.reply.requestId}`);
    return { ...call, settled };
  });
}

type Replying = Case & { reply: Replied };
let models = 0;
async function play(matrix: Matrix, one: Case): Promise<Replying> {
  const model = `${one.upstream}-${models++}`;
  matrix.upstream.script(model, one.fault);
  return { ...one, reply: await callPair(matrix, one.client, model, one.isStreamed) };
}

const nativeOf = (played: readonly Played[], { upstream, fault, isStreamed }: Case): Played =>
  played.find(
    (each) =>
      each.upstream === upstream &&
      each.client === upstream &&
      each.fault === fault &&
      each.isStreamed === isStreamed,
  ) as Played;

/**
 * A translated reply that is an error under a status of success isn't passed on. A translated message is
 * complete with its stop reason, and its own clients need the last event.
 */
function differences(
  { upstream, client, fault, isStreamed, reply, settled }: Played,
  native: Played,
): string[] {
  const where = `${fault} of ${upstream} for ${client}, ${isStreamed ? 'streamed' : 'whole'}`;
  const of = ({ reply: { status, code }, settled: ended }: Pick<Played, 'reply' | 'settled'>): string => {
    const isHidden = status === 200 && !isStreamed && code !== null;
    const outcome = [isHidden ? 502 : status, code === null ? 'whole' : 'error', ended.end_reason];
    // How much of a slow reply has come at its deadline is a matter of time.
    const tokens = ended.end_reason === 'timed_out' ? '' : ended.output_tokens;
    return [...outcome, ended.usage_source, tokens].join(' ');
  };
  const isEnded = upstream === 'messages' && isStreamed && /@(?:finish|usage)|length=-/.test(fault);
  const ended = { ...native.settled, end_reason: 'completed' as const };
  const [own, theirs] = [
    of({ reply, settled }),
    isEnded && client !== upstream
      ? of({ reply: { ...native.reply, code: null }, settled: ended })
      : of(native),
  ];
  return own === theirs ? [] : [`${where}: ${own} instead of ${theirs}`];
}

async function leftBehind({ relay, upstream }: Matrix): Promise<string[]> {
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
  // A server stops only when nothing runs any more, and would wait for minutes.
  await relay.stop();
  const deadline = Date.now() + 10_000;
  while (upstream.connections > 0 && Date.now() < deadline)
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
  return upstream.connections === 0 ? [] : [`${upstream.connections} connections are left`];
}

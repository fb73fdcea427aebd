import { createSecret } from '#server/secrets/key-secret.ts';
import { ANSWER, type AgentModel, type AgentModelFault } from '../support/providers/agent-model.ts';
import { type TestRelay, until } from '../support/relay.ts';
import type { Ran } from './run.ts';

/** What goes wrong for an agent, beside the whole turn. */
export type AgentCase = {
  name: string;
  fault?: AgentModelFault;
  /** The key that it uses instead of a valid one. */
  key?(relay: TestRelay): Promise<string>;
  /** Whether the agent is interrupted, as by Ctrl+C, once its first call has reached the model. */
  isInterrupted?: true;
  /** What differs from the expected result; null: nothing. */
  faultOf(ran: Ran, model: AgentModel): string | null;
};

/** An agent may end with a status of 0 and an error in its output. */
function reports(ran: Ran, expected: RegExp): string | null {
  const isReported = expected.test(ran.output + ran.errors) && !ran.output.includes(ANSWER);
  return isReported ? null : `it reports: ${ran.output.slice(-300)} ${ran.errors.slice(-300)}`;
}

const rejectedWith =
  (expected: RegExp): AgentCase['faultOf'] =>
  (ran, { asked }) =>
    asked.length > 0 ? 'its call reached the model' : reports(ran, expected);

export const AGENT_CASES: readonly AgentCase[] = [
  {
    name: 'wrong key',
    key: () => Promise.resolve(createSecret('00000000')),
    faultOf: rejectedWith(/401|invalid.{0,10}key|key is invalid|authenticat/i),
  },
  { name: 'spent quota', key: spentKey, faultOf: rejectedWith(/429|quota|rate.?limit/i) },
  {
    name: 'cut stream',
    fault: 'cut',
    // It repeats the call and completes the turn, or it fails and doesn't claim an answer.
    faultOf(ran) {
      const isComplete = ran.output.includes(ANSWER) && ran.written === 'noon';
      const isFailed = ran.exitCode !== 0 && !ran.output.includes(ANSWER);
      const output = (ran.output + ran.errors).slice(-300);
      return isComplete || isFailed ? null : `it ended with ${ran.exitCode ?? 'a signal'}: ${output}`;
    },
  },
  {
    name: 'abort',
    fault: 'hang',
    isInterrupted: true,
    faultOf: (_, { asked }) =>
      asked.length > 0 && asked.every(({ isLeft, tool }) => isLeft || tool === null)
        ? null
        : 'its call went on at the model',
  },
];

/** A key of an account whose quota of one call is used up. */
async function spentKey(relay: TestRelay): Promise<string> {
  await relay.control((control) =>
    control.definePlan(
      'one-call',
      { quotas: [{ meter: 'requests', window: 'month', limit: 1, enforcement: 'hard' }] },
      'keep',
    ),
  );
  await relay.createAccount('spent');
  await relay.control((control) => control.setPlan('spent', 'one-call', 'keep'));
  const { secret } = await relay.createKey({ account: 'spent' });
  await until(
    () => statusOfCall(relay, secret),
    (status) => status === 429,
    'the end of the quota',
  );
  return secret;
}

async function statusOfCall(relay: TestRelay, key: string): Promise<number> {
  const reply = await fetch(`${relay.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: 'tide-1',
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Tides?' }],
    }),
  });
  await reply.text();
  return reply.status;
}

const ASKED_MS_MAX = 240_000;

/** Returns once the model was asked with a tool on offer, the agent has ended, or four minutes are over. */
export async function untilAsked({ asked }: AgentModel, ended: AbortSignal): Promise<void> {
  const end = AbortSignal.any([ended, AbortSignal.timeout(ASKED_MS_MAX)]);
  await until(
    () => Promise.resolve(end.aborted || asked.some(({ tool }) => tool !== null)),
    (isAsked) => isAsked,
    'the first call',
  );
}

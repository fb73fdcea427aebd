import { expect, test } from 'vitest';
import { HEARTBEAT_TOKENS_MIN, PROGRESS_CALLS_MAX } from '#server/instance/bounds.ts';
import { ProgressReport } from '#server/instance/call-progress.ts';
import { Registry } from '#db/registry.ts';
import type { RunningCall } from '#server/relay/relay.ts';

const PROMPT = 10;

function call(request: string, isStreamed = true): RunningCall & { relayedTokens: number } {
  return {
    request,
    relayedTokens: 0,
    chargeAt: (output: number) => (isStreamed ? { tokens: PROMPT + output, cost: 2 * output } : null),
  } as RunningCall & { relayedTokens: number };
}

function running(...calls: readonly RunningCall[]): Registry<RunningCall> {
  const registry = new Registry<RunningCall>();
  for (const each of calls) registry.add(each);
  return registry;
}

test('a running call is charged the relayed tokens and as many as since the last heartbeat', () => {
  const one = call('one');
  const report = new ProgressReport(running(one, call('json', false)));
  const tokensAt = (relayed: number): number | undefined => {
    one.relayedTokens = relayed;
    const [first, ...others] = report.read();
    expect(others).toEqual([]);
    return first?.tokens;
  };
  expect(tokensAt(0)).toBe(PROMPT + HEARTBEAT_TOKENS_MIN);
  expect(tokensAt(48)).toBe(PROMPT + 48 + HEARTBEAT_TOKENS_MIN);
  expect(tokensAt(2_048)).toBe(PROMPT + 2_048 + 2_000);
  expect(tokensAt(2_050)).toBe(PROMPT + 2_050 + HEARTBEAT_TOKENS_MIN);
});

test('a heartbeat reports the oldest calls up to its bound', () => {
  const calls = Array.from({ length: PROGRESS_CALLS_MAX + 1 }, (_, index) =>
    call(`${index}`.padStart(9, '0')),
  );
  const reported = new ProgressReport(running(...calls.toReversed())).read();
  expect(reported).toHaveLength(PROGRESS_CALLS_MAX);
  expect(reported[0]?.request).toBe('000000000');
});

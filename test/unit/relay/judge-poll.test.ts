import { expect, test } from 'vitest';
import type { BackgroundFacts } from '#server/stored/background-facts.ts';
import { readFacts, writeFacts } from '#server/stored/facts-json.ts';
import { judgePoll } from '#server/stored/judge-poll.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';

/** How a background response stands, by its provider's reply to a poll. */

const SIZE = { promptEstimate: 5, requestBytes: 100, outputLimit: null, choices: 1 };
const USAGE = { input_tokens: 4, output_tokens: 9, total_tokens: 13 };

const polled = (body: object, status = 200) => ({
  status,
  bytes: Buffer.from(JSON.stringify(body)),
  redactor: NOTHING_TO_REDACT,
});
const judge = (reply: ReturnType<typeof polled> | null, ageMs: number, outputMax: number | null = null) =>
  judgePoll(reply, { size: SIZE, outputMax }, ageMs);

test.each(['queued', 'in_progress'])(
  'a response that is %s is asked for again, less often with its age',
  (status) => {
    const reply = polled({ id: 'resp_1', status, output: [], usage: null });
    const next = [0, 100_000, 3_600_000].map((ageMs) => judge(reply, ageMs));
    expect(next).toEqual([1_000, 10_000, 30_000].map((nextMs) => ({ kind: 'running', nextMs })));
  },
);

test('a response that its provider never ends is lost after a day', () => {
  const reply = polled({ id: 'resp_1', status: 'in_progress', output: [] });
  expect(judge(reply, 24 * 3_600_000)).toEqual({ kind: 'lost' });
  expect(judge(null, 24 * 3_600_000)).toEqual({ kind: 'lost' });
});

test('a response that its provider does not know is lost after a minute, not before', () => {
  expect(judge(polled({}, 404), 59_000)).toMatchObject({ kind: 'running' });
  expect(judge(polled({}, 404), 60_000)).toEqual({ kind: 'lost' });
  expect(judge(polled({}, 500), 60_000)).toMatchObject({ kind: 'running' });
  expect(judge(null, 60_000)).toMatchObject({ kind: 'running' });
});

test('an ended response is charged its reported usage, and an unreported one no more than its limit', () => {
  const reported = judge(polled({ id: 'resp_1', status: 'completed', output: [], usage: USAGE }), 1, 2);
  expect(reported).toMatchObject({ end: { reason: 'completed', source: 'provider', usage: { output: 9 } } });
  const output = [{ type: 'message', content: [{ type: 'output_text', text: 'x'.repeat(400) }] }];
  const unreported = judge(polled({ id: 'resp_1', status: 'cancelled', output, usage: null }), 1, 2);
  expect(unreported).toMatchObject({
    end: { reason: 'client_disconnected', source: 'estimated', usage: { input: 5, output: 2 } },
  });
});

test('the facts of a call keep times without an end', () => {
  const facts = { price: { cost: { schedule: { rules: [{ from: -Infinity, to: Infinity }] } } } };
  expect(readFacts(writeFacts(facts as unknown as BackgroundFacts))).toEqual(facts);
});

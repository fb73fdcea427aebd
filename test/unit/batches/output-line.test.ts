import { expect, test } from 'vitest';
import { endOfLine, readOutputLine } from '#server/batches/output-line.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';
import { digestOf } from '../../support/batches/input.ts';

/** How a line of a batch ended, by its line of output. */

const LINE = {
  ...{ custom_id: digestOf('a'), request: '', model: 'm', body_bytes: 400, prompt_tokens: 90 },
  ...{ output_limit: 50, choices: 1, hold_tokens: 450, hold_cost_nanousd: null },
};
const USAGE = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
const CHAT = { id: 'chatcmpl-1', model: 'm-1', choices: [{ message: { content: 'x'.repeat(400) } }] };

function endOf(
  line: object,
  output: typeof LINE | (Omit<typeof LINE, 'output_limit'> & { output_limit: null }) = LINE,
) {
  const read = readOutputLine(Buffer.from(JSON.stringify({ custom_id: 'a', ...line })));
  expect(read?.customId).toBe(digestOf('a'));
  return read && endOfLine(read, output, '/v1/chat/completions', NOTHING_TO_REDACT);
}
const replied = (body: object, status_code = 200) => ({
  response: { status_code, request_id: 'req_1', body },
  error: null,
});

test('a reply is charged by its usage, in the service tier of batches', () => {
  expect(endOf(replied({ ...CHAT, service_tier: 'default', usage: USAGE }))).toMatchObject({
    ...{ reason: 'completed', source: 'provider', status: 200, usage: { input: 100, output: 20 } },
    facts: { serviceTier: 'batch', providerRequest: 'req_1', answeredModel: 'm-1' },
  });
});

test('a reply without usage is estimated, at most the limit of its line', () => {
  const end = endOf(replied(CHAT));
  expect(end).toMatchObject({ source: 'estimated', usage: { input: 90, output: 50 } });
  expect(endOf(replied(CHAT), { ...LINE, output_limit: null })?.usage.output).toBeGreaterThan(100);
});

test.each([
  [400, 'upstream_rejected'],
  [429, 'upstream_rejected'],
  [500, 'upstream_error'],
])('a reply with status %i is charged nothing', (status, reason) => {
  expect(endOf(replied({ error: { message: 'no' } }, status))).toMatchObject({
    status,
    reason,
    source: 'none',
  });
});

test.each([
  ['batch_expired', 504, 'timed_out'],
  ['batch_cancelled', 499, 'client_disconnected'],
  ['server_error', 502, 'upstream_error'],
])('an error %s in place of a reply is charged nothing', (code, status, reason) => {
  const end = endOf({ response: null, error: { code, message: 'no' } });
  expect(end).toMatchObject({ status, reason, source: 'none', usage: { input: 0, output: 0 } });
});

test.each(['', 'no JSON', '{}', '[1]', '{"custom_id":7}'])('%j is no line of output', (text) => {
  expect(readOutputLine(Buffer.from(text))).toBeNull();
});

import { describe, expect, test } from 'vitest';
import { type ErrorCode, ApiError } from '#server/errors/api-error.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';
import { RELAYED } from '#server/relay/routes.ts';

/** What is read of the requests beside chat completions, whose own test has all that is common to them. */

function parse(route: string, body: object): ParsedRequest | ApiError {
  const spec = RELAYED.get(route);
  if (typeof spec?.parse !== 'function') throw new Error(`there is no route ${route} that takes JSON`);
  return spec.parse(Buffer.from(JSON.stringify(body)));
}

describe('a body is refused with the field at fault', () => {
  test.each<[string, object, ErrorCode, string]>([
    ['/v1/completions', { prompt: 'x' }, 'missing_required_parameter', 'model'],
    ['/v1/completions', { model: 'm' }, 'missing_required_parameter', 'prompt'],
    ['/v1/completions', { model: 'm', prompt: {} }, 'invalid_value', 'prompt'],
    ['/v1/completions', { model: 'm', prompt: 'x', best_of: 0 }, 'invalid_value', 'best_of'],
    [
      '/v1/completions',
      { model: 'm', prompt: 'x', stream_options: 'usage' },
      'invalid_value',
      'stream_options',
    ],
    ['/v1/embeddings', { model: 'm' }, 'missing_required_parameter', 'input'],
    ['/v1/embeddings', { model: 'm', input: 4 }, 'invalid_value', 'input'],
    ['/v1/responses', { input: 'x' }, 'missing_required_parameter', 'model'],
    ['/v1/responses', { model: 'm', input: {} }, 'invalid_value', 'input'],
    ['/v1/responses', { model: 'm', input: 'x', stream: 'yes' }, 'invalid_value', 'stream'],
    [
      '/v1/responses',
      { model: 'm', input: 'x', max_output_tokens: -1 },
      'invalid_value',
      'max_output_tokens',
    ],
    ['/v1/responses', { model: 'm', input: 'x', background: 'yes' }, 'invalid_value', 'background'],
    ['/v1/messages', { model: 'm' }, 'missing_required_parameter', 'messages'],
    ['/v1/messages', { model: 'm', messages: 'x' }, 'invalid_value', 'messages'],
    ['/v1/messages', { model: 'm', messages: [], max_tokens: 'all' }, 'invalid_value', 'max_tokens'],
  ])('%s: %j', (route, body, code, param) => {
    expect(parse(route, body)).toMatchObject({ code, param });
  });
});

describe('what a call asks for', () => {
  test.each<[string, object, Partial<ParsedRequest>]>([
    [
      '/v1/completions',
      { model: 'm', prompt: 'x' },
      { sse: false, includeUsage: false, completionLimit: null, choices: 1 },
    ],
    [
      '/v1/completions',
      { model: 'm', prompt: 'x', stream: true, stream_options: { include_usage: true }, max_tokens: 5 },
      { sse: true, includeUsage: true, completionLimit: 5 },
    ],
    ['/v1/completions', { model: 'm', prompt: ['x', 'y', 'z'], n: 2, best_of: 4 }, { choices: 12 }],
    ['/v1/completions', { model: 'm', prompt: [1, 2, 3], n: 2 }, { choices: 2 }],
    ['/v1/completions', { model: 'm', prompt: [[1], [2]], n: 2 }, { choices: 4 }],
    ['/v1/completions', { model: 'm', prompt: [] }, { choices: 1 }],
    [
      '/v1/embeddings',
      { model: 'm', input: ['x', 'y'], stream: true, max_tokens: 9 },
      { sse: false, completionLimit: 0, choices: 1 },
    ],
    [
      '/v1/responses',
      { model: 'm', input: 'x', stream: true, max_output_tokens: 7, background: false },
      { sse: true, includeUsage: true, completionLimit: 7 },
    ],
    ['/v1/responses', { model: 'm', background: null }, { sse: false, completionLimit: null }],
    [
      '/v1/messages',
      { model: 'm', messages: [], max_tokens: 7, stream: true },
      { sse: true, includeUsage: true, completionLimit: 7 },
    ],
  ])('%s: %j', (route, body, expected) => {
    const asked = parse(route, body);
    expect(asked).not.toBeInstanceOf(ApiError);
    expect(asked).toMatchObject(expected);
  });

  test.each<[string, object, 'kept' | 'refers' | undefined]>([
    ['/v1/responses', { input: 'x' }, 'kept'],
    ['/v1/responses', { input: 'x', store: true }, 'kept'],
    ['/v1/responses', { input: 'x', store: false }, undefined],
    ['/v1/responses', { input: 'x', store: false, previous_response_id: 'resp_1' }, 'refers'],
    ['/v1/responses', { input: 'x', store: false, previous_response_id: null }, undefined],
    ['/v1/responses', { input: 'x', conversation: { id: 'conv_1' } }, 'refers'],
    ['/v1/responses', { input: [{ type: 'item_reference', id: 'msg_1' }] }, 'refers'],
    ['/v1/messages', { messages: [] }, undefined],
    ['/v1/messages', { messages: [], thread: { type: 'create' } }, 'refers'],
    ['/v1/messages', { messages: [], container: 'container_1' }, 'refers'],
    ['/v1/chat/completions', { messages: [], store: true }, undefined],
  ])('%s %j: stored content %s', (route, body, storage) => {
    expect((parse(route, { model: 'm', ...body }) as ParsedRequest).storage).toBe(storage);
  });
});

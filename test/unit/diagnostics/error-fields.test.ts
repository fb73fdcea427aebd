import { DatabaseError } from 'pg';
import { describe, expect, it } from 'vitest';
import { ERROR_CAUSES_MAX, ERROR_MESSAGE_CHARACTERS_MAX } from '#db/diagnostics/bounds.ts';
import {
  errorFields,
  errorLine,
  faultFields,
  type LoggedError,
  scrub,
} from '#db/diagnostics/error-fields.ts';
import { isStreamError } from '#db/diagnostics/process-faults.ts';

const KEY = `dbk_9mXJ2b7fHq0Z_${'aB3'.repeat(14)}x_1Qz9aB`;

const databaseError = (code: string, message: string): DatabaseError =>
  Object.assign(new DatabaseError(message, message.length, 'error'), {
    code,
    detail: 'Key (email)=(a@b.example)',
  });

class NamedByItsClassError extends Error {}

describe('the fields of an error', () => {
  it('are its class, its code, its message and its causes', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' });
    expect(errorFields(new TypeError('fetch failed', { cause }))).toEqual({
      error: {
        name: 'TypeError',
        message: 'fetch failed',
        cause: { name: 'Error', code: 'ECONNREFUSED', message: 'connect ECONNREFUSED 127.0.0.1:5432' },
      },
    });
  });
  it('name the class where the error itself has a general name', () => {
    expect(errorFields(new NamedByItsClassError('x')).error.name).toBe('NamedByItsClassError');
    expect(errorFields(databaseError('57P01', 'terminating connection')).error).toEqual({
      name: 'DatabaseError',
      code: '57P01',
      message: 'terminating connection',
    });
  });
  it('name the first address of a host that was not reached at any', () => {
    const each = Object.assign(new Error('connect ECONNREFUSED ::1:1'), { code: 'ECONNREFUSED' });
    expect(errorFields(new AggregateError([each])).error.cause?.code).toBe('ECONNREFUSED');
  });
  it('name the type of a value that is no error', () => {
    expect(errorFields(null)).toEqual({ error: { name: 'null' } });
    expect(errorFields('sk-secret')).toEqual({ error: { name: 'string' } });
  });
  it('follow causes as far as their bound, also in a circle', () => {
    const error = new Error('round');
    error.cause = error;
    let depth = 0;
    let at: LoggedError | undefined = errorFields(error).error;
    for (; at; at = at.cause) depth++;
    expect(depth).toBe(ERROR_CAUSES_MAX + 1);
  });
  it('have the frames of a fault of the program, without its message', () => {
    const { stack } = faultFields(new Error('at first\n    at a secret place')).error;
    expect(stack?.length).toBeGreaterThan(0);
    expect(stack?.every((frame) => frame.startsWith('at '))).toBe(true);
  });
});

describe('the message of an error', () => {
  it.each([
    ['a key of ours', `no account for ${KEY}`, 'no account for [credential]'],
    [
      'a key of a provider',
      'Incorrect API key provided: sk-proj-abcDEF123456',
      'Incorrect API key provided: [credential]',
    ],
    ['a bearer token', 'authorization: Bearer abc.def', 'authorization: Bearer [credential]'],
    ['a password in an address', 'postgres://u:pa/ss@db:5432/x failed', 'postgres://db:5432 failed'],
    ['a query', 'GET https://h.example/v1?key=abc refused', 'GET https://h.example refused'],
    ['an email address', 'no mailbox ann.lee+x@mail.example.com here', 'no mailbox [email] here'],
    ['a digest', `key ${'0f'.repeat(32)} unknown`, 'key [redacted] unknown'],
    ['control characters', 'one\r\ntwo\u2028three', 'one two three'],
  ])('is without %s', (_what, text, scrubbed) => expect(scrub(text)).toBe(scrubbed));

  it.each([
    'request 01990a5e-7c3b-7d62-9a41-6f1e0b7a2c11 unknown',
    'canceling statement due to statement timeout',
    'relation "daybook.log_000000_pkey" does not exist',
    "ENOENT: no such file or directory, open '/var/lib/daybook/pepper'",
  ])('keeps "%s"', (text) => expect(scrub(text)).toBe(text));

  it('does not quote input', () => {
    let parse: unknown;
    try {
      JSON.parse('{"prompt": my secret}');
    } catch (error) {
      parse = error;
    }
    expect(JSON.stringify(errorFields(parse))).not.toContain('secret');
    const value = databaseError('22P02', 'invalid input syntax for type integer: "my secret"');
    expect(JSON.stringify(errorFields(value))).not.toMatch(/secret|a@b/);
    const provider = Object.assign(new Error('my secret'), { name: 'AI_APICallError' });
    expect(errorFields(provider)).toEqual({ error: { name: 'AI_APICallError' } });
  });
  it('is bounded, and long ones cost no more', () =>
    expect(scrub('word '.repeat(1_000_000)).length).toBeLessThanOrEqual(ERROR_MESSAGE_CHARACTERS_MAX));
  it('stands in one line with its cause, for commands', () => {
    const cause = Object.assign(new Error('disk full'), { code: 'ENOSPC' });
    expect(errorLine(new Error('writing failed', { cause }))).toBe(
      'Error: writing failed (ENOSPC: disk full)',
    );
  });
});

describe('an error without a handler', () => {
  const pipe = Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' });

  it('ends no process if a stream emitted it', () =>
    expect(isStreamError(pipe, 'uncaughtException')).toBe(true));
  it.each([
    ['a rejection', pipe, 'unhandledRejection'],
    ['a fault of the program', new TypeError('x is undefined'), 'uncaughtException'],
    ['a value that is no error', 'EPIPE', 'uncaughtException'],
  ] as const)('ends the process if it is %s', (_what, error, origin) =>
    expect(isStreamError(error, origin)).toBe(false),
  );
});

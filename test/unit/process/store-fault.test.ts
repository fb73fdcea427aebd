import { DatabaseError } from 'pg';
import { expect, test } from 'vitest';
import { isStoreFault } from '#server/errors/store-fault.ts';

const ofPostgres = (code: string): DatabaseError =>
  Object.assign(new DatabaseError('said', 4, 'error'), { code });
const ofSystem = (code: string, more: object = {}): Error =>
  Object.assign(new Error('said'), { code, ...more });

test('a store that is away, too slow or too busy is told by Postgres, by its client and by sockets', () => {
  const faults = [
    ...['57P01', '53300', '40P01', '25P03'].map(ofPostgres),
    new Error('Connection terminated unexpectedly'),
    new Error('timeout expired'),
    new Error('Query read timeout'),
    ofSystem('ECONNRESET'),
    ofSystem('ENOENT', { syscall: 'connect' }),
    new AggregateError([ofSystem('ECONNREFUSED'), ofSystem('ECONNREFUSED')]),
  ];
  for (const fault of faults) expect([fault, isStoreFault(fault)]).toEqual([fault, true]);
});

test('a fault of ours is none of the store, however plain', () => {
  const ours = [
    ofPostgres('42703'),
    ofPostgres('23505'),
    new Error('the store granted less than it gave'),
    new TypeError('timeout expired of undefined'),
    ofSystem('ENOENT', { syscall: 'open' }),
    new AggregateError([ofSystem('ECONNREFUSED'), new TypeError('ours')]),
    'Connection terminated',
    null,
  ];
  for (const fault of ours) expect([fault, isStoreFault(fault)]).toEqual([fault, false]);
});

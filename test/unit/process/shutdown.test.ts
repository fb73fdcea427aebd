import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { LAME_DUCK_DEFAULT_MS, REPEATED_SIGNAL_MS } from '#server/process/bounds.ts';
import { type StopRequest, StopRequests } from '#server/process/shutdown.ts';
import { ROOT } from '../../layout/source.ts';

const actionsOf = (received: [StopRequest, number][]): string[] => {
  const requests = new StopRequests();
  return received.map(([request, atMs]) => requests.receive(request, atMs));
};
const LATER = REPEATED_SIGNAL_MS;

describe('requests to stop', () => {
  test.each<[string, [StopRequest, number][], string[]]>([
    ['Ctrl-C', [['SIGINT', 0]], ['stop']],
    [
      'Ctrl-C, which npm passes on',
      [
        ['SIGINT', 0],
        ['SIGINT', 4],
      ],
      ['stop', 'ignore'],
    ],
    [
      'a closed terminal',
      [
        ['SIGHUP', 0],
        ['SIGHUP', 1],
        ['npm', 300],
        ['SIGHUP', 5_000],
      ],
      ['stop', 'ignore', 'ignore', 'ignore'],
    ],
    [
      'SIGTERM to the group',
      [
        ['SIGTERM', 0],
        ['SIGTERM', 1],
        ['npm', 400],
      ],
      ['stop', 'ignore', 'ignore'],
    ],
    [
      'SIGTERM to npm',
      [
        ['npm', 0],
        ['SIGTERM', 1],
      ],
      ['stop', 'wait'],
    ],
    [
      'a lost npm before its signals',
      [
        ['npm', 0],
        ['SIGHUP', 2],
        ['SIGTERM', 3],
      ],
      ['stop', 'ignore', 'wait'],
    ],
    [
      'Ctrl-C, then a closed terminal',
      [
        ['SIGINT', 0],
        ['SIGHUP', 9_000],
        ['npm', 9_100],
      ],
      ['stop', 'ignore', 'ignore'],
    ],
    [
      'Ctrl-C twice',
      [
        ['SIGINT', 0],
        ['SIGINT', LATER],
      ],
      ['stop', 'cut'],
    ],
    [
      'SIGTERM, then Ctrl-C',
      [
        ['SIGTERM', 0],
        ['SIGINT', LATER],
      ],
      ['stop', 'cut'],
    ],
    [
      'a closed terminal, then SIGTERM twice',
      [
        ['SIGHUP', 0],
        ['SIGTERM', 9_000],
        ['SIGTERM', 9_000 + LATER],
      ],
      ['stop', 'wait', 'cut'],
    ],
    [
      'Ctrl-C again and again',
      [
        ['SIGINT', 0],
        ['SIGINT', LATER],
        ['SIGINT', 9_000],
      ],
      ['stop', 'cut', 'ignore'],
    ],
  ])('%s', (_, received, actions) => {
    expect(actionsOf(received)).toEqual(actions);
  });
});

test('the lame-duck time is longer than the front takes to notice that a server is not ready', () => {
  const front = readFileSync(path.join(ROOT, 'deploy/haproxy.cfg'), 'utf8');
  const [, inter = '', fall = ''] = /check inter (\d+)s fall (\d+)/.exec(front) ?? [];
  // The first check may come a whole interval after the signal.
  expect(LAME_DUCK_DEFAULT_MS).toBeGreaterThan(Number(inter) * 1_000 * (Number(fall) + 1));
});

import { expect, test } from 'vitest';
import { databaseGround } from '../chaos/ground.ts';
import { revokeSockets } from '../chaos/revoke-sockets.ts';

test(
  'the revocation of a key ends its WebSocket connections at three server processes',
  { timeout: 240_000 },
  async () => {
    await using ground = await databaseGround();
    const verdict = await revokeSockets(ground, { n: 1 });
    expect(verdict.violations).toEqual([]);
    expect(verdict.connections).toBe(6);
  },
);

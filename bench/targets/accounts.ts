import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runProgram } from '#server/cli/program.ts';
import { createSecret } from '#server/secrets/key-secret.ts';
import { plainEnvironment } from '../machine/programs.ts';
import { NEAR_LIMIT_TOKENS } from './near.ts';
import type { Running } from './target.ts';

const SUSPENDED = 'bench-suspended';
const FAR = 1e15;

/** What an installation in use has: every kind of limit in force, and none of them in reach. */
const PLAN = {
  models: ['mock-*'],
  routes: ['/v1/chat/completions', '/v1/models', '/v1/usage', '/v1/requests', '/v1/live'],
  requests_per_minute: FAR,
  tokens_per_minute: FAR,
  concurrent_requests: 10_000,
  quotas: [
    { meter: 'tokens', window: 'day', limit: FAR, enforcement: 'soft' },
    { meter: 'cost_nanousd', window: 'month', limit: FAR, enforcement: 'soft' },
  ],
};

/** What narrows the one key further: it is asked of and charged beside its account. */
const KEY_TERMS = {
  models: ['mock-json*'],
  networks: ['127.0.0.0/8'],
  requests_per_minute: FAR,
  quotas: [{ meter: 'tokens', window: 'week', limit: FAR, enforcement: 'soft' }],
};

/** In place of the plan's quotas. A month, since a run should not meet the end of its window. */
const NEAR_TERMS = {
  quotas: [{ meter: 'tokens', window: 'month', limit: NEAR_LIMIT_TOKENS, enforcement: 'hard' }],
};

export type Accounts = {
  authorization: Running['authorization'];
  /** The last change of all: a server that acts on it has read everything before it. */
  suspend: () => Promise<void>;
};

/**
 * Makes the accounts and keys that the driver uses, by the commands that an administrator has, run in this
 * process.
 * @param directory where the files of terms may be written.
 */
export async function makeAccounts(
  directory: string,
  environment: Record<string, string>,
): Promise<Accounts> {
  const command = async (...args: string[]): Promise<unknown> => {
    let printed = '';
    let complaint = '';
    const code = await runProgram(['--json', ...args], {
      env: { ...plainEnvironment(), ...environment },
      out: (text) => (printed += text),
      err: (text) => (complaint += text),
    });
    if (code !== 0) throw new Error(`daybook ${args.join(' ')} failed: ${complaint}`);
    return JSON.parse(printed || 'null');
  };
  const fileOf = (name: string, terms: object): string => {
    const file = join(directory, name);
    writeFileSync(file, JSON.stringify(terms));
    return file;
  };
  const account = async (name: string, plan: string | null): Promise<{ id: string; key: string }> => {
    await command('account', 'create', name);
    if (plan !== null) await command('account', 'set-plan', name, plan);
    return (await command('key', 'create', '--account', name)) as { id: string; key: string };
  };

  await Promise.all([
    command('plan', 'define', 'bench', '--file', fileOf('plan.json', PLAN)),
    command('price', 'set', 'mock-*', '--input', '2.50', '--cache-read', '1.25', '--output', '10'),
  ]);
  const [limited, near, unlimited, suspended] = await Promise.all([
    account('bench', 'bench'),
    account('bench-near', 'bench'),
    account('bench-unlimited', null),
    account(SUSPENDED, null),
  ]);
  const restricted = (await command('key', 'create', '--account', 'bench')) as { id: string; key: string };
  await Promise.all([
    command('key', 'restrict', restricted.id, '--file', fileOf('key.json', KEY_TERMS)),
    command('account', 'override', 'bench-near', '--file', fileOf('near.json', NEAR_TERMS)),
  ]);
  return {
    authorization: {
      limited: `Bearer ${limited.key}`,
      restricted: `Bearer ${restricted.key}`,
      unlimited: `Bearer ${unlimited.key}`,
      near: `Bearer ${near.key}`,
      missing: null,
      // The dearest 401: the form, the checksum and the id are right, so the digest must be compared.
      wrong: `Bearer ${createSecret(limited.id)}`,
      suspended: `Bearer ${suspended.key}`,
    },
    suspend: async () => {
      await command('account', 'suspend', SUSPENDED);
    },
  };
}

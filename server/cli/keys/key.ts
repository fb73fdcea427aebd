import { randomUUID } from 'node:crypto';
import type { Command } from '#db/command-line/command.ts';
import { showTable } from '#db/command-line/table.ts';
import { KeyName } from '#db/events/parts.ts';
import { type KeyTerms } from '#db/events/events.ts';
import { keyState } from '#db/fold/key.ts';
import { checkCommand } from '#server/cli/keys/key-check.ts';
import { parseTime, restrictCommand } from '#server/cli/keys/key-restrict.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { CreatedKey, KeyRow } from '#server/contract/keys.ts';
import type { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { loadPepper } from '#server/secrets/pepper.ts';

/** `daybook key …` */
export function keyCommands(program: Command): void {
  const key = program.command('key').description('API keys of accounts');

  withServer(key.command('create'))
    .description('create a key and print its secret, which is shown once')
    .requiredOption('--account <name>', 'the account that owns it')
    .option('--name <name>', 'a name that says what the key is for', 'key')
    .option('--expires <time>', 'when the key expires, as ISO 8601, such as 2027-01-31T00:00:00Z')
    .action((options: { account: string; name: string; expires?: string }, command: Command) =>
      run(
        command,
        async ({ config, control, client }) => {
          const { id, secret } = await control.createKey(await loadPepper(client, config), {
            account: options.account,
            name: checkName(options.name),
            expiresAt: options.expires === undefined ? null : parseTime(options.expires),
          });
          return { id, key: secret };
        },
        showSecret,
        {
          async remote(api) {
            const { id, secret } = await api.post<CreatedKey>('keys', {
              name: checkName(options.name),
              account: (await api.account(options.account)).id,
              expires_at: options.expires && parseTime(options.expires).toISOString(),
            });
            return { id, key: secret };
          },
        },
      ),
    );

  withServer(key.command('rotate').argument('<id>', "the key's id"))
    .description('rotate the secret of a key and print the new one, which is shown once')
    .option('--overlap <duration>', 'how long the old secret stays valid: 0, 30m, 1h, 7d, at most 30d', '0')
    .action((id: string, options: { overlap: string }, command: Command) =>
      run(
        command,
        async ({ config, control, client }) => {
          const { secret } = await control.rotateKey(
            await loadPepper(client, config),
            id,
            parseDuration(options.overlap),
          );
          return { id, key: secret };
        },
        showSecret,
        {
          async remote(api) {
            const { secret } = await api.post<CreatedKey>(`keys/${encodeURIComponent(id)}/rotate`, {
              overlap_s: parseDuration(options.overlap) / UNIT_MS.s,
              rotation: randomUUID(),
            });
            return { id, key: secret };
          },
        },
      ),
    );

  withServer(key.command('revoke').argument('<id>', "the key's id"))
    .description('revoke a key permanently')
    .action((id: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          await control.revokeKey(id);
          return { id, state: 'revoked' };
        },
        () => `Key ${id} is revoked. Running servers reject it within a second.`,
        {
          async remote(api) {
            await api.post(`keys/${encodeURIComponent(id)}/revoke`);
            return { id, state: 'revoked' };
          },
        },
      ),
    );

  restrictCommand(key);
  checkCommand(key);

  withServer(key.command('list'))
    .description('list keys, without secrets')
    .action((_options: unknown, command: Command) =>
      run(command, ({ control }) => listKeys(control), showKeys, {
        remote: async (api) => (await api.list<KeyRow>('keys')).map(listed).toReversed(),
      }),
    );
}

type Listed = {
  id: string;
  account: string;
  name: string;
  last4: string;
  state: string;
  created_at: string;
  expires_at: string | null;
  overlap_ends_at: string | null;
  /** Its restrictions; empty: none beyond those of its account. */
  terms: KeyTerms;
};

async function listKeys(control: Control): Promise<Listed[]> {
  const model = await control.load();
  const now = new Date(model.nowMs());
  return [...model.keys].map((key) => {
    const state = keyState(key, now);
    return {
      id: key.id,
      account: model.account(key.account)?.name ?? key.account,
      name: key.name,
      last4: key.secret.last4,
      state,
      created_at: key.createdAt.toISOString(),
      expires_at: key.expiresAt?.toISOString() ?? null,
      overlap_ends_at: state === 'rotating' ? (key.previous?.endsAt.toISOString() ?? null) : null,
      terms: key.terms ?? {},
    };
  });
}

const listed = (row: KeyRow): Listed => ({
  id: row.id,
  account: row.account_name,
  name: row.name,
  last4: row.last4,
  state: row.state,
  created_at: row.created_at,
  expires_at: row.expires_at,
  overlap_ends_at: row.overlap_ends_at,
  terms: row.terms ?? {},
});

function checkName(name: string): string {
  const parsed = KeyName.safeParse(name);
  if (!parsed.success) throw new DecisionError('invalid', 'A key name has 1 to 100 characters.');
  return parsed.data;
}

function showSecret({ id, key }: { id: string; key: string }): string {
  return `Key ${id}. Its secret is shown this once; store it safely:\n\n  ${key}\n`;
}

function showKeys(keys: Listed[]): string {
  if (keys.length === 0)
    return 'There are no keys yet. Create one with: npm run -s daybook -- key create --account NAME';
  return showTable(
    ['ID', 'STATE', 'SECRET', 'ACCOUNT', 'NAME', 'EXPIRES', 'RESTRICTED'],
    keys.map((key) => [
      key.id,
      key.state,
      `…${key.last4}`,
      key.account,
      key.name,
      key.expires_at ?? 'never',
      Object.keys(key.terms).join(', ') || '-',
    ]),
  );
}

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function parseDuration(text: string): number {
  if (text === '0') return 0;
  const match = /^(\d{1,6})([smhd])$/.exec(text);
  if (!match) throw new DecisionError('invalid', `"${text}" is not a duration such as 30m, 1h or 7d.`);
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}

import { randomUUID } from 'node:crypto';
import { chat, type ChatOptions, type ChatReply } from '../client.ts';
import type { ScriptedUpstream } from './upstream.ts';
import type { Attempt } from './ledger.ts';

export type ScriptedCall = {
  user: string;
  reply: ChatReply;
  /** The call's last attempt, closed. */
  row: Attempt;
};

/**
 * Sends one call whose model carries this script, and waits until the ledger has closed its row.
 * The call goes to the upstream itself unless `port` in the options names a relay before it.
 * @throws {Error} when the call never reached the upstream, or its attempt stays open.
 */
export async function callScript(
  upstream: ScriptedUpstream,
  script: string,
  fields: object = {},
  options: Partial<ChatOptions> = {},
): Promise<ScriptedCall> {
  const user = randomUUID();
  const body = { model: `s:${script}`, messages: [{ role: 'user', content: 'hi' }], user, ...fields };
  const reply = await chat({ port: upstream.port, body, ...options });
  await upstream.ledger.until(() => upstream.attemptsOf(user).at(-1)?.endedAt != null);
  const row = upstream.attemptsOf(user).at(-1);
  if (!row) throw new Error(`the call of ${user} is not in the ledger`);
  return { user, reply, row };
}

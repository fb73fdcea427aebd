import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { attachStore } from '#db/postgres/store.ts';
import { makeBody } from '../driver/bodies.ts';
import { makeDataDirectory } from '../machine/data-directory.ts';
import { postmasterOf } from '../machine/postmaster.ts';
import { freePort, type Program, startProgram, waitUntilReady } from '../machine/programs.ts';
import { seedKeys } from '../seed-keys.ts';
import { type Credential, WORKLOADS } from '../workloads.ts';
import { makeAccounts } from './accounts.ts';
import type { FixedReply } from './bare-reply.ts';
import { bringNear } from './near.ts';
import { readStartFlags } from './start-flags.ts';
import type { Running, Surroundings, Target } from './target.ts';
import { READYZ_TOKEN } from '../driver/job.ts';

const CHECKOUT = join(import.meta.dirname, '../..');
const SERVER = join(CHECKOUT, 'server/main.ts');

/** Reading 100,000 keys leaves garbage that would later hold the streams whose memory is measured. */
const MEMORY_KEYS = 100;

const POLL_MS = 50;
/** How long a server may take to read 100,000 keys and the ones made after them from the log. */
const CAUGHT_UP_TIMEOUT_MS = 60_000;
/** After this, Postgres is told to end without a checkpoint: the run's data is thrown away anyway. */
const POSTGRES_STOP_TIMEOUT_MS = 10_000;

/**
 * Daybook itself, as a stranger starts it: one process on its own embedded Postgres. The first
 * start of a run makes the store and its keys; later ones find them.
 * @param worker `off` where it is the server that is measured: the worker would count as a part of it,
 *   and `bench projector` has figures of its own for that.
 */
export function daybook(
  accounting: 'strict' | 'overlapped',
  keyCount: number,
  worker: 'on' | 'off',
  nodeFlags: readonly string[] = [],
): Target {
  const name = accounting === 'strict' ? 'daybook' : 'daybook-overlapped';
  const authorizations = new Map<string, Running['authorization']>();
  return {
    name,
    // Nothing is written for a refusal of a bad key, so the two ways of accounting are the same.
    does: { relay: true, refuse: accounting === 'strict' },
    async start(surroundings, purpose) {
      const dataDir = join(surroundings.directory, `${name}-${purpose}`);
      const keys = purpose === 'load' ? keyCount : Math.min(keyCount, MEMORY_KEYS);
      await makeDataDirectory(dataDir);
      const port = await freePort();
      const environment = {
        ...environmentOf(surroundings, dataDir, port, accounting),
        DAYBOOK_WORKER: worker,
        LAME_DUCK_MS: '0',
        READYZ_TOKEN,
      };
      const flags = [...readStartFlags(CHECKOUT), ...nodeFlags];
      const command = [...surroundings.pinning.prefix('gateway'), process.execPath, ...flags, SERVER];
      const program = startProgram(command, {
        env: environment,
        logFile: join(surroundings.directory, `${name}.log`),
      });
      try {
        await waitUntilReady(name, program, () => answers(port, '/readyz'));
        const authorization =
          authorizations.get(dataDir) ?? (await prepareKeys(dataDir, port, environment, keys));
        authorizations.set(dataDir, authorization);
        return {
          port,
          serverPid: program.pid,
          postgresPid: postmasterOf(dataDir),
          authorization,
          statePath: '/readyz',
          dataDir,
          dialect: null,
          bringNear: () => bringNear(port, authorization.near ?? ''),
          stop: () => stop(program, dataDir),
        };
      } catch (error) {
        await stop(program, dataDir);
        throw error;
      }
    },
  };
}

function environmentOf(
  surroundings: Surroundings,
  dataDir: string,
  port: number,
  accounting: string,
): Record<string, string> {
  const baseUrl = `http://127.0.0.1:${surroundings.upstreamPort}/v1`;
  return {
    PORT: String(port),
    HOST: '127.0.0.1',
    DAYBOOK_DATA: dataDir,
    // Within it, so that it goes when that does.
    PUBLISH_DIR: join(dataDir, 'published'),
    DAYBOOK_UPSTREAMS: JSON.stringify([{ name: 'mock', base_url: baseUrl, api_key: 'sk-up', models: ['*'] }]),
    ACCOUNTING: accounting,
    LOG_LEVEL: 'error',
  };
}

/** Makes the keys that the driver uses, and fills the log with others. */
async function prepareKeys(
  dataDir: string,
  port: number,
  environment: Record<string, string>,
  keyCount: number,
): Promise<Running['authorization']> {
  // Before the many keys, which every command would have to read.
  const { authorization, suspend } = await makeAccounts(dataDir, environment);
  await seedKeys(await attachStore({ DAYBOOK_DATA: dataDir }), keyCount);
  await suspend();
  await waitForStatus(port, authorization, 'suspended', 403);
  await waitForStatus(port, authorization, 'limited', 200);
  return authorization;
}

async function waitForStatus(
  port: number,
  authorization: Running['authorization'],
  credential: Credential,
  status: number,
): Promise<void> {
  const deadline = performance.now() + CAUGHT_UP_TIMEOUT_MS;
  for (;;) {
    const reply = await call(port, authorization[credential]);
    if (reply.status === status) return;
    if (performance.now() > deadline)
      throw new Error(`the ${credential} key gets ${reply.status}, not ${status}: ${reply.body}`);
    await sleep(POLL_MS);
  }
}

/** What a caller with this Authorization header gets, without the headers that belong to the connection. */
export async function call(port: number, authorization: string | null): Promise<FixedReply> {
  const reply = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(authorization === null ? {} : { authorization }) },
    body: new Uint8Array(makeBody(WORKLOADS.json.body)),
  });
  const ofConnection = ['connection', 'content-length', 'date', 'keep-alive', 'transfer-encoding'];
  const headers = [...reply.headers].filter(([header]) => !ofConnection.includes(header));
  return { status: reply.status, headers: Object.fromEntries(headers), body: await reply.text() };
}

async function answers(port: number, path: string): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}${path}`)).status === 200;
  } catch {
    return false;
  }
}

/** Stops the server, and its Postgres where the server could not: nothing may be left behind. */
async function stop(program: Program, dataDir: string): Promise<void> {
  await program.stop();
  const deadline = performance.now() + POSTGRES_STOP_TIMEOUT_MS;
  for (let pid = postmasterOf(dataDir); pid !== null; pid = postmasterOf(dataDir)) {
    process.kill(pid, performance.now() > deadline ? 'SIGQUIT' : 'SIGINT');
    await sleep(POLL_MS);
  }
}

import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { type AgentModel, startAgentModel } from '../support/providers/agent-model.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { AGENTS } from './agents.ts';
import { faultsOf, settledBy } from './judge.ts';
import { runAgent } from './run.ts';

/** A coding agent as people install it, with nothing set but where the relay is and the key. */

let relay: TestRelay;
const models: AgentModel[] = [];
/** More than an agent gets before it is ended. */
const TEST_MS_MAX = 330_000;
/** The agents weigh as much as everything else together, so they are installed on demand. */
const isInstalled = existsSync(AGENTS['qwen']?.program ?? '');
if (!isInstalled)
  console.warn('coding agents: skipped; install them with npm ci --prefix test/agents/install');

const AGENT_NAMES = ['qwen', 'qwen-settings', 'qwen-messages', 'qwen-responses'] as const;

beforeAll(async () => {
  if (!isInstalled) return;
  for (const _ of AGENT_NAMES) models.push(await startAgentModel());
  relay = await startRelay({
    upstreams: models.map(({ baseUrl }, index) => ({
      baseUrl,
      routes: RELAYED_ROUTES,
      models: [`tide-${index}`],
    })),
  });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  for (const model of models) await model[Symbol.asyncDispose]();
});

describe.skipIf(!isInstalled)('a coding agent calls its tool and is answered', () => {
  test.concurrent.each(AGENT_NAMES.map((name, index) => ({ name, index, route: AGENTS[name]?.route })))(
    '$name, by $route',
    async ({ name, index }) => {
      const agent = AGENTS[name];
      const model = models[index];
      if (!agent?.program || !model) throw new Error(`there is no agent ${name}`);
      const { id, secret } = await relay.createKey({ name });
      const ran = await runAgent(agent, agent.program, {
        baseUrl: relay.baseUrl,
        key: secret,
        model: `tide-${index}`,
      });
      const log = await relay.waitFor((events) => settledBy(id, events).length >= model.asked.length);
      expect(faultsOf(agent, ran, model.asked, settledBy(id, log))).toEqual([]);
      expect(ran.strayed).toEqual([]);
    },
    TEST_MS_MAX,
  );
});

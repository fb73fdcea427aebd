import path from 'node:path';
import { parseArgs } from 'node:util';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { GEMINI, startAgentModel } from '../support/providers/agent-model.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay } from '../support/relay.ts';
import { AGENTS } from './agents.ts';
import { faultsOf, settledBy } from './judge.ts';
import { runAgent } from './run.ts';

/**
 * Runs a coding agent against a relay of its own and a model that makes it call a tool, and says whether
 * the whole turn went through:
 *
 *     npm run agents -- codex /path/of/node_modules/.bin/codex
 *     npm run agents -- qwen
 *     npm run agents -- claude /path/of/claude --over gemini   # the only protocol of its upstream
 */
const { positionals, values } = parseArgs({ allowPositionals: true, options: { over: { type: 'string' } } });
const [name = '', given] = positionals;
const { over } = values;
const agent = AGENTS[name];
const program = given === undefined ? agent?.program : path.resolve(given);
if (!agent || program === undefined) {
  console.error(
    agent
      ? `Say where the program of ${name} is: npm run agents -- ${name} <path>`
      : `Say which agent: ${Object.keys(AGENTS).join(', ')}`,
  );
  process.exit(2);
}

/** The path that each protocol's upstream is called at. */
const PATHS: Readonly<Record<string, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  gemini: GEMINI,
};
const called = over === undefined ? agent.route : PATHS[over];
if (called === undefined) {
  console.error(`Say which protocol its upstream has: ${Object.keys(PATHS).join(', ')}`);
  process.exit(2);
}

await using model = await startAgentModel();
await using relay = await startRelay({
  upstreams: [
    over === 'gemini'
      ? { baseUrl: model.baseUrl.replace(/\/v1$/, '/v1beta'), provider: 'gemini' }
      : { baseUrl: model.baseUrl, routes: over === undefined ? RELAYED_ROUTES : [called] },
  ],
  postgres: 'embedded',
});
const ran = await runAgent(agent, program, { baseUrl: relay.baseUrl, key: relay.key, model: 'tide-1' });
const log = await relay.waitFor((events) => openRequests(events).length === 0);
const settled = settledBy(relay.key.split('_')[1] ?? '', log);
const faults = faultsOf({ ...agent, route: called }, ran, model.asked, settled);

const tokens = settled.reduce((sum, event) => sum + event.input_tokens + event.output_tokens, 0);
console.log(
  `${name} by ${agent.route} at ${called}: ${model.asked.length} calls, ` +
    `${settled.length} settled, ${tokens} tokens`,
);
if (ran.strayed.length > 0)
  console.log(`It asked for ${[...new Set(ran.strayed)].join(', ')} besides, and was not let out.`);
for (const fault of faults) console.log(`Fault: ${fault}`);
console.log(
  faults.length === 0
    ? 'The whole turn went through: a call of a tool, its result, and the answer.'
    : 'The turn did not go through.',
);
process.exitCode = faults.length === 0 ? 0 : 1;

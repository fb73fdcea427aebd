import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { withTable } from '../clients/table.ts';
import { ROOT } from '../layout/source.ts';
import { GEMINI, startAgentModel } from '../support/providers/agent-model.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay } from '../support/relay.ts';
import { AGENTS } from './agents.ts';
import { AGENT_CASES, type AgentCase, untilAsked } from './cases.ts';
import { faultsOf, settledBy } from './judge.ts';
import { runAgent } from './run.ts';

/**
 * Runs a coding agent against a relay of its own and a model that makes it call tools, and says whether the
 * whole turn went through:
 *
 *     npm run agents -- codex /path/of/node_modules/.bin/codex
 *     npm run agents -- qwen
 *     npm run agents -- claude /path/of/claude --over gemini   # the only protocol of its upstream
 *     npm run agents -- claude /path/of/claude --case 'cut stream'
 *     npm run agents -- claude /path/of/claude --table         # everything, and its row in docs/clients.md
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    over: { type: 'string' },
    case: { type: 'string' },
    table: { type: 'boolean', default: false },
  },
});
const [name = '', given] = positionals;
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

/** The protocols that an upstream can have alone, with the path that it is called at. */
const PATHS: Readonly<Record<string, { path: string; name: string }>> = {
  chat: { path: '/v1/chat/completions', name: 'chat completions' },
  responses: { path: '/v1/responses', name: 'responses' },
  messages: { path: '/v1/messages', name: 'messages' },
  gemini: { path: GEMINI, name: 'Gemini' },
};
if (values.over !== undefined && !(values.over in PATHS)) {
  console.error(`Say which protocol its upstream has: ${Object.keys(PATHS).join(', ')}`);
  process.exit(2);
}

const chosen = AGENT_CASES.find((each) => each.name === values.case);
if (values.case !== undefined && !chosen) {
  console.error(`Say which case: ${AGENT_CASES.map((each) => each.name).join(', ')}`);
  process.exit(2);
}

if (values.table) await runAll();
else if (chosen) process.exitCode = (await faultOfCase(chosen)) === null ? 0 : 1;
else if ((await faultsOfTurn(values.over)).length > 0) process.exitCode = 1;

/** Runs everything, and writes the agent's row of the table. */
async function runAll(): Promise<void> {
  const results: string[] = [];
  for (const over of Object.keys(PATHS))
    results.push((await faultsOfTurn(over)).length === 0 ? 'completed' : 'fails');
  for (const each of AGENT_CASES) results.push((await faultOfCase(each)) === null ? 'passed' : 'fails');
  const protocol = Object.values(PATHS).find((each) => each.path === agent?.route)?.name ?? '';
  const titles = [
    ...['agent', 'version', 'protocol'],
    ...Object.values(PATHS).map((each) => `over ${each.name}`),
    ...AGENT_CASES.map((each) => each.name),
  ];
  const row = [
    `\`${name.replace('-settings', '')}\``,
    await versionOf(),
    name === 'gemini' ? 'Gemini' : protocol,
    ...results,
  ];
  const page = path.join(ROOT, 'docs/clients.md');
  const table = [titles, titles.map(() => '---'), row].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  writeFileSync(page, withTable(readFileSync(page, 'utf8'), 'npm run agents', table, true));
  if (results.includes('fails')) process.exitCode = 1;
}

async function versionOf(): Promise<string> {
  const file = program ?? '';
  const [command, args] = file.endsWith('.js') ? [process.execPath, [file]] : [file, []];
  const { stdout } = await promisify(execFile)(command, [...args, '--version']);
  return /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? 'unknown';
}

/** A whole turn. @param over the only protocol of its upstream; without one, it has all but Gemini's. */
async function faultsOfTurn(over: string | undefined): Promise<string[]> {
  if (!agent || program === undefined) return [];
  const called = over === undefined ? agent.route : (PATHS[over]?.path ?? '');
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
      ? 'The whole turn went through: parallel calls of a tool, their results, and the answer.'
      : 'The turn did not go through.',
  );
  return faults;
}

/** One of the cases, at an upstream that has the protocol of the agent. */
async function faultOfCase(each: AgentCase): Promise<string | null> {
  if (!agent || program === undefined) return null;
  await using model = await startAgentModel(each.fault);
  await using relay = await startRelay({
    upstreams: [{ baseUrl: model.baseUrl, routes: RELAYED_ROUTES }],
    postgres: 'embedded',
  });
  const key = (await each.key?.(relay)) ?? relay.key;
  model.asked.length = 0;
  const ran = await runAgent(
    agent,
    program,
    { baseUrl: relay.baseUrl, key, model: 'tide-1' },
    each.isInterrupted && ((signal) => untilAsked(model, signal)),
  );
  await relay.waitFor((events) => openRequests(events).length === 0);
  const fault = each.faultOf(ran, model);
  console.log(`${name}, ${each.name}: ${fault ?? 'as expected'}`);
  return fault;
}

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { withControl } from '#server/control/control.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';
import { createSecret } from '#server/secrets/key-secret.ts';
import { ROOT } from '../layout/source.ts';
import {
  CHAT_CLIENTS,
  GEMINI_CLIENT,
  MESSAGES_CLIENT,
  RESPONSES_CLIENT,
} from '../support/providers/client-flows.ts';
import { startPlainUpstream } from '../support/plain-upstream.ts';
import { startRelay, until } from '../support/relay.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { CASE_NAMES, type Place, runCases, SCRIPTS } from './cases.ts';
import { GOOGLE_METHODS, googleFaults, googleReply } from './google-methods.ts';
import {
  GO_CLIENTS,
  googleModels,
  goVersion,
  hasGo,
  hasJava,
  hasPython,
  isInstalled,
  JAVA_CLIENTS,
  javaVersion,
  NODE_CLIENTS,
  nodeVersionOf,
  PYTHON_CLIENTS,
  pythonVersionOf,
  type Turns,
} from './installed-clients.ts';
import { withClientsTable } from './table.ts';

/**
 * Runs clients from npm, PyPI, the Go module proxy and Maven Central against a relay and upstreams of each
 * kind, and writes the table of docs/clients.md:
 *
 *     npm run clients
 *     npm run clients -- @google/genai     # one of them, and its rows of the table
 */
const [only] = process.argv.slice(2);

/** Upstreams, by the first letter of their models. */
const UPSTREAMS = {
  o: 'all routes of OpenAI and Anthropic',
  c: 'chat completions',
  r: 'responses',
  a: 'Anthropic',
  g: 'Gemini',
  b: 'Gemini, by its AI SDK package',
} as const;

type Client = { name: string; version: string; protocol: string; turns: Turns; lacks?: string[] };

const byName = (flows: Readonly<Record<string, Turns>>, protocol: string): Client[] =>
  Object.entries(flows).map(([name, turns]) => {
    const [packageName = ''] = name.split(',', 1);
    return { name: packageName, version: nodeVersionOf(packageName), protocol, turns };
  });

async function installedClients(): Promise<Client[]> {
  const node = NODE_CLIENTS.filter((each) => isInstalled(each.package));
  const python = hasPython() ? PYTHON_CLIENTS : [];
  const go = hasGo() ? GO_CLIENTS : [];
  const java = hasJava() ? JAVA_CLIENTS : [];
  return [
    ...byName(CHAT_CLIENTS, 'chat completions'),
    ...byName(RESPONSES_CLIENT, 'responses'),
    ...byName(MESSAGES_CLIENT, 'messages'),
    ...byName(GEMINI_CLIENT, 'Gemini'),
    ...node.map((each) => ({ ...each, name: each.package, version: nodeVersionOf(each.package) })),
    ...(await Promise.all(
      python.map(async (each) => ({
        ...each,
        name: `${each.package} (Python)`,
        version: await pythonVersionOf(each.package),
      })),
    )),
    ...go.map((each) => ({ ...each, name: `${each.package} (Go)`, version: goVersion() })),
    ...java.map((each) => ({ ...each, name: `${each.package} (Java)`, version: javaVersion() })),
  ];
}

await using upstream = await startUpstream({ apiKey: 'of-the-relay' });
const entry = { baseUrl: upstream.baseUrl, apiKey: 'of-the-relay' };
await using google = await startPlainUpstream(googleReply);
await using relay = await startRelay({
  upstreams: [
    { ...entry, name: 'o', models: ['o-*'], routes: RELAYED_ROUTES },
    { ...entry, name: 'c', models: ['c-*'], routes: ['/v1/chat/completions'] },
    { ...entry, name: 'r', models: ['r-*'], routes: ['/v1/responses'] },
    { ...entry, name: 'a', baseUrl: upstream.url, models: ['a-*'], provider: 'anthropic' },
    { ...entry, name: 'n', baseUrl: `${google.url}/v1beta`, models: ['n-*'], provider: 'gemini' },
    { ...entry, name: 'g', baseUrl: `${upstream.url}/v1beta`, models: ['g-*'], provider: 'gemini' },
  ],
  postgres: 'embedded',
});
for (const letter of Object.keys(UPSTREAMS))
  for (const [name, script] of Object.entries(SCRIPTS)) upstream.script(`${letter}-${name}`, script);
await withControl(relay.store, 'test', async (control, client) => {
  const upstreams = new UpstreamControl(control, client, {
    upstreams: [],
    DAYBOOK_DATA: relay.dataDir,
    DAYBOOK_MASTER_KEY_FILE: undefined,
  });
  await upstreams.addUpstream('b', {
    provider: 'bridge',
    package: '@ai-sdk/google',
    base_url: `${upstream.url}/v1beta`,
    models: ['b-*'],
    network: 'private',
    on_client_disconnect: 'cancel',
    retries: 0,
    paused: false,
  });
  await upstreams.addCredential('b', { label: 'main', secret: 'of-the-relay' });
});

const place = { baseUrl: relay.baseUrl, upstream };
const chats = (key: string, letter: string): Promise<boolean> =>
  CHAT_CLIENTS.openai.chat({ baseUrl: relay.baseUrl, key }, `${letter}-text`).then(
    () => true,
    () => false,
  );
await until(
  () => chats(relay.key, 'b'),
  (isReady) => isReady,
  'the upstream of the AI SDK package',
);
await relay.control((control) =>
  control.definePlan(
    'one-call',
    { quotas: [{ meter: 'requests', window: 'month', limit: 1, enforcement: 'soft' }] },
    'keep',
  ),
);
await relay.createAccount('spent');
await relay.control((control) => control.setPlan('spent', 'one-call', 'keep'));
const { secret: spent } = await relay.createKey({ account: 'spent' });
await until(
  async () => !(await chats(spent, 'o')),
  (isSpent) => isSpent,
  'the end of the quota',
);
const keys: Place['keys'] = { valid: relay.key, wrong: createSecret('00000000'), spent };

const clients = (await installedClients()).filter(({ name }) => only === undefined || name === only);
const rows = [];
let isGoogleRight = true;
for (const client of clients) {
  const lacks = client.lacks ?? [];
  const count = CASE_NAMES.length - lacks.length;
  const results = [];
  for (const letter of Object.keys(UPSTREAMS)) {
    const failed = await runCases(client.turns, { ...place, keys, letter }, lacks);
    for (const [name, fault] of failed)
      console.log(`${client.name} ${client.version}, ${client.protocol} over ${letter}: ${name}: ${fault}`);
    results.push({ passed: count - failed.size, failed: [...failed.keys()] });
  }
  rows.push({ ...client, lacks, results });
  const passed = results.reduce((sum, each) => sum + each.passed, 0);
  const all = results.length * count;
  console.log(`${client.name} ${client.version}, ${client.protocol}: ${passed} of ${all}`);
}
if (isInstalled('@google/genai') && (only ?? '@google/genai') === '@google/genai') {
  const native = { model: 'n-text', isNative: true };
  const others = (letters: readonly string[]) =>
    letters.map((letter) => ({ model: `${letter}-text`, isNative: false }));
  const failed = await googleFaults(
    googleModels,
    { baseUrl: relay.baseUrl, key: keys.valid, wrongKey: keys.wrong },
    { countTokens: [native, ...others(['o', 'c', 'r', 'a'])], embedContent: [native, ...others(['o'])] },
  );
  for (const [name, fault] of failed) console.log(`@google/genai: ${name}: ${fault}`);
  console.log(`@google/genai: ${GOOGLE_METHODS.join(' and ')}: ${failed.size} failed`);
  isGoogleRight = failed.size === 0;
}
const page = path.join(ROOT, 'docs/clients.md');
const table = { cases: CASE_NAMES, upstreams: Object.values(UPSTREAMS), rows };
writeFileSync(page, withClientsTable(readFileSync(page, 'utf8'), table, only !== undefined));
const hasAll = NODE_CLIENTS.every((each) => isInstalled(each.package)) && hasPython() && hasGo() && hasJava();
if (only === undefined && !hasAll)
  console.log('Some clients are not installed: CONTRIBUTING.md names the commands.');
const isRight = rows.every(({ results }) => results.every(({ failed }) => failed.length === 0));
process.exitCode = isRight && isGoogleRight ? 0 : 1;

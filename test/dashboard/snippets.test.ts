import Anthropic from '@anthropic-ai/sdk';
import { createGoogle } from '@ai-sdk/google';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText } from 'ai';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import { parse as parseToml } from 'smol-toml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse as parseYaml } from 'yaml';
import {
  agentPrompt,
  agentSnippets,
  curlSnippet,
  type Filling,
  PLACEHOLDER,
  PROMPT,
  pythonSnippet,
  typescriptSnippet,
} from '../../web/features/first-call/snippets.ts';
import { sendTestCall } from '../../web/features/first-call/test-call.ts';
import { ApiError } from '../../web/lib/api/api.ts';
import { settledOf } from '../support/faults.ts';
import { ROOT } from '../layout/source.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/** What the first-call page gives people to paste, made to do what it says against a relay. */

const run = promisify(execFile);
const MODEL = 'daybook-demo';
const REPLY = `You said: ${PROMPT}`;
const PYTHON = process.env['PYTHON'] ?? 'python3';

let relay: TestRelay;
let place: string;
let filling: Filling;

beforeAll(async () => {
  relay = await startRelay();
  filling = { baseUrl: relay.baseUrl, model: MODEL, secret: relay.key };
  place = await mkdtemp(path.join(tmpdir(), 'daybook-snippets-'));
  await symlink(path.join(ROOT, 'node_modules'), path.join(place, 'node_modules'));
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  if (place) await rm(place, { recursive: true, force: true });
});

/** The call that something made: the only one that was not there before, and how it ended. */
async function callOf<T>(make: () => Promise<T>): Promise<{ made: T; call: ReturnType<typeof settledOf> }> {
  const before = (await relay.readLog()).length;
  const made = await make();
  const events = await relay.waitFor((log) =>
    log.slice(before).some(({ event }) => event.type === 'request.settled'),
  );
  const accepted = events
    .slice(before)
    .flatMap(({ event }) => (event.type === 'request.accepted' ? [event.request] : []));
  expect(accepted).toHaveLength(1);
  return { made, call: settledOf(events, accepted[0] ?? null) };
}

/** The words of a command, as a shell hands them to the program of that name. */
async function wordsOf(name: string, text: string): Promise<string[]> {
  const { stdout } = await run('sh', ['-c', `${name}() { printf '%s\\0' "$@"; }\n${text}`]);
  return stdout.split('\0').slice(0, -1);
}

/** What an agent is given: its settings, and what its program sees of the shell's lines. */
const agent = (id: string, of: Filling = filling): { settings: string; shell: string } => {
  const parts = agentSnippets(of).find((each) => each.id === id)?.parts ?? [];
  return { settings: parts.at(-2)?.text ?? '', shell: parts.at(-1)?.text ?? '' };
};
async function seenBy(program: string, variables: readonly string[]): Promise<string[]> {
  const seen = variables.map((name) => `"$${name}"`).join(' ');
  const { stdout } = await run('sh', [
    '-c',
    `${program}() { printf '%s\\n' ${seen} "$@"; }\n${agent(program).shell}`,
  ]);
  return stdout.trim().split('\n');
}

describe('a snippet that is pasted as it stands makes the call', () => {
  test('curl', async () => {
    const { made, call } = await callOf(() => run('sh', ['-c', curlSnippet(filling).text]));
    const words = made.stdout
      .split('\n')
      .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []));
    expect(words.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(REPLY);
    expect(call).toMatchObject({ end_reason: 'completed', model: MODEL });
  });

  test('TypeScript, with the openai package', async () => {
    const file = path.join(place, 'first-call.ts');
    await writeFile(file, typescriptSnippet(filling).text);
    const { made, call } = await callOf(() => run(process.execPath, [file]));
    expect(made).toMatchObject({ stdout: `${REPLY}\n`, stderr: '' });
    expect(call).toMatchObject({ end_reason: 'completed', model: MODEL });
  });

  test('Python, with the openai package where it is installed; else what it would send', async ({ skip }) => {
    const file = path.join(place, 'first_call.py');
    await writeFile(file, pythonSnippet(filling).text);
    if (!(await can(PYTHON, '--version'))) return skip('there is no Python');
    if (await can(PYTHON, '-c', 'import openai')) {
      const { made, call } = await callOf(() => run(PYTHON, [file]));
      expect(made.stdout).toBe(`${REPLY}\n`);
      expect(call).toMatchObject({ end_reason: 'completed', model: MODEL });
      return;
    }
    // Python itself reads the file; what it hands to the package is sent as the package sends it.
    const { stdout } = await run(PYTHON, ['-c', READ_CALLS, file]);
    const [client, create] = JSON.parse(stdout) as [
      { base_url: string; api_key: string },
      OpenAI.ChatCompletionCreateParamsStreaming,
    ];
    const { made, call } = await callOf(async () => {
      const chunks = await Array.fromAsync(
        await new OpenAI({ baseURL: client.base_url, apiKey: client.api_key }).chat.completions.create(
          create,
        ),
      );
      return chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
    });
    expect(made).toBe(REPLY);
    expect(call).toMatchObject({ end_reason: 'completed', model: MODEL });
  });
});

describe('what an agent is given has the address, the model and the key where it looks for them', () => {
  test('opencode: its provider package makes the call with these options', async () => {
    const { provider, model } = JSON.parse(agent('opencode').settings) as {
      provider: Record<
        string,
        { npm: string; options: { baseURL: string; apiKey: string }; models: Record<string, unknown> }
      >;
      model: string;
    };
    const [name = '', id = ''] = model.split('/');
    expect(provider[name]?.npm).toBe('@ai-sdk/openai-compatible');
    expect(Object.keys(provider[name]?.models ?? {})).toEqual([id]);
    expect(provider[name]?.options.apiKey).toBe('{env:DAYBOOK_API_KEY}');
    const [apiKey = ''] = await seenBy('opencode', ['DAYBOOK_API_KEY']);
    const { made, call } = await callOf(() =>
      generateText({
        model: createOpenAICompatible({ name, ...provider[name]!.options, apiKey })(id),
        prompt: PROMPT,
      }),
    );
    expect(made.text).toBe(REPLY);
    expect(call).toMatchObject({ end_reason: 'completed', model: MODEL });
  });

  test('aider: the address and a model that says which API, the key in its variable', async () => {
    expect(parseYaml(agent('aider').settings)).toEqual({
      'openai-api-base': relay.baseUrl,
      model: `openai/${MODEL}`,
    });
    expect(await seenBy('aider', ['OPENAI_API_KEY'])).toEqual([relay.key]);
  });

  test('Claude Code: the built-in demo replies to its messages', async () => {
    const { env } = JSON.parse(agent('claude').settings) as { env: Record<string, string> };
    const [authToken = ''] = await seenBy('claude', ['ANTHROPIC_AUTH_TOKEN']);
    const client = new Anthropic({ baseURL: env['ANTHROPIC_BASE_URL'], authToken, apiKey: null });
    const { made, call } = await callOf(() =>
      client.messages.create({
        model: env['ANTHROPIC_MODEL'] ?? '',
        max_tokens: 100,
        messages: [{ role: 'user', content: PROMPT }],
      }),
    );
    expect(made.content).toMatchObject([{ type: 'text', text: REPLY }]);
    expect(call).toMatchObject({ end_reason: 'completed', route: '/v1/messages' });
  });

  test('Codex: a provider of its config.toml, and the built-in demo replies to its responses', async () => {
    const { model_providers: providers, ...root } = parseToml(agent('codex').settings) as {
      model: string;
      model_provider: string;
      model_providers: { daybook: { base_url: string; env_key: string; wire_api: string } };
    };
    expect(root).toEqual({ model: MODEL, model_provider: 'daybook' });
    expect(providers.daybook).toMatchObject({ env_key: 'DAYBOOK_API_KEY', wire_api: 'responses' });
    const [apiKey = ''] = await seenBy('codex', [providers.daybook.env_key]);
    const client = new OpenAI({ baseURL: providers.daybook.base_url, apiKey });
    const { made, call } = await callOf(() => client.responses.create({ model: root.model, input: PROMPT }));
    expect(made.output_text).toBe(REPLY);
    expect(call).toMatchObject({ end_reason: 'completed', route: '/v1/responses' });
  });

  test('Gemini CLI: the address and the key in variables, and the built-in demo replies', async () => {
    expect(JSON.parse(agent('gemini').settings)).toEqual({
      security: { auth: { selectedType: 'gemini-api-key' } },
      model: { name: MODEL },
    });
    const [root = '', apiKey = ''] = await seenBy('gemini', ['GOOGLE_GEMINI_BASE_URL', 'GEMINI_API_KEY']);
    const { made, call } = await callOf(() =>
      generateText({ model: createGoogle({ baseURL: `${root}/v1beta`, apiKey })(MODEL), prompt: PROMPT }),
    );
    expect(made.text).toBe(REPLY);
    expect(call).toMatchObject({ end_reason: 'completed' });
  });

  test('Qwen Code: a provider whose key is in the variable that it names', async () => {
    const { modelProviders, model } = JSON.parse(agent('qwen').settings) as {
      modelProviders: { openai: { id: string; baseUrl: string; envKey: string }[] };
      model: { name: string };
    };
    expect(modelProviders.openai).toMatchObject([{ id: model.name, baseUrl: relay.baseUrl }]);
    expect(await seenBy('qwen', [modelProviders.openai[0]?.envKey ?? ''])).toEqual([relay.key]);
  });

  test('Cline: one command', async () => {
    expect(await wordsOf('cline', agent('cline').shell)).toEqual([
      'auth',
      '-p',
      'openai-compatible',
      '-b',
      relay.baseUrl,
      '-k',
      relay.key,
      '-m',
      MODEL,
    ]);
  });

  test('Continue: one model of its settings', () => {
    expect(parseYaml(agent('continue').settings)).toMatchObject({
      schema: 'v1',
      models: [
        {
          provider: 'openai',
          model: MODEL,
          apiBase: relay.baseUrl,
          apiKey: '${{ secrets.DAYBOOK_API_KEY }}',
          roles: ['chat', 'edit', 'apply'],
        },
      ],
    });
  });

  test('Zed: a provider whose name gives the name of its variable', () => {
    expect(JSON.parse(agent('zed').settings)).toMatchObject({
      language_models: {
        openai_compatible: { Daybook: { api_url: relay.baseUrl, available_models: [{ name: MODEL }] } },
      },
      agent: { default_model: { provider: 'Daybook', model: MODEL } },
    });
    expect(agent('zed').shell).toBe(`export DAYBOOK_API_KEY=${relay.key}`);
  });

  test('others: the variables make the call by themselves', async () => {
    const file = path.join(place, 'by-variables.ts');
    await writeFile(
      file,
      `import OpenAI from "openai";
const reply = await new OpenAI().chat.completions.create({
  model: process.env.OPENAI_MODEL,
  messages: [{ role: "user", content: "Hello" }],
});
process.stdout.write(reply.choices[0].message.content);
`,
    );
    const { made } = await callOf(() =>
      run('sh', ['-c', `${agent('environment').shell}\nexec "$0" "$1"`, process.execPath, file]),
    );
    expect(made.stdout).toBe('You said: Hello');
  });
});

describe('the call that the page itself makes', () => {
  const send = (model: string, secret: string, onWord: (word: string) => void = () => {}) =>
    sendTestCall(
      {
        endpoint: `${relay.baseUrl}/chat/completions`,
        model,
        secret,
        prompt: PROMPT,
        signal: new AbortController().signal,
      },
      onWord,
    );

  test('shows each word as it comes', async () => {
    const words: string[] = [];
    const { made, call } = await callOf(() => send(MODEL, relay.key, (word) => words.push(word)));
    expect(words.join('')).toBe(REPLY);
    expect(words.length).toBeGreaterThan(3);
    expect(made).toEqual({ requestId: call?.request, firstWordMs: expect.any(Number) });
  });

  test('reports failures as the relay does: an invalid key, a disconnected reply', async () => {
    await expect(send(MODEL, `${relay.key}x`)).rejects.toMatchObject({
      name: 'ApiError',
      status: 401,
      code: 'invalid_api_key',
      requestId: expect.any(String),
    });
    await expect(send('daybook-demo-cut', relay.key)).rejects.toMatchObject({
      name: 'ApiError',
      status: 200,
      code: 'upstream_disconnected',
    });
    await expect(
      sendTestCall(
        {
          endpoint: 'http://127.0.0.1:1/',
          model: MODEL,
          secret: 'x',
          prompt: PROMPT,
          signal: new AbortController().signal,
        },
        () => {},
      ),
    ).rejects.toBeInstanceOf(ApiError);
  });
});

test('no settings file has the key', () => {
  for (const { parts } of agentSnippets(filling))
    for (const { use, text } of parts) if (use.startsWith('Add to')) expect(text).not.toContain(relay.key);
});

test('without a secret a placeholder stands for it, and a prompt for an agent never has one', () => {
  const bare: Filling = { ...filling, secret: null };
  const agents = agentSnippets(bare).map(({ parts }) => parts.map(({ text }) => text).join('\n'));
  for (const text of [
    ...[curlSnippet, pythonSnippet, typescriptSnippet].map((make) => make(bare).text),
    ...agents,
  ]) {
    expect(text).toContain(PLACEHOLDER);
    expect(text).not.toContain(relay.key);
  }
  expect(agentPrompt(filling)).not.toContain(relay.key);
});

test('no name of a model gets out of its place in a snippet', async () => {
  const odd: Filling = {
    baseUrl: 'http://127.0.0.1:1/v1',
    model: `it's "$(id)" \\ \`x\` # : {}`,
    secret: 'key',
  };
  const words = await wordsOf('curl', curlSnippet(odd).text);
  expect(words).toHaveLength(8);
  expect(JSON.parse(words.at(-1) ?? '')).toMatchObject({ model: odd.model });
  expect((await wordsOf('cline', agent('cline', odd).shell)).at(-1)).toBe(odd.model);
  expect(parseYaml(agent('continue', odd).settings)).toMatchObject({ models: [{ model: odd.model }] });
  expect(parseToml(agent('codex', odd).settings)).toMatchObject({ model: odd.model });
  expect(
    Object.keys(
      (JSON.parse(agent('opencode', odd).settings) as { provider: { daybook: { models: object } } }).provider
        .daybook.models,
    ),
  ).toEqual([odd.model]);
});

const can = (program: string, ...words: string[]): Promise<boolean> =>
  run(program, words).then(
    () => true,
    () => false,
  );

/** Prints the keyword arguments of `OpenAI(…)` and of `create(…)` in a file of Python, as JSON. */
const READ_CALLS = `
import ast, json, sys
tree = ast.parse(open(sys.argv[1]).read())
nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
calls = {getattr(node.func, "id", getattr(node.func, "attr", "")): node for node in nodes}
keywords = lambda name: {k.arg: ast.literal_eval(k.value) for k in calls[name].keywords}
print(json.dumps([keywords(name) for name in ("OpenAI", "create")]))
`;

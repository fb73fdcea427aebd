import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText } from 'ai';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import OpenAI from 'openai';
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

/** Whether a route exists and accepts the key: an empty body is then the only error. */
async function accepts(url: string, headers: Record<string, string>): Promise<boolean> {
  const send = async (sent: Record<string, string>): Promise<number> =>
    (
      await fetch(url, {
        method: 'POST',
        headers: { ...sent, 'content-type': 'application/json' },
        body: '{}',
      })
    ).status;
  return (await send(headers)) === 400 && (await send({})) === 401;
}

const agent = (id: string, of: Filling = filling): string =>
  agentSnippets(of).find((each) => each.id === id)?.text ?? '';

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
    const { provider, model } = JSON.parse(agent('opencode')) as {
      provider: Record<
        string,
        { npm: string; options: { baseURL: string; apiKey: string }; models: Record<string, unknown> }
      >;
      model: string;
    };
    const [name = '', id = ''] = model.split('/');
    expect(provider[name]?.npm).toBe('@ai-sdk/openai-compatible');
    expect(Object.keys(provider[name]?.models ?? {})).toEqual([id]);
    const { made, call } = await callOf(() =>
      generateText({
        model: createOpenAICompatible({ name, ...provider[name]!.options })(id),
        prompt: PROMPT,
      }),
    );
    expect(made.text).toBe(REPLY);
    expect(call).toMatchObject({ end_reason: 'completed', model: MODEL });
  });

  test('aider: two variables, and a model that says which API', async () => {
    const { stdout } = await run('sh', [
      '-c',
      `aider() { printf '%s\\n' "$OPENAI_API_BASE" "$OPENAI_API_KEY" "$@"; }\n${agent('aider')}`,
    ]);
    expect(stdout.trim().split('\n')).toEqual([relay.baseUrl, relay.key, '--model', `openai/${MODEL}`]);
  });

  test('Claude Code: two variables, with a base URL that it appends /v1/messages to', async () => {
    const { stdout } = await run('sh', [
      '-c',
      `claude() { printf '%s\\n' "$ANTHROPIC_BASE_URL" "$ANTHROPIC_API_KEY" "$@"; }\n${agent('claude')}`,
    ]);
    const [base = '', key = '', ...args] = stdout.trim().split('\n');
    expect(args).toEqual(['--model', MODEL]);
    expect(await accepts(`${base}/v1/messages`, { 'x-api-key': key })).toBe(true);
  });

  test('Codex: a provider of its config.toml for the Responses API', async () => {
    const values = Object.fromEntries(
      [...agent('codex').matchAll(/^(\w+) = (".*")$/gm)].map(([, name, value = '""']) => [
        name,
        JSON.parse(value) as string,
      ]),
    );
    expect(values).toEqual({
      model: MODEL,
      model_provider: 'daybook',
      name: 'Daybook',
      base_url: relay.baseUrl,
      env_key: 'DAYBOOK_KEY',
      wire_api: 'responses',
    });
    expect(agent('codex')).toContain('\n[model_providers.daybook]\n');
    const [, key = ''] = /export DAYBOOK_KEY=(\S+)/.exec(agent('codex')) ?? [];
    const authorization = `Bearer ${key}`;
    expect(await accepts(`${values['base_url']}/responses`, { authorization })).toBe(true);
  });

  test('Cline: one command', async () => {
    expect(await wordsOf('cline', agent('cline'))).toEqual([
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
    expect(parseYaml(agent('continue'))).toMatchObject({
      schema: 'v1',
      models: [{ provider: 'openai', model: MODEL, apiBase: relay.baseUrl, apiKey: relay.key }],
    });
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
      run('sh', ['-c', `${agent('environment')}\nexec "$0" "$1"`, process.execPath, file]),
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

test('without a secret a placeholder stands for it, and a prompt for an agent never has one', () => {
  const bare: Filling = { ...filling, secret: null };
  for (const { text } of [
    curlSnippet(bare),
    pythonSnippet(bare),
    typescriptSnippet(bare),
    ...agentSnippets(bare),
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
  expect((await wordsOf('cline', agent('cline', odd))).at(-1)).toBe(odd.model);
  expect((parseYaml(agent('continue', odd)) as { models: { model: string }[] }).models[0]?.model).toBe(
    odd.model,
  );
  expect(
    Object.keys(
      (JSON.parse(agent('opencode', odd)) as { provider: { daybook: { models: object } } }).provider.daybook
        .models,
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

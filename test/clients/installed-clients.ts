import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { LanguageModel } from 'ai';
import { aiFlows } from '../support/providers/ai-flows.ts';
import {
  type Call,
  type Flows,
  HELLO,
  PIECES_SEEN,
  RESULTS,
  SCHEMA,
  type To,
  TOOL_NAMES,
} from '../support/providers/flows.ts';

/** Clients of the npm registry and of PyPI that are installed in test/clients/install on demand. */

export type Turns = Pick<Flows, 'chat' | 'stream' | 'tools' | 'abort'>;

const INSTALL = path.join(import.meta.dirname, 'install');
const PYTHON = path.join(INSTALL, 'node_modules/.python/bin/python');
const GO = path.join(INSTALL, 'node_modules/.go/openai');
const JAVA = path.join(INSTALL, 'node_modules/.java');
const PROGRAM_MS_MAX = 60_000;

const require = createRequire(path.join(INSTALL, 'package.json'));
/** A package of the install directory, with as much of its types as the flows use. */
const load = async <T>(name: string): Promise<T> =>
  (await import(pathToFileURL(require.resolve(name)).href)) as T;

export const isInstalled = (name: string): boolean =>
  existsSync(path.join(INSTALL, 'node_modules', name, 'package.json'));
export const hasGo = (): boolean => existsSync(GO);
export const hasJava = (): boolean => existsSync(path.join(JAVA, 'classpath'));
export const hasPython = (): boolean => existsSync(PYTHON);

const rootOf = ({ baseUrl }: To): string => baseUrl.replace(/\/v1$/, '');

type GoogleReply = {
  text?: string;
  functionCalls?: { id?: string; name: string; args: unknown }[];
  candidates?: { content: unknown }[];
  usageMetadata?: { candidatesTokenCount?: number };
};
type Google = {
  GoogleGenAI: new (options: object) => {
    models: {
      generateContent(request: object): Promise<GoogleReply>;
      generateContentStream(request: object): Promise<AsyncIterable<GoogleReply>>;
      countTokens(request: object): Promise<{ totalTokens?: number }>;
      embedContent(request: object): Promise<{ embeddings?: { values?: number[] }[] }>;
    };
  };
};

export const googleModels = async (to: To) => {
  const { GoogleGenAI } = await load<Google>('@google/genai');
  return new GoogleGenAI({ apiKey: to.key, httpOptions: { baseUrl: rootOf(to) } }).models;
};

const google: Turns = {
  async chat(to, model) {
    const reply = await (await googleModels(to)).generateContent({ model, contents: HELLO });
    return { text: reply.text ?? '', outputTokens: reply.usageMetadata?.candidatesTokenCount };
  },
  async stream(to, model) {
    const chunks = await (await googleModels(to)).generateContentStream({ model, contents: HELLO });
    return (await Array.fromAsync(chunks)).flatMap(({ text }) => text ?? []);
  },
  async tools(to, model, next) {
    const models = await googleModels(to);
    const functionDeclarations = TOOL_NAMES.map((name) => ({ name, parametersJsonSchema: SCHEMA }));
    const config = { tools: [{ functionDeclarations }] };
    const reply = await models.generateContent({ model, contents: HELLO, config });
    const calls = reply.functionCalls ?? [];
    const parts = calls.map(({ id, name }, index) => ({
      functionResponse: { id, name, response: { output: RESULTS[index] } },
    }));
    const asked = { role: 'user', parts: [{ text: HELLO }] };
    const contents = [asked, reply.candidates?.[0]?.content, { role: 'user', parts }];
    const answer = await models.generateContent({ model: next, contents, config });
    return { calls: calls.map(({ name, args }) => ({ name, input: args })), text: answer.text ?? '' };
  },
  async abort(to, model) {
    const abort = new AbortController();
    const request = { model, contents: HELLO, config: { abortSignal: abort.signal } };
    let seen = 0;
    for await (const { text } of await (await googleModels(to)).generateContentStream(request))
      if (text && ++seen === PIECES_SEEN) break;
    abort.abort();
  },
};

type AgentsPackage = {
  Agent: new (options: object) => unknown;
  OpenAIProvider: new (options: object) => unknown;
  Runner: new (options: object) => {
    run(agent: unknown, input: string, options?: object): Promise<AgentsRun>;
  };
  tool(options: object): unknown;
};
type AgentsRun = {
  finalOutput: string;
  rawResponses: { usage: { outputTokens: number } }[];
  completed: Promise<void>;
  toTextStream(): AsyncIterable<string>;
};

/** OpenAI's agents: they call their tools themselves, so both turns are of one model. */
const agents = (useResponses: boolean): Turns => {
  const runOf = async (to: To, model: string, options: object = {}, calls: Call[] = []) => {
    const { Agent, OpenAIProvider, Runner, tool } = await load<AgentsPackage>('@openai/agents');
    const { default: OpenAI } = await load<{ default: new (options: object) => unknown }>('openai');
    const tools = TOOL_NAMES.map((name, index) =>
      tool({
        name,
        description: name,
        parameters: SCHEMA,
        execute: (input: unknown) => {
          calls.push({ name, input });
          return RESULTS[index];
        },
      }),
    );
    const openAIClient = new OpenAI({ baseURL: to.baseUrl, apiKey: to.key, maxRetries: 0 });
    const modelProvider = new OpenAIProvider({ openAIClient, useResponses });
    const agent = new Agent({ name: 'tide', model, tools });
    return new Runner({ modelProvider, tracingDisabled: true }).run(agent, HELLO, options);
  };
  return {
    async chat(to, model) {
      const { finalOutput, rawResponses } = await runOf(to, model);
      return { text: finalOutput, outputTokens: rawResponses[0]?.usage.outputTokens };
    },
    async stream(to, model) {
      const result = await runOf(to, model, { stream: true });
      const pieces = await Array.fromAsync(result.toTextStream());
      await result.completed;
      return pieces;
    },
    async tools(to, model) {
      const calls: Call[] = [];
      const { finalOutput } = await runOf(to, model, {}, calls);
      return { calls, text: finalOutput };
    },
    async abort(to, model) {
      const abort = new AbortController();
      const result = await runOf(to, model, { stream: true, signal: abort.signal });
      let seen = 0;
      for await (const _ of result.toTextStream()) if (++seen === PIECES_SEEN) break;
      abort.abort();
    },
  };
};

type LlamaMessage = { role: string; content: unknown; options?: object };
type Llama = {
  openai(options: object): {
    chat(request: { messages: LlamaMessage[]; stream: true }): Promise<AsyncIterable<{ delta: string }>>;
    chat(request: object): Promise<{
      message: { content: string; options?: { toolCall?: { id: string; name: string; input: unknown }[] } };
      raw: { usage?: { completion_tokens?: number } };
    }>;
  };
};

const llamaOf = async (to: To, model: string) => {
  const { openai } = await load<Llama>('@llamaindex/openai');
  return openai({ model, apiKey: to.key, baseURL: to.baseUrl, maxRetries: 0, supportToolCall: true });
};
const llamaAsked: LlamaMessage[] = [{ role: 'user', content: HELLO }];

const llamaindex: Turns = {
  async chat(to, model) {
    const { message, raw } = await (await llamaOf(to, model)).chat({ messages: llamaAsked });
    return { text: message.content, outputTokens: raw.usage?.completion_tokens };
  },
  async stream(to, model) {
    const chunks = await (await llamaOf(to, model)).chat({ messages: llamaAsked, stream: true });
    return (await Array.fromAsync(chunks)).flatMap(({ delta }) => delta || []);
  },
  async tools(to, model, next) {
    const tools = TOOL_NAMES.map((name) => ({
      metadata: { name, description: name, parameters: SCHEMA },
      call: () => '',
    }));
    const { message } = await (await llamaOf(to, model)).chat({ messages: llamaAsked, tools });
    const calls = message.options?.toolCall ?? [];
    const results = calls.map(({ id }, index) => ({
      role: 'user',
      content: RESULTS[index],
      options: { toolResult: { id, result: RESULTS[index], isError: false } },
    }));
    const messages = [...llamaAsked, message, ...results];
    const answer = await (await llamaOf(to, next)).chat({ messages, tools });
    const parsed = (input: unknown): unknown => (typeof input === 'string' ? JSON.parse(input) : input);
    return {
      calls: calls.map(({ name, input }) => ({ name, input: parsed(input) })),
      text: answer.message.content,
    };
  },
  async abort(to, model) {
    let seen = 0;
    for await (const { delta } of await (
      await llamaOf(to, model)
    ).chat({ messages: llamaAsked, stream: true }))
      if (delta && ++seen === PIECES_SEEN) break;
  },
};

type AiProvider = (id: string) => LanguageModel;
const aiOpenai = aiFlows(async ({ baseUrl, key }, id) => {
  const { createOpenAI } = await load<{ createOpenAI(options: object): AiProvider }>('@ai-sdk/openai');
  return createOpenAI({ baseURL: baseUrl, apiKey: key })(id);
});

/** Clients of npm, by the package whose version is shown. */
export const NODE_CLIENTS: readonly { package: string; protocol: string; turns: Turns; lacks?: string[] }[] =
  [
    { package: '@google/genai', protocol: 'Gemini', turns: google },
    { package: '@ai-sdk/openai', protocol: 'responses', turns: aiOpenai },
    { package: '@openai/agents', protocol: 'responses', turns: agents(true) },
    { package: '@openai/agents', protocol: 'chat completions', turns: agents(false) },
    // It reads a stream to its end, also when its caller has left it.
    { package: '@llamaindex/openai', protocol: 'chat completions', turns: llamaindex, lacks: ['abort'] },
  ];

/** A program that runs one action of one client each time. */
const program = (file: string, first: readonly string[]): Turns => {
  const run = async (action: string, to: To, model: string, next = model): Promise<unknown> => {
    const args = [...first, action, to.baseUrl, to.key, model, next];
    const { stdout } = await promisify(execFile)(file, args, { timeout: PROGRAM_MS_MAX });
    return JSON.parse(stdout) as unknown;
  };
  return {
    chat: async (to, model) => (await run('chat', to, model)) as Awaited<ReturnType<Turns['chat']>>,
    stream: async (to, model) => (await run('stream', to, model)) as string[],
    tools: async (to, model, next) =>
      (await run('tools', to, model, next)) as Awaited<ReturnType<Turns['tools']>>,
    abort: async (to, model) => void (await run('abort', to, model)),
  };
};

const python = (client: string): Turns =>
  program(PYTHON, [path.join(import.meta.dirname, 'python.py'), client]);

/** Clients of the Go module proxy. */
export const GO_CLIENTS: readonly { package: string; protocol: string; turns: Turns }[] = [
  { package: 'openai-go', protocol: 'chat completions', turns: program(GO, ['chat']) },
  { package: 'openai-go', protocol: 'responses', turns: program(GO, ['responses']) },
];

const java = (client: string): Turns => {
  const classes = path.join(JAVA, 'classes');
  const classpath = hasJava() ? readFileSync(path.join(JAVA, 'classpath'), 'utf8').trim() : '';
  return program('java', ['-cp', `${classes}${path.delimiter}${classpath}`, 'OpenaiJava', client]);
};

/** Clients of Maven Central. */
export const JAVA_CLIENTS: readonly { package: string; protocol: string; turns: Turns }[] = [
  { package: 'openai-java', protocol: 'chat completions', turns: java('chat') },
  { package: 'openai-java', protocol: 'responses', turns: java('responses') },
];

/** Clients of PyPI, by the name of their distribution. */
export const PYTHON_CLIENTS: readonly { package: string; protocol: string; turns: Turns }[] = [
  { package: 'openai', protocol: 'chat completions', turns: python('openai') },
  { package: 'openai', protocol: 'responses', turns: python('openai-responses') },
  { package: 'anthropic', protocol: 'messages', turns: python('anthropic') },
  { package: 'google-genai', protocol: 'Gemini', turns: python('google-genai') },
];

/** The versions of installed packages, by their names. */
export function nodeVersionOf(name: string): string {
  const from = isInstalled(name) ? require : createRequire(import.meta.url);
  const entry = from.resolve(name);
  const root = entry.slice(0, entry.lastIndexOf(`node_modules/${name}/`) + `node_modules/${name}`.length);
  return (from(path.join(root, 'package.json')) as { version: string }).version;
}

export async function pythonVersionOf(name: string): Promise<string> {
  const code = `import importlib.metadata as m; print(m.version(${JSON.stringify(name)}), end='')`;
  return (await promisify(execFile)(PYTHON, ['-c', code])).stdout;
}

export const goVersion = (): string => versionIn('go/go.mod', /openai-go\/v3 v(\S+)/);
export const javaVersion = (): string =>
  versionIn('java/pom.xml', /<artifactId>openai-java<\/artifactId>\s*<version>([^<]+)/);

function versionIn(file: string, pattern: RegExp): string {
  const version = pattern.exec(readFileSync(path.join(import.meta.dirname, file), 'utf8'))?.[1];
  if (version === undefined) throw new Error(`${file} doesn't name OpenAI's SDK`);
  return version;
}

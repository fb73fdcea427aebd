import Anthropic from '@anthropic-ai/sdk';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { createGoogle } from '@ai-sdk/google';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import {
  generateText,
  jsonSchema,
  type LanguageModel,
  type ModelMessage,
  Output,
  streamText,
  type ToolSet,
} from 'ai';
import OpenAI from 'openai';

/** What people do with a model, by the clients that they do it with. Each says the same of the same reply. */

/** Where a client is pointed. */
export type To = { baseUrl: string; key: string };

export type Call = { name: string; input: unknown };

export type Flows = {
  chat(to: To, model: string): Promise<{ text: string; outputTokens: number | undefined }>;
  /** The text, piece by piece. */
  stream(to: To, model: string): Promise<string[]>;
  /** Streams calls of tools, then reports their results to `next`, in their order. */
  tools(to: To, model: string, next: string): Promise<{ calls: Call[]; text: string }>;
  image(to: To, model: string): Promise<string>;
  structured(to: To, model: string): Promise<unknown>;
  /** Leaves a stream after its third piece. */
  abort(to: To, model: string): Promise<void>;
};

/** A picture of one point. */
export const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const RESULTS = ['noon at Leith', 'dusk at Oban'];
const HELLO = 'When does the tide turn?';
const SCHEMA = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
  additionalProperties: false,
} as const;
const TOOL_NAMES = ['tool_0', 'tool_1'];
const PIECES_SEEN = 3;

const asked = [{ role: 'user' as const, content: HELLO }];
const functions = TOOL_NAMES.map((name) => ({
  type: 'function' as const,
  function: { name, parameters: SCHEMA },
}));

const openaiOf = ({ baseUrl, key }: To): OpenAI =>
  new OpenAI({ baseURL: baseUrl, apiKey: key, maxRetries: 0 });

const openai: Flows = {
  async chat(to, model) {
    const { choices, usage } = await openaiOf(to).chat.completions.create({ model, messages: asked });
    return { text: choices[0]?.message.content ?? '', outputTokens: usage?.completion_tokens };
  },
  async stream(to, model) {
    const chunks = await Array.fromAsync(
      await openaiOf(to).chat.completions.create({ model, messages: asked, stream: true }),
    );
    return chunks.flatMap(({ choices }) => choices[0]?.delta.content || []);
  },
  async tools(to, model, next) {
    const completions = openaiOf(to).chat.completions;
    const {
      choices: [choice],
    } = await completions.stream({ model, messages: asked, tools: functions }).finalChatCompletion();
    const calls = (choice?.message.tool_calls ?? []).filter((call) => call.type === 'function');
    const results = calls.map(({ id }, index) => ({
      role: 'tool' as const,
      tool_call_id: id,
      content: RESULTS[index] ?? '',
    }));
    const answer = await completions.create({
      model: next,
      messages: [...asked, { role: 'assistant', content: null, tool_calls: calls }, ...results],
      tools: functions,
    });
    return {
      calls: calls.map((call) => ({
        name: call.function.name,
        input: JSON.parse(call.function.arguments) as unknown,
      })),
      text: answer.choices[0]?.message.content ?? '',
    };
  },
  async image(to, model) {
    const content = [
      { type: 'text' as const, text: HELLO },
      { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${PICTURE}` } },
    ];
    const { choices } = await openaiOf(to).chat.completions.create({
      model,
      messages: [{ role: 'user', content }],
    });
    return choices[0]?.message.content ?? '';
  },
  async structured(to, model) {
    const { choices } = await openaiOf(to).chat.completions.create({
      model,
      messages: asked,
      response_format: { type: 'json_schema', json_schema: { name: 'tide', schema: SCHEMA, strict: true } },
    });
    return JSON.parse(choices[0]?.message.content ?? '') as unknown;
  },
  async abort(to, model) {
    let seen = 0;
    for await (const { choices } of await openaiOf(to).chat.completions.create({
      model,
      messages: asked,
      stream: true,
    }))
      if (choices[0]?.delta.content && ++seen === PIECES_SEEN) break;
  },
};

const compatibleOf = ({ baseUrl, key }: To, id: string) =>
  createOpenAICompatible({ name: 'daybook', baseURL: baseUrl, apiKey: key, supportsStructuredOutputs: true })(
    id,
  );
const toolSet: ToolSet = Object.fromEntries(
  TOOL_NAMES.map((name) => [name, { inputSchema: jsonSchema(SCHEMA) }]),
);

const aiFlows = (aiOf: (to: To, id: string) => LanguageModel): Flows => ({
  async chat(to, model) {
    const { text, usage } = await generateText({ model: aiOf(to, model), prompt: HELLO, maxRetries: 0 });
    return { text, outputTokens: usage.outputTokens };
  },
  stream: (to, model) =>
    Array.fromAsync(streamText({ model: aiOf(to, model), prompt: HELLO, maxRetries: 0 }).textStream),
  async tools(to, model, next) {
    const result = streamText({ model: aiOf(to, model), prompt: HELLO, tools: toolSet, maxRetries: 0 });
    const calls = await result.toolCalls;
    const results: ModelMessage = {
      role: 'tool',
      content: calls.map(({ toolCallId, toolName }, index) => ({
        type: 'tool-result',
        toolCallId,
        toolName,
        output: { type: 'text', value: RESULTS[index] ?? '' },
      })),
    };
    const { text } = await generateText({
      model: aiOf(to, next),
      messages: [...asked, ...(await result.response).messages, results],
      tools: toolSet,
      maxRetries: 0,
    });
    return { calls: calls.map(({ toolName, input }) => ({ name: toolName, input: input as unknown })), text };
  },
  async image(to, model) {
    const content = [
      { type: 'text' as const, text: HELLO },
      { type: 'file' as const, data: PICTURE, mediaType: 'image/png' },
    ];
    return (
      await generateText({ model: aiOf(to, model), messages: [{ role: 'user', content }], maxRetries: 0 })
    ).text;
  },
  structured: async (to, model) =>
    (
      await generateText({
        model: aiOf(to, model),
        prompt: HELLO,
        output: Output.object({ schema: jsonSchema(SCHEMA) }),
        maxRetries: 0,
      })
    ).output,
  async abort(to, model) {
    const gone = new AbortController();
    let seen = 0;
    for await (const _ of streamText({
      model: aiOf(to, model),
      prompt: HELLO,
      maxRetries: 0,
      abortSignal: gone.signal,
    }).textStream)
      if (++seen === PIECES_SEEN) gone.abort();
  },
});

const googleOf = ({ baseUrl, key }: To, id: string) =>
  createGoogle({ baseURL: `${baseUrl}beta`, apiKey: key })(id);

const langchainOf = ({ baseUrl, key }: To, model: string): ChatOpenAI =>
  new ChatOpenAI({ model, apiKey: key, configuration: { baseURL: baseUrl }, maxRetries: 0 });

const langchain: Flows = {
  async chat(to, model) {
    const message = await langchainOf(to, model).invoke(HELLO);
    return {
      text: message.text,
      outputTokens: (message.usage_metadata as { output_tokens: number } | undefined)?.output_tokens,
    };
  },
  stream: async (to, model) =>
    (await Array.fromAsync(await langchainOf(to, model).stream(HELLO)))
      .map(({ text }) => text)
      .filter((text) => text !== ''),
  async tools(to, model, next) {
    const chunks = await Array.fromAsync(await langchainOf(to, model).bindTools(functions).stream(HELLO));
    const message = chunks.reduce((whole, chunk) => whole.concat(chunk));
    const calls = message.tool_calls ?? [];
    const results = calls.map(
      ({ id }, index) => new ToolMessage({ tool_call_id: id ?? '', content: RESULTS[index] ?? '' }),
    );
    const { text } = await langchainOf(to, next)
      .bindTools(functions)
      .invoke([new HumanMessage(HELLO), message, ...results]);
    return { calls: calls.map(({ name, args }) => ({ name, input: args })), text };
  },
  async image(to, model) {
    const content = [
      { type: 'text', text: HELLO },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PICTURE}` } },
    ];
    return (await langchainOf(to, model).invoke([new HumanMessage({ content })])).text;
  },
  structured: (to, model) =>
    langchainOf(to, model)
      .withStructuredOutput({ title: 'tide', ...SCHEMA }, { method: 'jsonSchema' })
      .invoke(HELLO),
  async abort(to, model) {
    let seen = 0;
    for await (const { text } of await langchainOf(to, model).stream(HELLO))
      if (text !== '' && ++seen === PIECES_SEEN) break;
  },
};

const anthropicOf = ({ baseUrl, key }: To): Anthropic =>
  new Anthropic({ baseURL: baseUrl.replace(/\/v1$/, ''), apiKey: key, maxRetries: 0 });
const blocks = TOOL_NAMES.map((name) => ({
  name,
  input_schema: { ...SCHEMA, required: [...SCHEMA.required] },
}));
const textOf = ({ content }: Anthropic.Message): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');
const max_tokens = 1_000;

const anthropic: Flows = {
  async chat(to, model) {
    const message = await anthropicOf(to).messages.create({ model, max_tokens, messages: asked });
    return { text: textOf(message), outputTokens: message.usage.output_tokens };
  },
  async stream(to, model) {
    const events = await Array.fromAsync(
      anthropicOf(to).messages.stream({ model, max_tokens, messages: asked }),
    );
    return events.flatMap((event) =>
      event.type === 'content_block_delta' && event.delta.type === 'text_delta' ? event.delta.text : [],
    );
  },
  async tools(to, model, next) {
    const message = await anthropicOf(to)
      .messages.stream({ model, max_tokens, messages: asked, tools: blocks })
      .finalMessage();
    const calls = message.content.filter((block) => block.type === 'tool_use');
    const results = calls.map(({ id }, index) => ({
      type: 'tool_result' as const,
      tool_use_id: id,
      content: RESULTS[index] ?? '',
    }));
    const answer = await anthropicOf(to).messages.create({
      model: next,
      max_tokens,
      messages: [
        ...asked,
        { role: 'assistant', content: message.content },
        { role: 'user', content: results },
      ],
      tools: blocks,
    });
    return { calls: calls.map(({ name, input }) => ({ name, input })), text: textOf(answer) };
  },
  async image(to, model) {
    const content = [
      { type: 'text' as const, text: HELLO },
      {
        type: 'image' as const,
        source: { type: 'base64' as const, media_type: 'image/png' as const, data: PICTURE },
      },
    ];
    return textOf(
      await anthropicOf(to).messages.create({ model, max_tokens, messages: [{ role: 'user', content }] }),
    );
  },
  async structured(to, model) {
    const message = await anthropicOf(to).messages.create({
      model,
      max_tokens,
      messages: asked,
      output_config: { format: { type: 'json_schema', schema: SCHEMA } },
    });
    return JSON.parse(textOf(message)) as unknown;
  },
  async abort(to, model) {
    let seen = 0;
    for await (const event of await anthropicOf(to).messages.create({
      model,
      max_tokens,
      messages: asked,
      stream: true,
    }))
      if (event.type === 'content_block_delta' && ++seen === PIECES_SEEN) break;
  },
};

const responseTools = TOOL_NAMES.map((name) => ({
  type: 'function' as const,
  name,
  parameters: SCHEMA,
  strict: true,
}));

const responses: Flows = {
  async chat(to, model) {
    const { output_text: text, usage } = await openaiOf(to).responses.create({ model, input: HELLO });
    return { text, outputTokens: usage?.output_tokens };
  },
  async stream(to, model) {
    const events = await Array.fromAsync(
      await openaiOf(to).responses.create({ model, input: HELLO, stream: true }),
    );
    return events.flatMap((event) => (event.type === 'response.output_text.delta' ? event.delta : []));
  },
  async tools(to, model, next) {
    const { output } = await openaiOf(to)
      .responses.stream({ model, input: HELLO, tools: responseTools })
      .finalResponse();
    const calls = output.filter((item) => item.type === 'function_call');
    const results = calls.map(({ call_id }, index) => ({
      type: 'function_call_output' as const,
      call_id,
      output: RESULTS[index] ?? '',
    }));
    const answer = await openaiOf(to).responses.create({
      model: next,
      input: [...asked, ...calls, ...results],
      tools: responseTools,
    });
    return {
      calls: calls.map(({ name, arguments: text }) => ({ name, input: JSON.parse(text) as unknown })),
      text: answer.output_text,
    };
  },
  async image(to, model) {
    const content = [
      { type: 'input_text' as const, text: HELLO },
      {
        type: 'input_image' as const,
        image_url: `data:image/png;base64,${PICTURE}`,
        detail: 'auto' as const,
      },
    ];
    return (await openaiOf(to).responses.create({ model, input: [{ role: 'user', content }] })).output_text;
  },
  async structured(to, model) {
    const { output_text: text } = await openaiOf(to).responses.create({
      model,
      input: HELLO,
      text: { format: { type: 'json_schema', name: 'tide', schema: SCHEMA } },
    });
    return JSON.parse(text) as unknown;
  },
  async abort(to, model) {
    let seen = 0;
    for await (const event of await openaiOf(to).responses.create({ model, input: HELLO, stream: true }))
      if (event.type === 'response.output_text.delta' && ++seen === PIECES_SEEN) break;
  },
};

/** Clients of chat completions, which every upstream can be asked by. */
export const CHAT_CLIENTS = {
  openai,
  '@ai-sdk/openai-compatible': aiFlows(compatibleOf),
  '@langchain/openai': langchain,
} as const;
/** Clients of other protocols. */
export const MESSAGES_CLIENT = { '@anthropic-ai/sdk': anthropic } as const;
export const RESPONSES_CLIENT = { 'openai, by responses': responses } as const;
export const GEMINI_CLIENT = { '@ai-sdk/google': aiFlows(googleOf) } as const;

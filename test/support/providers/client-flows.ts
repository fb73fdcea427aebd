import Anthropic from '@anthropic-ai/sdk';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { createGoogle } from '@ai-sdk/google';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import OpenAI from 'openai';
import { aiFlows } from './ai-flows.ts';
import {
  asked,
  type Flows,
  HELLO,
  PICTURE,
  PIECES_SEEN,
  RESULTS,
  SCHEMA,
  type To,
  TOOL_NAMES,
} from './flows.ts';

/** The flows of each client of the development dependencies. */

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

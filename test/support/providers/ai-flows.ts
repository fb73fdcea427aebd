import {
  generateText,
  jsonSchema,
  type LanguageModel,
  type ModelMessage,
  Output,
  streamText,
  type ToolSet,
} from 'ai';
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

const toolSet: ToolSet = Object.fromEntries(
  TOOL_NAMES.map((name) => [name, { inputSchema: jsonSchema(SCHEMA) }]),
);

/** The flows of the AI SDK. A stream that breaks off throws, although the package only reports it. */
export const aiFlows = (aiOf: (to: To, id: string) => LanguageModel | Promise<LanguageModel>): Flows => ({
  async chat(to, model) {
    const { text, usage } = await generateText({
      model: await aiOf(to, model),
      prompt: HELLO,
      maxRetries: 0,
    });
    return { text, outputTokens: usage.outputTokens };
  },
  async stream(to, model) {
    const errors: unknown[] = [];
    const { textStream } = streamText({
      model: await aiOf(to, model),
      prompt: HELLO,
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    });
    const pieces = await Array.fromAsync(textStream);
    if (errors.length > 0) throw errors[0];
    return pieces;
  },
  async tools(to, model, next) {
    const result = streamText({ model: await aiOf(to, model), prompt: HELLO, tools: toolSet, maxRetries: 0 });
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
      model: await aiOf(to, next),
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
      await generateText({
        model: await aiOf(to, model),
        messages: [{ role: 'user', content }],
        maxRetries: 0,
      })
    ).text;
  },
  structured: async (to, model) =>
    (
      await generateText({
        model: await aiOf(to, model),
        prompt: HELLO,
        output: Output.object({ schema: jsonSchema(SCHEMA) }),
        maxRetries: 0,
      })
    ).output,
  async abort(to, model) {
    const gone = new AbortController();
    let seen = 0;
    for await (const _ of streamText({
      model: await aiOf(to, model),
      prompt: HELLO,
      maxRetries: 0,
      abortSignal: gone.signal,
    }).textStream)
      if (++seen === PIECES_SEEN) gone.abort();
  },
});

import {
  extraOf,
  finishOf,
  imageOf,
  type ReplyName,
  usageOf,
} from '#server/providers/bridge/openai-shapes.ts';
import type { StreamPart, ToolCall } from '#server/providers/bridge/language-model.ts';

const DONE = 'data: [DONE]\n\n';

/**
 * The parts of a streamed answer as the events of a streamed chat completion. Pure.
 *
 * A reply whose stream ended without a reason has no `finish_reason` and no `[DONE]`, so that its reader
 * reads it finds it cut.
 */
export class Chunks {
  #name: ReplyName;
  #head = '';
  /** The tool calls by their ids; null: one that the provider carries out itself. */
  readonly #calls = new Map<string, { index: number; written: boolean } | null>();
  #callCount = 0;
  #failed = false;

  /** @param name how the reply is called where the provider does not say. */
  constructor(name: ReplyName) {
    this.#name = name;
  }

  /** Whether anything was said of the reply, so that its head has to be out. */
  get begun(): boolean {
    return this.#head !== '';
  }

  /** Whether the model has failed by its own words. */
  get failed(): boolean {
    return this.#failed;
  }

  /** The events that a part becomes; empty where it says nothing to a client. */
  take(part: StreamPart): string {
    switch (part.type) {
      case 'response-metadata':
        this.#rename(part);
        return '';
      case 'text-delta':
        return part.delta !== '' ? this.#delta(`{"content":${JSON.stringify(part.delta)}}`) : '';
      case 'reasoning-delta':
        return part.delta !== '' ? this.#delta(`{"reasoning_content":${JSON.stringify(part.delta)}}`) : '';
      case 'tool-input-start':
        return this.#startCall(part.id, part.toolName, part.providerExecuted === true);
      case 'tool-input-delta':
        return this.#writeCall(part.id, part.delta);
      case 'tool-call':
        return this.#endCall(part);
      case 'file': {
        const image = imageOf(part);
        return image ? this.#delta(JSON.stringify({ images: [image] })) : '';
      }
      case 'finish':
        return this.#finish(part);
      default:
        return '';
    }
  }

  /** The provider's name for the reply, which precedes its content or is absent. */
  #rename({
    id,
    modelId,
    timestamp,
  }: {
    id?: string | undefined;
    modelId?: string | undefined;
    timestamp?: Date | undefined;
  }): void {
    if (this.begun) return;
    const { id: ownId, model, createdS } = this.#name;
    this.#name = {
      id: id || ownId,
      model: modelId || model,
      createdS: timestamp ? Math.floor(timestamp.getTime() / 1_000) : createdS,
    };
  }

  #startCall(id: string, toolName: string, byProvider: boolean): string {
    if (byProvider || this.#calls.has(id)) {
      if (byProvider) this.#calls.set(id, null);
      return '';
    }
    const index = this.#callCount++;
    this.#calls.set(id, { index, written: false });
    return this.#delta(
      JSON.stringify({
        tool_calls: [
          { index, id: id || `call_${index}`, type: 'function', function: { name: toolName, arguments: '' } },
        ],
      }),
    );
  }

  #writeCall(id: string, text: string): string {
    const call = this.#calls.get(id);
    if (!call || text === '') return '';
    call.written = true;
    return this.#argumentsOf(call, text);
  }

  #argumentsOf({ index }: { index: number }, text: string): string {
    return this.#delta(
      `{"tool_calls":[{"index":${index},"function":{"arguments":${JSON.stringify(text)}}}]}`,
    );
  }

  /** The whole call, whose input may or may not have come in deltas before. */
  #endCall(part: ToolCall): string {
    const { toolCallId: id, toolName, input, providerExecuted } = part;
    const start = this.#calls.has(id) ? '' : this.#startCall(id, toolName, providerExecuted === true);
    const call = this.#calls.get(id);
    // Some providers use an id again, or have none.
    this.#calls.delete(id);
    if (!call) return start;
    const written = call.written ? '' : this.#argumentsOf(call, input || '{}');
    const extra = extraOf(part);
    return (
      start +
      written +
      ('extra_content' in extra
        ? this.#delta(JSON.stringify({ tool_calls: [{ index: call.index, ...extra }] }))
        : '')
    );
  }

  #finish({ finishReason, usage }: Extract<StreamPart, { type: 'finish' }>): string {
    const finish = finishOf(finishReason, this.#callCount > 0);
    this.#failed = finish === 'error';
    const isWhole = finish !== null && finish !== 'error';
    const ending = isWhole ? this.#delta('{}', `"${finish}"`) : '';
    const reported = usageOf(usage);
    // Before anything of the reply there is nothing that could be charged for with it.
    const usageChunk =
      reported && this.begun ? `${this.#head}[],"usage":${JSON.stringify(reported)}}\n\n` : '';
    return ending + usageChunk + (isWhole ? DONE : '');
  }

  #delta(delta: string, finish = 'null'): string {
    const first = this.begun ? '' : this.#begin();
    return `${first}${this.#head}[{"index":0,"delta":${delta},"finish_reason":${finish}}]}\n\n`;
  }

  #begin(): string {
    const { id, model, createdS } = this.#name;
    const object = JSON.stringify({ id, object: 'chat.completion.chunk', created: createdS, model });
    this.#head = `data: ${object.slice(0, -1)},"choices":`;
    return `${this.#head}[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n`;
  }
}

import type { Usage } from '#db/money.ts';
import { ReplyRecord } from '#server/providers/openai/reply-record.ts';
import type { OnStored } from '#server/providers/provider.ts';
import { finishReasonOf } from '#server/providers/openai/response-parts.ts';
import { skipBlank, skipValue, valueOf } from '#server/wire/json.ts';
import { type Inspected, PassthroughSse } from '#server/wire/passthrough-sse.ts';
import type { EventEnds } from '#server/wire/oversize-event.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import type { Redactor } from '#server/wire/redactor.ts';
import { dataOf, type PromptUsage } from '#server/wire/sse.ts';

/**
 * What the model writes: text, thoughts, refusals, arguments of calls. A literal of JSON can't hold bare
 * quotes, so nothing it writes looks like this.
 */
const DELTA = /"type": ?"response\.[a-z_.]+\.delta"/;
const DELTA_TEXT = /"delta": ?"((?:[^"\\]|\\.)*)"/;
/** Events that may be the last one, or contain an error. */
const TERMINAL = /"type": ?"(?:response\.(?:completed|incomplete|failed)|error)"|"error": ?[{"]/;

const ENDED = /"type": ?"response\.(completed|incomplete|failed)"/;

const CREATED = /"type": ?"response\.created"/;
/** Members of the response in its first event, which may be long and is not parsed. */
const ID = /"response": ?\{"id": ?"([^"\\]+)"/;
const MODEL = /"model": ?"([^"\\]+)"/;

/**
 * A streamed reply of the Responses API: its last event holds its status and usage. Pure.
 */
export class ResponsesSse extends PassthroughSse {
  readonly #record = new ReplyRecord();
  #hasBegun = false;
  #isEnded = false;
  #failed = false;
  readonly #onStored: OnStored | null;

  /** @param onStored called with the id of the response, which the first event has; null: it isn't stored. */
  constructor(redactor?: Redactor, onStored: OnStored | null = null) {
    super(redactor);
    this.#onStored = onStored;
  }

  get usage(): Usage | null {
    return this.#record.usage;
  }

  get promptUsage(): PromptUsage | null {
    return this.#record.promptUsage;
  }

  get isImplausible(): boolean {
    return this.#record.isImplausible;
  }

  get facts(): Readonly<ReplyFacts> {
    return this.#record.facts;
  }

  get complete(): boolean {
    return this.#isEnded;
  }

  get failed(): boolean {
    return this.#failed;
  }

  protected inspect(event: string): Inspected {
    if (!event.includes('data:')) return 'no_data';
    if (DELTA.test(event)) this.output.add(DELTA_TEXT.exec(event)?.[1]?.length ?? 0);
    else if (TERMINAL.test(event)) this.#lookAt(dataOf(event));
    else if (!this.#hasBegun && CREATED.test(event)) this.#begin(event);
    return 'progress';
  }

  #begin(event: string): void {
    this.#hasBegun = true;
    const id = ID.exec(event)?.[1];
    this.#record.state({ id, model: MODEL.exec(event)?.[1] });
    if (id !== undefined) this.#onStored?.(id, true);
  }

  protected override inspectOversize({ head, tail }: EventEnds): void {
    const status = ENDED.exec(head)?.[1];
    if (status === undefined) return;
    const last = (member: string): unknown => lastMember(tail, member) ?? lastMember(head, member);
    const incomplete_details = lastMember(head, 'incomplete_details');
    const [usage, tool_usage, service_tier] = ['usage', 'tool_usage', 'service_tier'].map(last);
    this.#take({
      type: `response.${status}`,
      response: { id: ID.exec(head)?.[1], status, incomplete_details, usage, tool_usage, service_tier },
    });
  }

  #lookAt(data: string | null): void {
    this.#take(parsed(data));
  }

  #take(reported: Reported | null): void {
    switch (reported?.type) {
      case 'response.completed':
      case 'response.incomplete':
        this.#isEnded = true;
        return this.#end(reported.response);
      case 'response.failed':
        this.#failed = true;
        return this.#end(reported.response);
      case 'error':
        this.#failed = true;
        return;
      case undefined:
        // A gateway's own error, in the shape of any route.
        if (reported?.error) this.#failed = true;
        return;
      default:
    }
  }

  #end(response: Response | null | undefined): void {
    if (typeof response !== 'object' || response === null) return;
    const record = this.#record;
    record.state(response);
    record.report(response.usage);
    record.facts.finishReason = finishReasonOf(response.status, response.incomplete_details);
    record.reportTools(response.output, response.tool_usage);
  }
}

type Response = {
  id?: unknown;
  model?: unknown;
  service_tier?: unknown;
  status?: unknown;
  incomplete_details?: unknown;
  output?: unknown;
  tool_usage?: unknown;
  usage?: unknown;
};
type Reported = { type?: string; error?: unknown; response?: Response | null };

function parsed(data: string | null): Reported | null {
  try {
    const value = JSON.parse(data ?? '') as unknown;
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

/**
 * The value of the last member of this name in a part of a JSON text; undefined: it has no such member. A
 * literal can't hold the name in bare quotes.
 */
function lastMember(text: string, name: string): unknown {
  const at = text.lastIndexOf(`"${name}":`);
  if (at < 0) return undefined;
  const bytes = Buffer.from(text.slice(at + name.length + 3), 'latin1');
  try {
    const start = skipBlank(bytes, 0);
    return valueOf(bytes, { start, end: skipValue(bytes, start, 0) });
  } catch {
    return undefined;
  }
}

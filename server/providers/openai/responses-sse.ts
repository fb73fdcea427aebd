import type { Usage } from '#db/money.ts';
import { parsePromptUsage, parseUsage } from '#server/providers/openai/usage.ts';
import { type Inspected, PassthroughSse } from '#server/wire/passthrough-sse.ts';
import { dataOf, type PromptUsage } from '#server/wire/sse.ts';

/**
 * What the model writes: text, thoughts, refusals, arguments of calls. A literal of JSON can't hold bare
 * quotes, so nothing it writes looks like this.
 */
const DELTA = /"type": ?"response\.[a-z_.]+\.delta"/;
const DELTA_TEXT = /"delta": ?"((?:[^"\\]|\\.)*)"/;
/** Events that may be the last one, or contain an error. */
const TERMINAL = /"type": ?"(?:response\.(?:completed|incomplete|failed)|error)"|"error": ?[{"]/;

/**
 * A streamed reply of the Responses API: its last event holds its status and usage. Pure.
 */
export class ResponsesSse extends PassthroughSse {
  #promptUsage: PromptUsage | null = null;
  #usage: Usage | null = null;
  #isEnded = false;
  #failed = false;

  get usage(): Usage | null {
    return this.#usage;
  }

  /** Set by a report without the output; the usual one has both. */
  get promptUsage(): PromptUsage | null {
    return this.#promptUsage;
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
    return 'progress';
  }

  #lookAt(data: string | null): void {
    const reported = parsed(data);
    switch (reported?.type) {
      case 'response.completed':
      case 'response.incomplete':
        this.#isEnded = true;
        this.#usage = parseUsage(reported.response?.usage) ?? this.#usage;
        if (!this.#usage) this.#promptUsage = parsePromptUsage(reported.response?.usage);
        return;
      case 'response.failed':
        this.#failed = true;
        this.#usage = parseUsage(reported.response?.usage) ?? this.#usage;
        return;
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
}

type ReportedUsage = { type?: string; error?: unknown; response?: { usage?: unknown } | null };

function parsed(data: string | null): ReportedUsage | null {
  try {
    const value = JSON.parse(data ?? '') as unknown;
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

import type { Usage } from '#db/money.ts';
import { anyDelta, quickDelta } from '#server/providers/anthropic/delta.ts';
import { membersOf } from '#server/providers/anthropic/raw.ts';
import {
  mergeReported,
  promptUsageOf,
  parseReportedUsage,
  type ReportedUsage,
  usageOf,
} from '#server/providers/anthropic/usage.ts';
import type { PromptUsage } from '#server/wire/sse.ts';
import { type Inspected, PassthroughSse } from '#server/wire/passthrough-sse.ts';
import { dataOf } from '#server/wire/sse.ts';

/** A streamed message on its way to a client of Anthropic's protocol. Pure. */
export class NativeSse extends PassthroughSse {
  #prompt: ReportedUsage | null = null;
  #reported: ReportedUsage | null = null;
  #isStopped = false;
  #failed = false;

  get usage(): Usage | null {
    return this.#reported && usageOf(this.#reported);
  }

  get promptUsage(): PromptUsage | null {
    return promptUsageOf(this.#prompt);
  }

  get complete(): boolean {
    return this.#isStopped;
  }

  get failed(): boolean {
    return this.#failed;
  }

  protected inspect(event: string): Inspected {
    const quick = quickDelta(event);
    if (quick) {
      this.output.add(quick.inside.length);
      return 'progress';
    }
    const members = parsed(dataOf(event));
    if (!members) return 'no_data';
    const type = members.get('type');
    switch (type) {
      case '"message_start"':
        this.#prompt ??= parseReportedUsage(membersOf(members.get('message') ?? '').get('usage'));
        break;
      case '"content_block_delta"':
        this.output.add(anyDelta(members)?.inside.length ?? 0);
        break;
      case '"message_delta"': {
        const reported = parseReportedUsage(members.get('usage'));
        if (reported) this.#reported = mergeReported(mergeReported(this.#prompt, this.#reported), reported);
        break;
      }
      case '"message_stop"':
        this.#isStopped = true;
        break;
      case '"error"':
        this.#failed = true;
        break;
      default:
    }
    // Before its message has begun an upstream that says it is there has got nowhere.
    return type !== '"ping"' || this.#prompt !== null ? 'progress' : 'no_data';
  }
}

function parsed(data: string | null): ReadonlyMap<string, string> | null {
  if (data === null) return null;
  try {
    JSON.parse(data);
    return membersOf(data);
  } catch {
    return null;
  }
}

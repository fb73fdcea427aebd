import type { Usage } from '#db/money.ts';
import { anyDelta, quickDelta } from '#server/providers/anthropic/delta.ts';
import { membersOf } from '#server/providers/anthropic/raw.ts';
import { laterOf, promptUsageOf, readTold, type Told, usageOf } from '#server/providers/anthropic/usage.ts';
import type { PromptUsage } from '#server/providers/provider.ts';
import { PassingSse } from '#server/wire/passing-sse.ts';
import { dataOf } from '#server/wire/sse-events.ts';

/** A streamed message on its way to a client that speaks Anthropic's protocol itself. Pure. */
export class NativeSse extends PassingSse {
  #prompt: Told | null = null;
  #told: Told | null = null;
  #isStopped = false;
  #failed = false;

  get usage(): Usage | null {
    return this.#told && usageOf(this.#told);
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

  protected look(event: string): boolean {
    const quick = quickDelta(event);
    if (quick) {
      this.written.add(quick.inside.length);
      return true;
    }
    const members = parsed(dataOf(event));
    if (!members) return false;
    const type = members.get('type');
    switch (type) {
      case '"message_start"':
        this.#prompt ??= readTold(membersOf(members.get('message') ?? '').get('usage'));
        break;
      case '"content_block_delta"':
        this.written.add(anyDelta(members)?.inside.length ?? 0);
        break;
      case '"message_delta"': {
        const told = readTold(members.get('usage'));
        if (told) this.#told = laterOf(laterOf(this.#prompt, this.#told), told);
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
    return type !== '"ping"' || this.#prompt !== null;
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

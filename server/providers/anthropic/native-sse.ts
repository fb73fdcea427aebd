import type { Usage } from '#db/money.ts';
import { anyDelta, quickDelta } from '#server/providers/anthropic/delta.ts';
import { membersOf } from '#server/wire/raw-json.ts';
import { MessageRecord } from '#server/providers/anthropic/message-record.ts';
import type { PromptUsage } from '#server/wire/sse.ts';
import type { Redactor } from '#server/wire/redactor.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import { type Inspected, PassthroughSse } from '#server/wire/passthrough-sse.ts';
import { dataOf } from '#server/wire/sse.ts';

/** A streamed message on its way to a client of Anthropic's protocol. Pure. */
export class NativeSse extends PassthroughSse {
  readonly #record = new MessageRecord();
  readonly #endsAtReason: boolean;
  #isStopped = false;
  #failed = false;

  /** @param endsAtReason its stop reason completes a reply; clients of messages need its last event. */
  constructor(redactor?: Redactor, endsAtReason = false) {
    super(redactor);
    this.#endsAtReason = endsAtReason;
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
    return this.#isStopped || (this.#endsAtReason && this.#record.facts.finishReason !== null);
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
        this.#record.begin(membersOf(members.get('message') ?? ''));
        break;
      case '"content_block_delta"':
        this.output.add(anyDelta(members)?.inside.length ?? 0);
        break;
      case '"message_delta"':
        this.#record.end(membersOf(members.get('delta') ?? ''), members.get('usage'));
        break;
      case '"message_stop"':
        this.#isStopped = true;
        break;
      case '"error"':
        this.#failed = true;
        break;
      default:
    }
    // Before its message has begun an upstream that says it is there has got nowhere.
    return type !== '"ping"' || this.#record.hasPrompt ? 'progress' : 'no_data';
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

import { ACCOUNT_CONCURRENT_MAX, BYTES_PER_TOKEN, COMPLETION_ESTIMATE_TOKENS, TOKENS_MAX } from '#server/bounds.ts';
import { Refusal } from '#server/errors.ts';

/** What an admitted request reserves until it settles. */
export type Hold = { tokens: number; release(): void };

/** What is held, by account. */
export class Admission {
  readonly #held = new Map<string, { requests: number; tokens: number }>();

  /** Reserves for one request, or refuses it. */
  admit(account: string, tokens: number): Hold | Refusal {
    const held = this.#held.get(account) ?? { requests: 0, tokens: 0 };
    if (held.requests >= ACCOUNT_CONCURRENT_MAX) return new Refusal('rate_limit_exceeded');
    held.requests++;
    held.tokens += tokens;
    this.#held.set(account, held);
    let released = false;
    return {
      tokens,
      release: () => {
        if (released) return;
        released = true;
        held.requests--;
        held.tokens -= tokens;
        if (held.requests === 0) this.#held.delete(account);
      },
    };
  }

  /** What an account holds at this moment. */
  held(account: string): { requests: number; tokens: number } {
    return { ...(this.#held.get(account) ?? { requests: 0, tokens: 0 }) };
  }
}

/** The prompt by its bytes, and the completion by the client's own limit or our estimate. */
export function estimateHold(bodyBytes: number, completionLimit: number | null): number {
  return Math.min(TOKENS_MAX, promptEstimate(bodyBytes) + Math.min(completionLimit ?? Infinity, COMPLETION_ESTIMATE_TOKENS));
}

/** About how many tokens a request body of this size is, when no provider has said. */
export function promptEstimate(bodyBytes: number): number {
  return Math.ceil(bodyBytes / BYTES_PER_TOKEN);
}

import type { DeclaredState, StateApplied, StatePlan } from '#server/contract/desired-state/desired-state.ts';
import type { DesiredState } from '#server/decide/apply.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { StoreUnavailable } from '#db/postgres/connect.ts';

/** The desired state at a remote server, over its management API. */

const TIMEOUT_MS = 60_000;
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost']);

export class RemoteState {
  readonly #server: string;
  readonly #key: string;

  /**
   * @param server its address.
   * @param key the management key.
   * @throws {DecisionError} for an address over which the key would be readable.
   */
  constructor(server: string, key: string) {
    const url = URL.parse(server);
    if (!url || !['http:', 'https:'].includes(url.protocol))
      throw new DecisionError(
        'invalid',
        'The server must be an address such as https://daybook.example.com.',
      );
    if (url.protocol === 'http:' && !LOOPBACK.has(url.hostname))
      throw new DecisionError('invalid', 'The management key is sent over HTTPS only. Use https://…');
    this.#server = url.origin;
    this.#key = key;
  }

  plan(state: DesiredState, prune: boolean): Promise<StatePlan> {
    return this.#post('plan', { state: declared(state), prune });
  }

  /** @param digest of the plan that was agreed to; undefined: any. */
  apply(state: DesiredState, prune: boolean, digest: string | undefined): Promise<StateApplied> {
    return this.#post('apply', { state: declared(state), prune, digest });
  }

  async #post<T>(action: 'plan' | 'apply', body: object): Promise<T> {
    let reply: Response;
    try {
      reply = await fetch(`${this.#server}/api/v1/desired-state/${action}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${this.#key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        // A redirect could lead the key elsewhere.
        redirect: 'error',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch {
      throw new StoreUnavailable(
        `${this.#server} can't be reached. Nothing is known to be applied; plan again.`,
      );
    }
    const text = await reply.text();
    const said = parsed(text) as (T & { error?: { code: string; message: string } }) | null;
    if (reply.ok && said !== null) return said;
    if (reply.status >= 500 || !said?.error)
      throw new StoreUnavailable(
        `${this.#server} replied ${reply.status}${said?.error ? `: ${said.error.message}` : ''}`,
      );
    throw new DecisionError(codeOf(reply.status), said.error.message);
  }
}

function codeOf(status: number): DecisionError['code'] {
  switch (status) {
    case 400:
      return 'invalid';
    case 404:
      return 'not_found';
    case 412:
      return 'precondition_failed';
    default:
      return 'not_allowed';
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/** The state as the API takes it. */
function declared({ upstreams, models, plans, prices }: DesiredState): DeclaredState {
  return {
    ...(upstreams && {
      upstreams: Object.fromEntries(
        [...upstreams].map(([name, { terms, saysPaused, credentials }]) => [
          name,
          {
            terms,
            keep_paused: !saysPaused,
            ...(credentials && { credentials: Object.fromEntries(credentials) }),
          },
        ]),
      ),
    }),
    ...(models && { models: Object.fromEntries(models) }),
    ...(plans && { plans: Object.fromEntries(plans) }),
    ...(prices && { prices: Object.fromEntries(prices) }),
  };
}

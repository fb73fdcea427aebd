import type { ControlLine } from '#db/audit/verify/log-verifier.ts';
import type { Finding } from '#db/audit/verify/report.ts';

/** Reserved account names are streams without events; see `daybook.append`. */
const NAME_CLAIM = 'account-name/';
/**
 * Idempotency keys are reserved the same way: `rotation/<key>/<idempotency key>` of key rotations,
 * `adjustment/<account>/<idempotency key>` of adjusted usage, and `idempotency/<actor>/<idempotency key>` of
 * other changes.
 */
const KEY_CLAIM = /^((?:rotation|adjustment)\/[^/]+|idempotency\/[^/]+\/[^/]+)\//;
/** A change of the management API reserves its idempotency key, and that key with its request. */
const CLAIMS_OF_CHANGE = 2;

type StreamState = { version: number; position: number };

/**
 * Verifies the control streams of a log: their versions are consecutive, and `daybook.stream_head` has the
 * last ones.
 */
export class Streams {
  readonly #streams = new Map<string, StreamState>();
  /** The reservations of names, each with the position of its event. */
  readonly #names = new Map<string, number>();
  /** The claims of each key's rotations, of each account's adjustments and of each actor's changes. */
  readonly #keyed = new Map<string, number>();
  readonly #isFullLog: boolean;
  readonly findings: Finding[] = [];

  /**
   * @param isFullLog whether the log is read from its beginning; otherwise the first version of each stream
   * is accepted as it is.
   */
  constructor(isFullLog: boolean) {
    this.#isFullLog = isFullLog;
  }

  addEvent(
    { stream, version, position, event }: Pick<ControlLine, 'stream' | 'version' | 'position' | 'event'>,
    table = 'log',
  ): void {
    const before = this.#streams.get(stream)?.version ?? (this.#isFullLog ? 0 : version - 1);
    if (version !== before + 1)
      this.findings.push({
        position,
        table,
        problem: `has version ${version} of the stream ${stream} instead of ${before + 1}`,
      });
    this.#streams.set(stream, { version, position });
    if (event?.type === 'account.registered') this.#names.set(NAME_CLAIM + event.name, position);
    if (event?.type === 'account.topped_up')
      this.#names.set(`top-up/${event.account}/${event.reference}`, position);
    if (event?.type === 'key.rotated') this.#count(`rotation/${event.key}`);
    if (event?.type === 'quota.adjusted') this.#count(`adjustment/${event.account}`);
    if (event && 'actor' in event) this.#count(`idempotency/${event.actor}`, CLAIMS_OF_CHANGE);
  }

  #count(keyed: string, more = 1): void {
    this.#keyed.set(keyed, (this.#keyed.get(keyed) ?? 0) + more);
  }

  /**
   * Compares the stream_head table with the events. @param head the position reported for rows without
   * events.
   */
  compare(heads: ReadonlyMap<string, number>, head: number): Finding[] {
    const found: Finding[] = [];
    const find = (stream: string, problem: string): void => {
      found.push({
        position: this.#streams.get(stream)?.position ?? this.#names.get(stream) ?? head,
        table: 'stream_head',
        problem: `the row of ${stream} ${problem}`,
      });
    };
    for (const [stream, { version }] of this.#streams) {
      const stored = heads.get(stream);
      if (stored !== version)
        find(
          stream,
          stored === undefined ? 'is missing' : `has version ${stored}, and the events end at ${version}`,
        );
    }
    for (const name of this.#names.keys())
      if (!heads.has(name)) find(name, 'is missing, which reserves a name');
    const unused = new Map(this.#keyed);
    for (const [stream, version] of heads) {
      if (this.#streams.has(stream)) continue;
      if (this.#names.has(stream) && version === 0) continue;
      const [, keyed] = KEY_CLAIM.exec(stream) ?? [];
      if (version !== 0) find(stream, `has version ${version}, and the stream has no event`);
      else if (keyed !== undefined) {
        // An event does not name its idempotency key, so they can only be counted.
        const left = unused.get(keyed) ?? 0;
        unused.set(keyed, left - 1);
        if (left <= 0) find(stream, 'reserves an idempotency key of a change that no event has');
      } else find(stream, 'reserves a name that no event has');
    }
    return found;
  }
}

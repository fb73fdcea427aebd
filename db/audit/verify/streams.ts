import type { ControlRow } from '#db/audit/verify/verifier.ts';
import type { Finding } from '#db/audit/verify/report.ts';

/** Names that are taken are streams without events; see `daybook.append`. */
const NAME_CLAIM = 'account-name/';

type Seen = { version: number; position: number };

/**
 * The control streams of a log: whether their versions follow one another, and whether `daybook.stream_head`
 * has what they came to.
 */
export class Streams {
  readonly #seen = new Map<string, Seen>();
  readonly #names = new Set<string>();
  readonly #isWhole: boolean;
  readonly findings: Finding[] = [];

  /**
   * @param isWhole whether the log is read from its beginning; otherwise the first version of each stream is
   * taken as it is.
   */
  constructor(isWhole: boolean) {
    this.#isWhole = isWhole;
  }

  take({ stream, version, position, event }: ControlRow, table = 'log'): void {
    const before = this.#seen.get(stream)?.version ?? (this.#isWhole ? 0 : version - 1);
    if (version !== before + 1)
      this.findings.push({
        position,
        table,
        problem: `has version ${version} of the stream ${stream}, where ${before + 1} comes next`,
      });
    this.#seen.set(stream, { version, position });
    if (event?.type === 'account.registered') this.#names.add(NAME_CLAIM + event.name);
  }

  /**
   * Where the table of heads says something else than the events. @param head the position that stands for
   * rows that no event is about.
   */
  compare(heads: ReadonlyMap<string, number>, head: number): Finding[] {
    const found: Finding[] = [];
    const find = (stream: string, problem: string): void => {
      found.push({
        position: this.#seen.get(stream)?.position ?? head,
        table: 'stream_head',
        problem: `the row of ${stream} ${problem}`,
      });
    };
    for (const [stream, { version }] of this.#seen) {
      const stored = heads.get(stream);
      if (stored !== version)
        find(
          stream,
          stored === undefined ? 'is missing' : `says version ${stored}, and the events go to ${version}`,
        );
    }
    for (const [stream, version] of heads) {
      if (this.#seen.has(stream)) continue;
      if (version !== 0) find(stream, `says version ${version}, and there is no event of it`);
      else if (!this.#names.has(stream)) find(stream, 'takes a name that no event has');
    }
    return found;
  }
}

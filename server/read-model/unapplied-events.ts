import type { UnreadableEventError } from '#db/log/read.ts';
import { matches } from '#db/limits/permissions.ts';

/** The newest event of a subject that this version can't apply. `type` is its code in the log. */
export type Unapplied = { subject: string; position: number; type: number | null };

/** The kinds of subjects that calls of this version depend on, or that it knows they don't depend on. */
const KINDS = [
  'account',
  'key',
  'plan',
  'model',
  'plan_price',
  'dispatch',
  'upstream',
  'member',
  'invitation',
  'session',
  'registration',
  'log',
];
/** Stands for every subject. */
const EVERYTHING = '*';

/**
 * Control events that this version can't apply and may not skip: those of a newer version, and damaged ones.
 * What depends on their subjects can't be proven any more, so it is not served; everything else is. An event
 * of an unknown kind of subject concerns its key or its account and, without either, everything.
 */
export class UnappliedEvents {
  /** One for each subject. */
  readonly #bySubject = new Map<string, Unapplied>();

  note({ position, row }: Pick<UnreadableEventError, 'position' | 'row'>): Unapplied {
    const unapplied = { subject: subjectOf(row), position, type: row?.type ?? null };
    this.#bySubject.set(unapplied.subject, unapplied);
    return unapplied;
  }

  get isEmpty(): boolean {
    return this.#bySubject.size === 0;
  }

  /** Whether nothing can be served. */
  get isEverything(): boolean {
    return this.#bySubject.has(EVERYTHING);
  }

  /** The event that keeps a subject from being served, such as the `key` with an id. */
  of(kind: string, id: string): Unapplied | undefined {
    // Looked up for every call, and nearly always empty.
    if (this.#bySubject.size === 0) return undefined;
    return this.#bySubject.get(`${kind}/${id}`) ?? this.#bySubject.get(EVERYTHING);
  }

  /** The same for a model: its routing, and every price that may be its. */
  ofModel(name: string): Unapplied | undefined {
    if (this.#bySubject.size === 0) return undefined;
    return (
      this.of('dispatch', name) ??
      this.#bySubject.values().find(({ subject }) => {
        const pattern = PRICE.exec(subject)?.[1];
        return pattern !== undefined && isPriceOf(pattern, name);
      })
    );
  }

  /** In the order in which the subjects were first affected. */
  get all(): Unapplied[] {
    return [...this.#bySubject.values()];
  }
}

/** The stream of a price, or of a plan's price. */
const PRICE = /^(?:model|plan_price\/[^/]*)\/(.*)$/;

function isPriceOf(pattern: string, name: string): boolean {
  const [priced, called] = [pattern.toLowerCase(), name.toLowerCase()];
  return priced.includes('*') ? matches(priced.split('*'), called) : priced === called;
}

function subjectOf(row: UnreadableEventError['row']): string {
  const stream = row?.stream ?? null;
  if (stream !== null && KINDS.includes(stream.split('/', 1)[0] as string)) return stream;
  if (row?.key != null) return `key/${row.key}`;
  return row?.account == null ? EVERYTHING : `account/${row.account}`;
}

/** The next change of a subject names the version after this one, though its event was not applied. */
export function advance<T extends { version: number }>(
  subjects: Map<string, T>,
  id: string,
  version: number,
): void {
  const subject = subjects.get(id);
  if (subject) subjects.set(id, { ...subject, version });
}

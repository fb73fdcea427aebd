/**
 * The subjects of limits: whose usage a limit counts. Pure.
 *
 * Terms belong to a holder, an account or a key. A limit of them counts the calls of the holder together, or
 * those of each end user, session or tag apart: `PER` has a row for each such kind. Admission, the audit's
 * replay, messages and pages read the rows and name no kind themselves. A new kind needs its row here, its
 * line in `daybook.subjects_of`, its line in the tests' own table (test/support/subjects.ts), and its
 * description in docs/limits.md; a test compares all of them.
 */

/** Who a call is for, below its account and key, as keyed pseudonyms; the fields are those of events. */
export type CallAttribution = {
  end_user?: string | undefined;
  session?: string | undefined;
  tags?: readonly string[] | undefined;
};

/** What decides which limits a call is charged to. */
export type ChargedCall = CallAttribution & {
  account: string;
  /** Its parent account, and that one's. */
  parents?: readonly string[] | undefined;
  key: string;
};

type PerRow = {
  /** Stored in projections. Never reused, and its meaning never changes; 0 stands for the holder. */
  code: number;
  /** One and several, in messages. */
  names: readonly [one: string, several: string];
  /** Those of a call. */
  of: (call: CallAttribution) => readonly string[];
};

const NONE: readonly string[] = [];

export const PER = {
  end_user: {
    code: 1,
    names: ['end user', 'end users'],
    of: ({ end_user }) => (end_user === undefined ? NONE : [end_user]),
  },
  session: {
    code: 2,
    names: ['session', 'sessions'],
    of: ({ session }) => (session === undefined ? NONE : [session]),
  },
  tag: { code: 3, names: ['tag', 'tags'], of: ({ tags }) => tags ?? NONE },
} as const satisfies Record<string, PerRow>;

/** The kinds that a limit can count apart. */
export type Per = keyof typeof PER;
export const PER_NAMES = Object.keys(PER) as readonly Per[];
/** The code of limits of the holder itself. */
export const PER_HOLDER = 0;

/** The kind that each stored code stands for. */
const PER_OF: ReadonlyMap<number, Per> = new Map(PER_NAMES.map((per) => [PER[per].code, per]));
/** The stored code of a kind; of null, the holder itself. */
export const perCode = (per: Per | null): number => (per === null ? PER_HOLDER : PER[per].code);
/** The kind of a stored code. @throws {RangeError} where a newer version wrote it. */
export function perOf(code: number): Per | null {
  const per = code === PER_HOLDER ? null : PER_OF.get(code);
  if (per === undefined) throw new RangeError(`limits per kind ${code} are not known`);
  return per;
}

export type HolderKind = 'account' | 'key';
export type SubjectKind = HolderKind | Per;
const isPer = (kind: string): kind is Per => Object.hasOwn(PER, kind);

/** Whose a limit is, as a message to the caller begins: "The account's", "This end user's". */
export const whoseOf = (kind: SubjectKind): string =>
  isPer(kind) ? `This ${PER[kind].names[0]}'s` : `The ${kind}'s`;

/** The name of a holder of terms: `account/<id>` or `key/<id>`. */
export const holderName = (kind: HolderKind, id: string): string => `${kind}/${id}`;

/** The first part of the names of the subjects that a holder counts apart, to be followed by a pseudonym. */
export const subjectPrefix = (per: Per, account: string, key: string | null): string =>
  key === null ? `${per}/${account}/` : `${per}/${account}/${key}/`;

/**
 * A subject that a call is charged to. `name` is that of its allowances: the holder's own, or
 * `<kind>/<account>/<pseudonym>` of an account's terms, `<kind>/<account>/<key>/<pseudonym>` of a key's.
 */
export type ChargedSubject = { name: string; holder: string; per: Per | null; account: string };

const ALL_KINDS: readonly (Per | null)[] = [null, ...PER_NAMES];

/**
 * The subjects that a call is charged to, where terms limit them.
 * @param kindsOf the kinds that the terms of a holder limit; by default all. A call has up to 44 subjects, of
 * which few are limited.
 */
export function subjectsOf(
  call: ChargedCall,
  kindsOf: (holder: string) => readonly (Per | null)[] = () => ALL_KINDS,
): ChargedSubject[] {
  const { account, parents = NONE, key } = call;
  const subjects: ChargedSubject[] = [];
  const add = (holder: string, owner: string, ofKey: string | null): void => {
    for (const per of kindsOf(holder)) {
      if (per === null) {
        subjects.push({ name: holder, holder, per, account: owner });
        continue;
      }
      const prefix = subjectPrefix(per, owner, ofKey);
      for (const each of new Set<string>(PER[per].of(call)))
        subjects.push({ name: `${prefix}${each}`, holder, per, account: owner });
    }
  };
  add(holderName('account', account), account, null);
  for (const parent of parents) add(holderName('account', parent), parent, null);
  add(holderName('key', key), account, key);
  return subjects;
}

/** What a subject's name says. The account of a key is not in it. */
export type SubjectParts = {
  kind: SubjectKind;
  account: string | null;
  key: string | null;
  pseudonym: string | null;
};

/** @throws {RangeError} where it is not the name of a subject. */
export function parseSubject(name: string): SubjectParts {
  const [kind, ...ids] = name.split('/') as [SubjectKind, ...string[]];
  if (kind === 'account') return { kind, account: ids[0] ?? '', key: null, pseudonym: null };
  if (kind === 'key') return { kind, account: null, key: ids[0] ?? '', pseudonym: null };
  if (!isPer(kind)) throw new RangeError(`${name} is not a subject of limits`);
  const [account = '', second = '', third] = ids;
  return third === undefined
    ? { kind, account, key: null, pseudonym: second }
    : { kind, account, key: second, pseudonym: third };
}

/** The holder of the terms that limit a subject, and the kind that they count apart. */
export function holderOf(name: string): Pick<ChargedSubject, 'holder' | 'per'> {
  const { kind, account, key } = parseSubject(name);
  if (kind === 'account' || kind === 'key') return { holder: name, per: null };
  return { holder: key === null ? holderName('account', account ?? '') : holderName('key', key), per: kind };
}
